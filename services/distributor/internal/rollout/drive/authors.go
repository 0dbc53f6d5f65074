// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package drive

import (
	"context"
	"maps"
	"slices"

	"github.com/leatdev/leat/services/distributor/internal/rollout"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// of returns what the services of an object have reached.
func (r Reached) of(uid string) int64 {
	if revision, ok := r.Except[uid]; ok {
		return revision
	}
	return r.Revision
}

// least returns what all objects have reached.
func (r Reached) least() int64 {
	least := r.Revision
	for _, revision := range r.Except {
		least = min(least, revision)
	}
	return least
}

// reachedBefore returns what the services of a policy have when a rollout begins after latest, which may be nil.
// A rollout that did not complete brought nothing: the next one may bring it again.
func reachedBefore(latest *Record) Reached {
	switch {
	case latest == nil:
		return Reached{}
	case latest.Run.State == rollout.Completed:
		return latest.Start.After
	}
	return latest.Start.Before
}

// sign names the persons who wrote what a new rollout brings, and remembers which edits it brings.
//
// An edit is brought to a member whose spec or configuration changes if it came after the edits
// that the member has. Edits of sets, and of a project's list of them, are brought with a
// configuration. The edits of services that are not brought to their own spec and configuration,
// because it was refused, because they are pinned or because they are behind, count in a later
// rollout again. More persons than the true authors may be named, and never fewer.
func (w *Work) sign(ctx context.Context, policy *catalog.RolloutPolicy, members []Seen, latest, record *Record) error {
	start := &record.Start
	start.Before = reachedBefore(latest)
	start.After = Reached{Revision: w.revision}
	to := make(map[string]*rollout.Member, len(start.Members))
	for i := range start.Members {
		to[start.Members[i].UID] = &start.Members[i]
	}
	isBehind := w.p.Fleet.Behind()
	since := map[string]int64{} // by the uids of objects whose edits are brought
	except := func(uid string) {
		if start.After.Except == nil {
			start.After.Except = map[string]int64{}
		}
		start.After.Except[uid] = start.Before.of(uid)
	}
	var configured, unconfigured []*catalog.Service // members with another configuration, and without their own
	for i := range members {
		m, uid := &members[i], members[i].writtenUID()
		next := m.Held.Release()
		if member := to[m.Service.UID]; member != nil {
			from := start.Release(member.From)
			next = start.Release(member.To)
			hasOtherConfig := next.Config != from.Config
			if hasOtherConfig {
				configured = append(configured, m.Service)
			}
			if hasOtherConfig || next.Spec != nil && (from.Spec == nil || from.Spec.Digest != next.Spec.Digest) {
				after := start.Before.of(uid)
				since[uid] = after
				if known, ok := since[m.ClusterUID]; !ok || after < known {
					since[m.ClusterUID] = after
				}
			}
		}
		lacksConfig := isBehind(m.Service) || next.Spec != nil && next.Config != m.Config
		if lacksConfig {
			unconfigured = append(unconfigured, m.Service)
		}
		if lacksConfig || next.Spec != nil && next.Spec.Digest != m.Spec.Digest {
			except(uid)
		}
	}
	for _, uid := range w.p.Fleet.Layers(configured) {
		since[uid] = start.Before.of(uid)
	}
	for _, uid := range w.p.Fleet.Layers(unconfigured) {
		except(uid)
	}
	if len(since) == 0 {
		return nil
	}
	authors, err := w.p.Store.Authors(ctx, start.Before.least())
	if err != nil {
		return err
	}
	names := map[string]struct{}{}
	for _, author := range authors {
		name, isPerson := author.Person()
		if after, ok := since[author.ObjectUID]; ok && isPerson && author.Revision > after && author.At.After(policy.CreatedAt) {
			names[name] = struct{}{}
		}
	}
	start.Candidate.Authors = slices.Sorted(maps.Keys(names))
	record.Run.Candidate.Authors = start.Candidate.Authors
	return nil
}
