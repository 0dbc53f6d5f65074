// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package order decides in which order the objects of a service are applied, and which of them are hooks.
//
// It understands three dialects of annotations: Leat's own, Argo CD's and Helm's. Where an object has annotations of several, Leat's
// decide before Argo CD's, and those before Helm's, for each question by itself.
package order

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/reason"
)

// Phase is a part of a service's life. All phases but Foundation and Sync hold hooks only.
type Phase string

// The phases of a sync, in their order, and then those outside of it.
const (
	// Foundation holds the namespaces and definitions that nobody gave a place of their own. Everything else may need them.
	Foundation Phase = "Foundation"
	PreSync    Phase = "PreSync"
	Sync       Phase = "Sync"
	PostSync   Phase = "PostSync"

	SyncFail   Phase = "SyncFail"   // when one of the phases above failed
	Test       Phase = "Test"       // when everything is applied and healthy
	PreDelete  Phase = "PreDelete"  // before the service's objects go
	PostDelete Phase = "PostDelete" // when they are gone
)

// phases are all of them in the order of a Schedule.
func phases() []Phase {
	return []Phase{Foundation, PreSync, Sync, PostSync, SyncFail, Test, PreDelete, PostDelete}
}

// Deletion says when a hook is deleted. It is a set.
type Deletion uint8

// The members of a Deletion.
const (
	BeforeCreation Deletion = 1 << iota // what an earlier sync left is deleted before the hook is made anew
	OnSuccess                           // when it succeeded
	OnFailure                           // when it failed
)

// Has tells whether d holds all of what.
func (d Deletion) Has(what Deletion) bool {
	return d&what == what
}

// Member is one object at its place in a Schedule.
type Member struct {
	// Object is the object as it was given; nobody changes it.
	Object *unstructured.Unstructured
	// Hook tells an object that is run by a sync from one that the service consists of.
	Hook bool
	// Deletion says when a hook is deleted. Zero for other objects.
	Deletion Deletion
	// Ordinal tells hooks without a name of their own apart that are alike in kind, namespace, generateName and phase.
	Ordinal int

	rank rank
}

// Stage is what is applied together: the objects of one wave of one phase.
type Stage struct {
	Phase Phase
	Wave  int
	// Members are in the order in which they are to be sent; see Ranks.
	Members []Member
	// Awaited tells that more comes in the same sync which needs this stage to be healthy.
	Awaited bool
}

// String names the stage for people.
func (s Stage) String() string {
	return fmt.Sprintf("wave %d of %s", s.Wave, s.Phase)
}

// Rank is a part of a stage that is sent at once. Ranks do not wait for each other's health, but what one holds is accepted before
// the next is sent, and definitions can be used.
type Rank struct {
	Members []Member
	// Strict ranks are not sent when something before them in the stage was refused: they would fail for that, or make the
	// failure worse.
	Strict bool
}

// Ranks splits the stage into parts that follow each other.
func (s Stage) Ranks() []Rank {
	var ranks []Rank
	for i, m := range s.Members {
		if i == 0 || m.rank != s.Members[i-1].rank {
			strict := m.rank == admission || i > 0 && s.Members[i-1].rank == foundation
			ranks = append(ranks, Rank{Strict: strict})
		}
		last := &ranks[len(ranks)-1]
		last.Members = append(last.Members, m)
	}
	return ranks
}

// Schedule is the order of a service's objects. Each object stands in it once for each phase that it belongs to, or is Skipped.
type Schedule struct {
	// Stages are ordered by phase, then wave. None is empty.
	Stages []Stage
	// Skipped are objects that are not applied now, such as hooks of a first installation later on. They belong to the manifests
	// all the same: whatever the cluster has of them is left alone.
	Skipped []*unstructured.Unstructured
}

// Objects lists the objects that the service consists of, in their order.
func (s Schedule) Objects() []*unstructured.Unstructured {
	var all []*unstructured.Unstructured
	for _, stage := range s.Stages {
		for _, m := range stage.Members {
			if !m.Hook {
				all = append(all, m.Object)
			}
		}
	}
	return all
}

// Of lists the stages of the given phases.
func (s Schedule) Of(phases ...Phase) []Stage {
	var all []Stage
	for _, stage := range s.Stages {
		if slices.Contains(phases, stage.Phase) {
			all = append(all, stage)
		}
	}
	return all
}

// Error is a failure that the manifests are to blame for. The message names object and annotation.
type Error struct {
	message string
}

// Reason implements reason.ReasonedError.
func (e *Error) Reason() reason.Reason { return reason.ManifestInvalid }

