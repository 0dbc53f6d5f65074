// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package order decides in which order the objects of a service are applied, and which of them are
// hooks.
//
// It understands three dialects of annotations: Leat's own, Argo CD's and Helm's. If an object has
// annotations of several dialects, Leat's override Argo CD's, and those override Helm's, for each
// question separately.
package order

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/contract/reason"
)

// Phase is a part of a service's life. All phases but Foundation and Sync hold only hooks.
type Phase string

// The phases of a sync in their order, and then the phases outside of it.
const (
	// Foundation holds the namespaces and definitions without a phase or wave of their own.
	// Everything else may need them.
	Foundation Phase = "Foundation"
	PreSync    Phase = "PreSync"
	Sync       Phase = "Sync"
	PostSync   Phase = "PostSync"

	SyncFail   Phase = "SyncFail"   // when one of the phases above failed
	Test       Phase = "Test"       // when every object is applied and healthy
	PreDelete  Phase = "PreDelete"  // before the service's objects are deleted
	PostDelete Phase = "PostDelete" // after they are gone
)

// phases returns all phases in the order of a Schedule.
func phases() []Phase {
	return []Phase{Foundation, PreSync, Sync, PostSync, SyncFail, Test, PreDelete, PostDelete}
}

// Deletion is the set of occasions on which a hook is deleted.
type Deletion uint8

// The members of a Deletion.
const (
	BeforeCreation Deletion = 1 << iota // delete what an earlier sync left before creating the hook again
	OnSuccess                           // when the hook succeeded
	OnFailure                           // when the hook failed
)

// Has reports whether d contains all of what.
func (d Deletion) Has(what Deletion) bool {
	return d&what == what
}

// Member is one object at its place in a Schedule.
type Member struct {
	// Object is the object as it was given. It must not be changed.
	Object *unstructured.Unstructured
	// Hook is set for an object that a sync runs, and unset for one that the service consists of.
	Hook bool
	// Deletion is when a hook is deleted. It is zero for other objects.
	Deletion Deletion
	// Ordinal numbers hooks without a name that have the same kind, namespace, generateName and
	// phase.
	Ordinal int

	rank rank
}

// Stage is the objects of one wave of one phase, which are applied together.
type Stage struct {
	Phase Phase
	Wave  int
	// Members are in the order in which they are sent; see Ranks.
	Members []Member
	// Awaited is set if a later stage of the same sync needs this one to be healthy.
	Awaited bool
}

// String names the stage for people.
func (s Stage) String() string {
	return fmt.Sprintf("wave %d of %s", s.Wave, s.Phase)
}

// Rank is a part of a stage that is sent at once. Ranks do not wait for each other's health. Before
// the next rank is sent, the API server has accepted this one, and its definitions can be used.
type Rank struct {
	Members []Member
	// Strict ranks are not sent after the API server refused something earlier in the stage: they
	// would fail because of it, or make the failure worse.
	Strict bool
}

// Ranks splits the stage into its ranks, in order.
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

// Schedule is the order of a service's objects. Each object appears once for each of its phases, or
// in Skipped.
type Schedule struct {
	// Stages are ordered by phase, then wave. No stage is empty.
	Stages []Stage
	// Skipped are objects that are not applied now, such as hooks of a first installation in a
	// later sync. They are part of the manifests anyway, so their copies in the cluster are left
	// alone.
	Skipped []*unstructured.Unstructured
}

// Objects returns the objects that the service consists of, in order.
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

// Of returns the stages of the given phases.
func (s Schedule) Of(phases ...Phase) []Stage {
	var all []Stage
	for _, stage := range s.Stages {
		if slices.Contains(phases, stage.Phase) {
			all = append(all, stage)
		}
	}
	return all
}

// Error is a failure that the manifests cause. The message names object and annotation.
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

// New orders objects. First means that the service has never been applied completely: Helm's
// install hooks run then, and the upgrade hooks later on. The result does not depend on the order
// of the arguments. Errors are of type *Error.
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
	return slices.SortedFunc(maps.Keys(places), func(a, b place) int {
		return cmp.Or(slices.Index(phases(), a.phase)-slices.Index(phases(), b.phase), cmp.Compare(a.wave, b.wave))
	})
}

// arrange sorts the members of a stage, and numbers those without names.
func arrange(members []Member) []Member {
	slices.SortStableFunc(members, func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), compareObjects(a.Object, b.Object))
	})
	for i := 1; i < len(members); i++ {
		a, b := members[i-1].Object, members[i].Object
		if b.GetName() == "" && a.GetKind() == b.GetKind() &&
			a.GetNamespace() == b.GetNamespace() && a.GetGenerateName() == b.GetGenerateName() {
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

// compareContents orders hooks that have no names.
func compareContents(a, b *unstructured.Unstructured) int {
	if a.GetName() != "" || b.GetName() != "" {
		return 0
	}
	left, _ := a.MarshalJSON() // an object that was read from JSON can be written as JSON
	right, _ := b.MarshalJSON()
	return bytes.Compare(left, right)
}

// markAwaited marks the stages that a later part of a sync waits for. Nothing waits for the health
// of the Foundation: applying it already waits until its definitions can be used.
func (s Schedule) markAwaited() {
	last := -1 // of the stages of a sync
	for i, stage := range s.Stages {
		if slices.Contains([]Phase{PreSync, Sync, PostSync}, stage.Phase) {
			last = i
		}
	}
	for i := range s.Stages {
		s.Stages[i].Awaited = i < last && s.Stages[i].Phase != Foundation
	}
}

// checkDefinitions returns an error if an object comes before the definition of its kind.
func (s Schedule) checkDefinitions() error {
	defined := map[string]int{} // number of the stage, by the kind that it defines
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
	kind, name := o.GroupVersionKind().GroupKind().String(), cmp.Or(o.GetName(), o.GetGenerateName()+"*")
	if o.GetNamespace() != "" {
		name = o.GetNamespace() + "/" + name
	}
	return kind + " " + name
}
