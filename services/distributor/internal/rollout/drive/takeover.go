// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package drive

import "github.com/leatdev/leat/services/distributor/internal/spine/catalog"

// sharedSets stands for all sets of configuration beside the uids of global services.
const sharedSets = ""

// Wish is a newcomer's need: the content of one of its sources at the commit that the others have.
type Wish struct {
	Source catalog.Source
	Commit string
}

// at returns the source that resolves to the commit.
func (w Wish) at() catalog.Source {
	source := w.Source
	source.Ref = catalog.Ref{Kind: catalog.RefCommit, Value: w.Commit}
	return source
}

// takeOver returns the admissions of services that a policy covers and that are not held at a
// release: their own spec and configuration, with the others' content of its sources, or a source's
// own content if none of them reads that ref. A service waits while its configuration refers to a
// missing value. record is the latest rollout of the policy, or nil.
//
// Others may read other folders of the ref. Then its commit is held, and the newcomer gets its own
// folder at that commit: granted has the results of such wishes. The wishes that it lacks are
// returned, and their services wait. So does a service that is derived from a template which the
// others do not have yet: see isUnshown.
func takeOver(members []Seen, record *Record, granted map[Wish]catalog.Snapshot) (admissions []catalog.Admission, wishes []Wish) {
	var others *standing
	var unsettled map[string]bool
	for _, m := range members {
		if m.isTakenOver() || len(m.Spec.Sources) == 0 || m.Config == "" {
			continue
		}
		if !m.isNewcomer() && m.Held.Spec != nil { // of an earlier version, which staged no configurations
			next := *m.Held
			next.Config, next.Pin, next.Staged = m.Config, nil, nil
			admissions = append(admissions, next)
			continue
		}
		if unsettled == nil {
			unsettled = unsettledGlobals(members)
		}
		if m.isUnshown(unsettled) {
			continue
		}
		held, isWhole := m.heldOf(), true
		content := make([]catalog.HeldSource, 0, len(m.Spec.Sources))
		for _, source := range m.Spec.Sources {
			next := find(held, source.Normal())
			if next == nil {
				if others == nil {
					others = standingOf(members, record)
				}
				var wish Wish
				if next, wish = others.contentOf(source.Normal(), find(m.Live, source.Normal()), granted); wish.Commit != "" {
					wishes = append(wishes, wish)
				}
			}
			if next == nil {
				isWhole = false // it was never resolved, or is wished for
				break
			}
			content = append(content, *next)
		}
		if isWhole {
			run := ""
			if m.Held != nil {
				run = m.Held.Run
			}
			admissions = append(admissions, catalog.Admission{ServiceUID: m.Service.UID, Service: m.Service.Name, Run: run, Content: content, Spec: m.Spec, Config: m.Config})
		}
	}
	return admissions, wishes
}

// unsettledGlobals returns the uids of the global services of which a member is held at another spec or
// configuration than its own: their template, or the facts of a cluster, have changed, and no rollout has
// brought that to all. sharedSets is among them if a member with sets is held at another configuration.
// Services that take no part in rollouts do not count, because nothing would ever bring it to them.
func unsettledGlobals(members []Seen) map[string]bool {
	unsettled := map[string]bool{}
	for _, m := range members {
		if !m.isMember() {
			continue
		}
		hasOther := m.Held.Config != m.Config
		if m.HasSets && hasOther {
			unsettled[sharedSets] = true
		}
		if m.Service.Derived != nil && (hasOther || !m.Held.Release().IsOf(m.Spec)) {
			unsettled[m.Service.Derived.GlobalUID] = true
		}
	}
	return unsettled
}

// isUnshown reports whether a service is new and made of a template, or of sets, that other members do not have
// yet, or may not have: it must not be the first to run it. Which sets a configuration is composed of is not
// known, so a service with sets waits for all members with sets.
func (s Seen) isUnshown(unsettled map[string]bool) bool {
	switch {
	case !s.isNewcomer():
		return false
	case s.HasSets && unsettled[sharedSets]:
		return true
	}
	return s.Service.Derived != nil && (s.IsDeriving || unsettled[s.Service.Derived.GlobalUID])
}

// refOf identifies the commit of a source: all folders of one ref have the same.
type refOf struct {
	repository, chart string
	ref               catalog.Ref
	layer             catalog.ArtifactLayer
}

func newRef(s catalog.Source) refOf {
	return refOf{repository: s.Repository, chart: s.Chart, ref: s.Ref, layer: s.Layer}
}

// standing is the content of a policy's members outside of a current rollout.
type standing struct {
	contents map[catalog.Source]catalog.HeldSource
	// commits are the commits of refs that hold something which a member does not have yet, or which
	// was refused.
	commits map[refOf]string
}

// standingOf returns the content that most members have. During a rollout it is the content with
// which they began it.
func standingOf(members []Seen, record *Record) *standing {
	began := map[string]string{} // names of releases, by the member's uid
	if record != nil && !record.Run.State.HasEnded() {
		for _, p := range record.Run.Members {
			began[p.UID] = p.From
		}
	}
	contents, commits := newVotes[catalog.Source, catalog.HeldSource](), newVotes[refOf, string]()
	for _, m := range members {
		content := m.heldOf()
		if from, ok := began[m.Service.UID]; ok {
			content = record.Start.Release(from).Content
		}
		for _, held := range content {
			contents.add(held.Source, held)
			if live := find(m.Live, held.Source); live != nil && live.Snapshot.Digest != held.Snapshot.Digest {
				commits.add(newRef(held.Source), held.Snapshot.Commit)
			}
		}
	}
	return &standing{contents: contents.best, commits: commits.best}
}

// contentOf returns the content of a newcomer's source: what the others have of it, what it holds at
// their commit while the ref is held there, or live, which may be nil. If that commit was not asked for
// yet, the content is nil, and the wish is for it.
func (s *standing) contentOf(
	source catalog.Source, live *catalog.HeldSource, granted map[Wish]catalog.Snapshot,
) (*catalog.HeldSource, Wish) {
	if held, ok := s.contents[source]; ok {
		return &held, Wish{}
	}
	commit := s.commits[newRef(source)]
	if commit == "" || live != nil && live.Snapshot.Commit == commit {
		return live, Wish{}
	}
	wish := Wish{Source: source, Commit: commit}
	if snapshot, ok := granted[wish]; ok {
		return &catalog.HeldSource{Source: source, Snapshot: snapshot}, Wish{}
	}
	return nil, wish
}

// votes finds the value that most voters have for a key. Of several, it is the one that first had so many.
type votes[K, V comparable] struct {
	counts map[K]map[V]int
	best   map[K]V
}

func newVotes[K, V comparable]() votes[K, V] {
	return votes[K, V]{counts: map[K]map[V]int{}, best: map[K]V{}}
}

func (v votes[K, V]) add(key K, value V) {
	counts := v.counts[key]
	if counts == nil {
		counts = map[V]int{}
		v.counts[key] = counts
	}
	counts[value]++
	if counts[value] > counts[v.best[key]] {
		v.best[key] = value
	}
}