// Error implements error.
func (e *Error) Error() string {
	return e.message
}

func errorf(format string, args ...any) error {
	return &Error{message: fmt.Sprintf(format, args...)}
}

// New orders objects. First tells that the service has never been applied completely: then Helm's install hooks count, and later
// on those of an upgrade. The same objects get the same order however they are given. Errors: *Error.
func New(objects []*unstructured.Unstructured, first bool) (Schedule, error) {
	var s Schedule
	places := map[place][]Member{}
	for _, o := range objects {
		d, err := read(o)
		if err != nil {
			return Schedule{}, err
		}
		at := d.phases(first)
		if len(at) == 0 {
			s.Skipped = append(s.Skipped, o)
		}
		for _, phase := range at {
			p := place{phase, d.wave}
			places[p] = append(places[p], Member{Object: o, Hook: d.hook, Deletion: d.deletion, rank: rankOf(o)})
		}
	}
	for _, p := range sortedPlaces(places) {
		s.Stages = append(s.Stages, Stage{Phase: p.phase, Wave: p.wave, Members: arrange(places[p])})
	}
	s.markAwaited()
	return s, s.checkDefinitions()
}

type place struct {
	phase Phase
	wave  int
}

func sortedPlaces(places map[place][]Member) []place {
	all := make([]place, 0, len(places))
	for p := range places {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b place) int {
		return cmp.Or(slices.Index(phases(), a.phase)-slices.Index(phases(), b.phase), cmp.Compare(a.wave, b.wave))
	})
	return all
}

// arrange sorts the members of a stage, and numbers those that have no names.
func arrange(members []Member) []Member {
	slices.SortStableFunc(members, func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), compareObjects(a.Object, b.Object))
	})
	for i := 1; i < len(members); i++ {
		a, b := members[i-1].Object, members[i].Object
		if b.GetName() == "" && a.GetKind() == b.GetKind() && a.GetNamespace() == b.GetNamespace() && a.GetGenerateName() == b.GetGenerateName() {
			members[i].Ordinal = members[i-1].Ordinal + 1
		}
	}
	return members
}

func compareObjects(a, b *unstructured.Unstructured) int {
	return cmp.Or(
		strings.Compare(a.GroupVersionKind().Group, b.GroupVersionKind().Group),
		strings.Compare(a.GetKind(), b.GetKind()),
		strings.Compare(a.GetNamespace(), b.GetNamespace()),
		strings.Compare(a.GetName(), b.GetName()),
		strings.Compare(a.GetGenerateName(), b.GetGenerateName()),
		compareContents(a, b),
	)
}

// compareContents orders hooks that have no names to be told apart by.
func compareContents(a, b *unstructured.Unstructured) int {
	if a.GetName() != "" || b.GetName() != "" {
		return 0
	}
	left, _ := a.MarshalJSON() // what was read from JSON can be written as such
	right, _ := b.MarshalJSON()
	return bytes.Compare(left, right)
}

// markAwaited finds the stages that something else in a sync waits for. Nothing waits for the Foundation: that its definitions can
// be used is a matter of applying them.
func (s Schedule) markAwaited() {
	last := -1 // of the stages that make a sync
	for i, stage := range s.Stages {
		if slices.Contains([]Phase{PreSync, Sync, PostSync}, stage.Phase) {
			last = i
		}
	}
	for i := range s.Stages {
		s.Stages[i].Awaited = i < last && s.Stages[i].Phase != Foundation
	}
}

// checkDefinitions finds objects that come before the definition of their kind.
func (s Schedule) checkDefinitions() error {
	defined := map[string]int{} // the number of the stage, by the kind that is defined there
	for i, stage := range s.Stages {
		for _, m := range stage.Members {
			if kind := definedBy(m.Object); kind != "" {
				if _, known := defined[kind]; !known {
					defined[kind] = i
				}
			}
		}
	}
	for i, stage := range s.Stages {
		for _, m := range stage.Members {
			if at, ok := defined[m.Object.GroupVersionKind().GroupKind().String()]; ok && at > i {
				return errorf("%s is in %s, and the definition of its kind in %s, which comes later; move one of them",
					name(m.Object), stage, s.Stages[at])
			}
		}
	}
	return nil
}

// name names an object for people.
func name(o *unstructured.Unstructured) string {
	kind, name := o.GroupVersionKind().GroupKind().String(), o.GetName()
	if name == "" {
		name = o.GetGenerateName() + "*"
	}
	if o.GetNamespace() != "" {
		name = o.GetNamespace() + "/" + name
	}
	return kind + " " + name
}
