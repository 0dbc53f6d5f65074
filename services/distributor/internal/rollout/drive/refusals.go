// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package drive

import (
	"slices"

	"github.com/leatdev/leat/services/distributor/internal/rollout"
)

// refusals are a set of parts that are not tried again.
type refusals map[Refusal]struct{}

func refusalsOf(all []Refusal) refusals {
	set := make(refusals, len(all))
	for _, r := range all {
		set[r] = struct{}{}
	}
	return set
}

func (r refusals) has(refusal Refusal) bool {
	_, ok := r[refusal]
	return ok
}

// refuse remembers what a rollout that has ended did not bring to all members: their specs and configurations,
// and content of sources that they had before. Where both spec and configuration were new, a corrected spec may
// need the same configuration, so their combination is refused.
func (r *Record) refuse() {
	if state := r.Run.State; state != rollout.RolledBack && state != rollout.Aborted {
		return
	}
	known := refusalsOf(r.Refused)
	r.Refused = slices.Clone(r.Refused)
	add := func(next Refusal) {
		if !known.has(next) {
			known[next] = struct{}{}
			r.Refused = append(r.Refused, next)
		}
	}
	for _, p := range r.Run.Members {
		from, to := r.Start.Release(p.From), r.Start.Release(p.To)
		hasOtherSpec := to.Spec != nil && !from.IsOf(to.Spec)
		hasOtherConfig := to.Config != "" && from.Config != to.Config
		switch {
		case hasOtherSpec && hasOtherConfig:
			add(Refusal{Spec: to.Spec.Digest, Config: to.Config})
		case hasOtherSpec:
			add(Refusal{Spec: to.Spec.Digest})
		case hasOtherConfig:
			add(Refusal{Config: to.Config})
		}
		for _, held := range to.Content {
			was := find(from.Content, held.Source)
			if was == nil && !hasOtherSpec || was != nil && was.Snapshot.Digest != held.Snapshot.Digest {
				add(Refusal{Source: held.Source, Digest: held.Snapshot.Digest})
			}
		}
	}
}

// forget drops refusals of specs that no member has any more, and of content that no source holds
// any more. The content of a service that waits for its derivation is unknown, so nothing is
// dropped beside one.
func (r *Record) forget(members []Seen) {
	absent := refusalsOf(r.Refused)
	for _, m := range members {
		if len(absent) == 0 || len(m.Spec.Sources) == 0 {
			return
		}
		delete(absent, Refusal{Spec: m.Spec.Digest})
		delete(absent, Refusal{Config: m.Config})
		delete(absent, Refusal{Spec: m.Spec.Digest, Config: m.Config})
		for _, live := range m.Live {
			delete(absent, Refusal{Source: live.Source, Digest: live.Snapshot.Digest})
		}
	}
	r.Refused = slices.DeleteFunc(slices.Clone(r.Refused), absent.has)
}
