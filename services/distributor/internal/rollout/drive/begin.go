// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package drive

import (
	"cmp"
	"crypto/sha256"
	"encoding/base32"
	"slices"
	"strconv"
	"time"

	"github.com/leatdev/leat/services/distributor/internal/rollout"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// begin returns a new rollout without its summary, or nil if the members have their specs with what the sources hold. latest is the one
// before, or nil.
func begin(policy *catalog.RolloutPolicy, members []Seen, latest *Record, at time.Time) *Record {
	next := &Record{PolicyUID: policy.UID, Number: 1}
	if latest != nil {
		next.Number, next.Refused = latest.Number+1, latest.Refused
	}
	next.ID = newID(policy.UID, next.Number)
	next.Start = Start{
		Candidate: rollout.Candidate{ID: next.ID, Generation: next.Number}, Strategy: policy.Spec.Strategy, At: at.UTC(),
		Contents: map[string][]catalog.HeldSource{},
	}
	refused, replaced := refusalsOf(next.Refused), latest.replaced()
	for _, m := range members {
		if m.isMember() {
			next.Start.Members = append(next.Start.Members, m.member(refused, latest, replaced, &next.Start))
		}
	}
	slices.SortFunc(next.Start.Members, func(a, b rollout.Member) int { return cmp.Compare(a.UID, b.UID) })
	run, err := rollout.Begin(next.Start.Candidate, next.Start.Strategy, next.Start.Members, next.Start.At)
	if err != nil {
		return nil // no member is changed
	}
	next.Run = run
	return next
}

// newID returns the id of a policy's rollout: the same on every replica.
func newID(policyUID string, number int64) string {
	sum := sha256.Sum256([]byte(policyUID + "\x00" + strconv.FormatInt(number, 10)))
	return base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:10])
}

// target returns the release that a service is to have after base: its own spec and configuration
// with the sources' content, except refused parts. A refused part gives way to base's. While a
// source of the spec was never resolved, or a value of the configuration is missing, there is no
// such release, and the target is base. A derived service that waits for its derivation has no
// sources.
func (s Seen) target(base catalog.Release, refused refusals) catalog.Release {
	spec, config := s.Spec, s.Config
	isOther, hasOther := !base.IsOf(spec), base.Config != config
	switch {
	case len(spec.Sources) == 0, isOther && hasOther && refused.has(Refusal{Spec: spec.Digest, Config: config}):
		spec, config = base.Spec, base.Config
	default:
		if isOther && refused.has(Refusal{Spec: spec.Digest}) {
			spec = base.Spec
		}
		if hasOther && refused.has(Refusal{Config: config}) {
			config = base.Config
		}
	}
	if config != base.Config && (config == "" || s.ConfigWaits) {
		return base
	}
	next := catalog.Release{Spec: spec, Config: config, Content: make([]catalog.HeldSource, 0, len(spec.Sources))}
	for _, source := range spec.Sources {
		held := s.next(source.Normal(), base, refused)
		if held == nil {
			return base
		}
		next.Content = append(next.Content, *held)
	}
	return next
}

// next returns what a source is to hold after base, or nil if that is not known. Content that was refused is
// taken nevertheless if base has none of the source: then a person has written another spec since.
func (s Seen) next(source catalog.Source, base catalog.Release, refused refusals) *catalog.HeldSource {
	live, held := find(s.Live, source), find(base.Content, source)
	switch {
	case held == nil:
		return live
	case live == nil, live.Snapshot.Digest == held.Snapshot.Digest, refused.has(Refusal{Source: source, Digest: live.Snapshot.Digest}):
		return held
	}
	return live
}

// member returns a service as a rollout begins with it. replaced are the names of the releases with
// which the rollout before began, if that one was replaced, by the uids of the members that it had
// admitted: the member goes back to the release that it began with.
func (s Seen) member(refused refusals, before *Record, replaced map[string]string, start *Start) rollout.Member {
	from := s.Held.Release()
	to := s.target(from, refused)
	if began, ok := replaced[s.Service.UID]; ok {
		earlier := before.Start.Release(began)
		if earlier.Spec == nil {
			earlier.Spec = from.Spec
		}
		earlier.Config = cmp.Or(earlier.Config, from.Config)
		if earlier.Name() != to.Name() {
			from = earlier
		}
	}
	return rollout.Member{
		UID: s.Service.UID, Name: s.Service.Name, Cluster: s.Service.Spec.Cluster, Labels: s.Service.Labels, ClusterLabels: s.ClusterLabels,
		From: start.add(from), To: start.add(to),
	}
}

// replaced returns with which releases the members that a rollout admitted began it, by their uids; none if it
// was not replaced.
func (r *Record) replaced() map[string]string {
	if r == nil || r.Run.State != rollout.Replaced {
		return nil
	}
	began := map[string]string{}
	for _, p := range r.Run.Members {
		if p.IsAdmitted {
			began[p.UID] = p.From
		}
	}
	return began
}
