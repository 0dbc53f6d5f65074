// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package drive

import (
	"cmp"
	"slices"

	"github.com/leatdev/leat/services/distributor/internal/rollout"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// join returns a service that joins a rollout under way. Its intended release has its own spec if
// the rollout brings that, the contents of the rollout that it has sources of, and other folders of
// the rollout's commits; ok is false if the rollout is about none of them.
func (r *Record) join(m Seen, brought *offer) (joined rollout.Member, ok bool) {
	from := m.Held.Release()
	to := catalog.Release{Spec: from.Spec, Config: from.Config, Content: slices.Clone(from.Content)}
	if from.Config != m.Config && !m.ConfigWaits && brought.bringsConfig(m.Config) {
		to.Config, ok = m.Config, true
	}
	for i, held := range to.Content {
		if next := brought.brings(held.Source, m); next != nil {
			to.Content[i], ok = *next, true
		}
	}
	if !from.IsOf(m.Spec) && brought.bringsSpec(m.Spec) {
		next := catalog.Release{Spec: m.Spec, Config: to.Config}
		for _, source := range m.Spec.Sources {
			held := brought.brings(source.Normal(), m)
			if held == nil {
				held = m.next(source.Normal(), from, nil)
			}
			if held == nil {
				break
			}
			next.Content = append(next.Content, *held)
		}
		if len(next.Content) == len(m.Spec.Sources) {
			to, ok = next, true
		}
	}
	if !ok {
		return rollout.Member{}, false
	}
	return rollout.Member{
		UID: m.Service.UID, Name: m.Service.Name, Cluster: m.Service.Spec.Cluster, Labels: m.Service.Labels, ClusterLabels: m.ClusterLabels,
		From: r.Start.add(from), To: r.Start.add(to),
	}, true
}

// offer is the content that a rollout brings to services that join it. Members have few different
// releases, so each is read once, in the order of the members that have it.
type offer struct {
	contents [][]catalog.HeldSource
	// sources are the positions of the first content that has a source, and commits the positions of
	// the first that has a commit of a ref.
	sources map[catalog.Source]int
	commits map[refAt]int
	// specs are the digests of specs that the rollout brings to a member, and configs the names of configurations.
	specs   map[string]struct{}
	configs map[string]struct{}
}

// refAt is a commit of a ref.
type refAt struct {
	ref    refOf
	commit string
}

func (r *Record) offer() *offer {
	o := &offer{sources: map[catalog.Source]int{}, commits: map[refAt]int{}, specs: map[string]struct{}{}, configs: map[string]struct{}{}}
	names := map[string]struct{}{}
	for _, p := range r.Run.Members {
		if p.From != p.To && r.Start.SpecOf[p.To] != "" {
			o.specs[r.Start.SpecOf[p.To]] = struct{}{}
		}
		if p.From != p.To && r.Start.ConfigOf[p.From] != r.Start.ConfigOf[p.To] {
			o.configs[r.Start.ConfigOf[p.To]] = struct{}{}
		}
		if _, isKnown := names[p.To]; isKnown {
			continue
		}
		names[p.To] = struct{}{}
		content := r.Start.Contents[p.To]
		for _, held := range content {
			putFirst(o.sources, held.Source, len(o.contents))
			putFirst(o.commits, refAt{newRef(held.Source), held.Snapshot.Commit}, len(o.contents))
		}
		o.contents = append(o.contents, content)
	}
	return o
}

func putFirst[K comparable](positions map[K]int, key K, position int) {
	if _, isKnown := positions[key]; !isKnown {
		positions[key] = position
	}
}

// brings returns what the rollout brings of a source to a service that joins, or nil. The first content that
// has the source, or a commit in which what the service sees of it is another folder, decides.
func (o *offer) brings(source catalog.Source, m Seen) *catalog.HeldSource {
	first, isSame := o.sources[source]
	if live := find(m.Live, source); live != nil {
		at, isOfCommit := o.commits[refAt{newRef(source), live.Snapshot.Commit}]
		if isOfCommit && (!isSame || at < first) {
			return live
		}
	}
	if !isSame {
		return nil
	}
	return find(o.contents[first], source)
}

// bringsConfig reports whether the rollout brings a configuration to a member.
func (o *offer) bringsConfig(name string) bool {
	_, ok := o.configs[name]
	return ok && name != ""
}

// bringsSpec reports whether the rollout brings a spec to a member.
func (o *offer) bringsSpec(spec *catalog.StagedSpec) bool {
	_, ok := o.specs[spec.Digest]
	return ok
}

// isNewer reports whether members have specs, or sources hold content, that the rollout does not bring. known
// has followed it.
func (r *Record) isNewer(known *memory) bool {
	refused := refusalsOf(r.Refused)
	for m := range known.seen() {
		p := known.byUID[m.Service.UID]
		if p == nil || !m.isMember() {
			continue
		}
		release := r.Start.Release(p.To)
		if release.Spec == nil {
			release.Spec = m.Held.Spec
		}
		release.Config = cmp.Or(release.Config, m.Held.Config)
		if m.target(release, refused).Name() != release.Name() {
			return true
		}
	}
	return false
}
