// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package drive

import (
	"slices"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/distributor/internal/delivery/plan"
	"github.com/leatdev/leat/services/distributor/internal/rollout"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

const (
	// maxFailure bounds what a rollout keeps of why a member fails, in bytes.
	maxFailure = 240
	// maxDigests bounds the memory.
	maxDigests = 1 << 16
)

// observe returns what the rollout does not know yet of its members. known has followed it.
func observe(record *Record, known *memory, at time.Time, digests *specDigests) []rollout.Event {
	var events []rollout.Event
	var brought *offer
	change := rollout.Event{Kind: rollout.Membership, At: at}
	there := map[string]struct{}{} // the ones that take part, if all are read
	for m := range known.seen() {
		p := known.byUID[m.Service.UID]
		switch {
		case !m.isMember():
			if p != nil && !known.isAll {
				change.Left = append(change.Left, p.UID)
			}
			continue
		case p == nil:
			if brought == nil {
				brought = record.offer()
			}
			if joined, ok := record.join(*m, brought); ok {
				change.Joined = append(change.Joined, joined)
				p = &rollout.Progress{UID: joined.UID, From: joined.From, To: joined.To}
			} else {
				continue
			}
		}
		if known.isAll {
			there[p.UID] = struct{}{}
		}
		if has, health := m.healthOf(record, p, digests); has != p.Has || health != p.Health {
			events = append(events, rollout.Event{Kind: rollout.Report, At: at, Member: p.UID, Has: has, Health: health, Reason: m.failure(health)})
		}
		if isHeld := m.isHeld(); m.IsOnline != p.IsOnline || isHeld != p.IsHeld {
			events = append(events, rollout.Event{Kind: rollout.Presence, At: at, Member: p.UID, Online: m.IsOnline, Held: isHeld})
		}
	}
	for uid := range known.missed(there) {
		change.Left = append(change.Left, uid)
	}
	if slices.Sort(change.Left); len(change.Left)+len(change.Joined) > 0 {
		events = append([]rollout.Event{change}, events...)
	}
	return events
}

// healthOf returns the content of the agent's report: the name of the release that it is about,
// among the ones that a member goes from and to, and its health.
func (s Seen) healthOf(record *Record, p *rollout.Progress, digests *specDigests) (has string, health rollout.Health) {
	tried, ok := s.Report.Tried()
	if !ok {
		return "", rollout.Progressing
	}
	has = s.releaseOf(tried, record, p, digests)
	switch s.Report.Phase {
	case catalog.PhaseHealthy:
		return has, rollout.Healthy
	case catalog.PhaseFailed, catalog.PhaseDegraded:
		return has, rollout.Failing
	case catalog.PhaseUnknown, catalog.PhasePending, catalog.PhaseSyncing, catalog.PhaseProgressing, catalog.PhasePaused:
	}
	return has, rollout.Progressing
}

// failure returns what the agent reports of a failing service; empty for others.
func (s Seen) failure(health rollout.Health) string {
	if health != rollout.Failing {
		return ""
	}
	text, problem := "", s.Report.Problem
	for _, object := range s.Report.Objects {
		if problem == nil && object.Problem != nil {
			text, problem = object.Kind+" "+object.Name+": ", object.Problem
		}
	}
	if problem == nil {
		return ""
	}
	text += problem.Message
	if problem.Reason != 0 {
		text = problem.Reason.String() + ": " + text
	}
	text = strings.Join(strings.Fields(text), " ")
	return strings.ToValidUTF8(text[:min(len(text), maxFailure)], "")
}

// releaseOf returns the name of the release that an agent has tried, or "".
//
// Two releases may differ in what no plan shows, such as the ref of a source that leads to the same content.
// The one that the member is to have comes first: what its agent has is that, too.
//
// A brake, or a limit of the project, changes the digest of the spec at once, and a back end the
// digest of the configuration. Until the agent has reported on it, the member has what it had if
// its content is still that. The digest of a configuration is known of the one that the member is
// held at alone: while the agent reports another one, the member has what it had.
func (s Seen) releaseOf(tried catalog.Content, record *Record, p *rollout.Progress, digests *specDigests) string {
	names := [...]string{p.From, p.To}
	if p.IsAdmitted {
		slices.Reverse(names[:])
	}
	kept := ""
	for _, name := range names {
		release := record.Start.Release(name)
		switch {
		case !slices.Equal(tried.Digests, digestsOf(release.Content)):
		case s.isOfConfig(tried, release) && (release.Spec == nil || tried.SpecDigest == "" || tried.SpecDigest == digests.of(s, release.Spec)):
			return name
		case name == p.Has:
			kept = name
		}
	}
	return kept
}

// isOfConfig reports whether an agent has tried the configuration of a release. A release of an
// earlier version does not name its configuration.
func (s Seen) isOfConfig(tried catalog.Content, release catalog.Release) bool {
	return release.Config == "" || release.Config == s.Held.Config && tried.ConfigDigest == s.ConfigDigest
}

// specDigests remembers the digests that plans give to specs. It is for one goroutine.
type specDigests struct{ known map[specKey]string }

// specKey is the input of a digest.
type specKey struct {
	spec               string
	isPaused, isDryRun bool
	confirmation       string
	limits             *syncpolicy.Limits
	ended              time.Time
}

// of returns the digest of a spec in the plan of a service.
func (d *specDigests) of(s Seen, spec *catalog.StagedSpec) string {
	own := s.Service.Spec.Wanted()
	key := specKey{spec: spec.Digest, isPaused: own.Paused, isDryRun: own.DryRun, confirmation: own.PruneConfirmation, limits: s.Limits, ended: s.Ended}
	if known, ok := d.known[key]; ok {
		return known
	}
	if d.known == nil || len(d.known) >= maxDigests {
		d.known = map[specKey]string{}
	}
	d.known[key] = plan.SpecDigest(s.Service.Spec.At(spec).AsOf(s.Ended), s.Limits)
	return d.known[key]
}
