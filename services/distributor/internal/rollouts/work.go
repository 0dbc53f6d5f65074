// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts

import (
	"cmp"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/leatdev/leat/services/distributor/internal/catalog"
	"github.com/leatdev/leat/services/distributor/internal/rollout"
)

// keyOf names content: equal contents of equal sources have equal names.
func keyOf(content []catalog.HeldSource) string {
	h := sha256.New()
	for _, held := range content {
		_ = json.NewEncoder(h).Encode(Refusal{held.Source, held.Snapshot.Digest}) // a hash takes everything, and all of it has JSON
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// digestsOf returns the digests of content as agents report them.
func digestsOf(content []catalog.HeldSource) []string {
	digests := make([]string, len(content))
	for i, held := range content {
		digests[i] = held.Snapshot.Digest.String()
	}
	return digests
}

// find returns what content holds of a source, or nil.
func find(content []catalog.HeldSource, source catalog.Source) *catalog.HeldSource {
	i := slices.IndexFunc(content, func(h catalog.HeldSource) bool { return h.Source == source })
	if i < 0 {
		return nil
	}
	return &content[i]
}

// heldOf returns what rollouts admitted of a service.
func (s Seen) heldOf() []catalog.HeldSource {
	if s.Held == nil {
		return nil
	}
	return s.Held.Content
}

// Wish is what a newcomer needs: what one of its sources holds at the commit that the others have.
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

// takeOver returns the admissions of services that a policy covers and that have none for one of their
// sources: what the others have, or what the source holds if none of them reads that ref. record is the
// latest rollout of the policy, or nil.
//
// Others may read other folders of the ref. What is held is then its commit, and the newcomer gets its
// own folder at that commit: granted has what such wishes were found to be. The wishes that it lacks are
// returned, and their services wait.
func takeOver(members []Seen, record *Record, granted map[Wish]catalog.Snapshot) (admissions []catalog.Admission, wishes []Wish) {
	var others *standing
	for _, m := range members {
		held, isWhole := m.heldOf(), true
		content := make([]catalog.HeldSource, 0, len(m.Service.Spec.Sources))
		for _, source := range m.Service.Spec.Sources {
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
		if isWhole && !slices.Equal(content, held) {
			run := ""
			if m.Held != nil {
				run = m.Held.Run
			}
			admissions = append(admissions, catalog.Admission{ServiceUID: m.Service.UID, Service: m.Service.Name, Run: run, Content: content})
		}
	}
	return admissions, wishes
}

// refOf is what selects the commit of a source: all folders of one ref have the same.
type refOf struct {
	repository, chart string
	ref               catalog.Ref
	layer             catalog.ArtifactLayer
}

func newRef(s catalog.Source) refOf {
	return refOf{repository: s.Repository, chart: s.Chart, ref: s.Ref, layer: s.Layer}
}

// standing is what the members of a policy have outside of a rollout that is under way.
type standing struct {
	contents map[catalog.Source]catalog.HeldSource
	// commits are those of refs that hold something which a member does not have yet, or which was refused.
	commits map[refOf]string
}

// standingOf returns what most members have. During a rollout it is what they began it with.
func standingOf(members []Seen, record *Record) *standing {
	began := map[string]string{} // names of contents, by the member's uid
	if record != nil && !record.Run.State.HasEnded() {
		for _, p := range record.Run.Members {
			began[p.UID] = p.From
		}
	}
	contents, commits := newVotes[catalog.Source, catalog.HeldSource](), newVotes[refOf, string]()
	for _, m := range members {
		content := m.heldOf()
		if from, ok := began[m.Service.UID]; ok {
			content = record.Start.Contents[from]
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

// isMember reports whether a service takes part in rollouts: its agent has reported on it, something is
// held, and no person has pinned it.
func (s Seen) isMember() bool {
	return s.Report != nil && s.Held != nil && s.Held.Pin == nil && len(s.Held.Content) == len(s.Service.Spec.Sources)
}

// target returns what a service is to have: what its sources hold, but for content that was refused.
func (s Seen) target(refused []Refusal) []catalog.HeldSource {
	target := slices.Clone(s.Held.Content)
	for i, held := range target {
		live := find(s.Live, held.Source)
		if live != nil && live.Snapshot.Digest != held.Snapshot.Digest && !slices.Contains(refused, Refusal{live.Source, live.Snapshot.Digest}) {
			target[i] = *live
		}
	}
	return target
}

// member returns a service as a rollout begins with it. before is the rollout that was replaced, or nil:
// what that one began with is what the member goes back to.
func (s Seen) member(refused []Refusal, before *Record, contents map[string][]catalog.HeldSource) rollout.Member {
	from, to := s.Held.Content, s.target(refused)
	if before != nil && before.Run.State == rollout.Replaced {
		i := slices.IndexFunc(before.Run.Members, func(p rollout.Progress) bool { return p.UID == s.Service.UID && p.IsAdmitted })
		if i >= 0 {
			if earlier := before.Start.Contents[before.Run.Members[i].From]; keyOf(earlier) != keyOf(to) {
				from = earlier
			}
		}
	}
	contents[keyOf(from)], contents[keyOf(to)] = from, to
	return rollout.Member{
		UID: s.Service.UID, Name: s.Service.Name, Cluster: s.Service.Spec.Cluster, Labels: s.Service.Labels, ClusterLabels: s.ClusterLabels,
		From: keyOf(from), To: keyOf(to),
	}
}

// newID returns the id of a policy's rollout: the same on every replica.
func newID(policyUID string, number int64) string {
	sum := sha256.Sum256([]byte(policyUID + "\x00" + strconv.FormatInt(number, 10)))
	return base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:10])
}

// begin returns a new rollout, or nil if the members have what their sources hold. latest is the one
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
	for _, m := range members {
		if m.isMember() {
			next.Start.Members = append(next.Start.Members, m.member(next.Refused, latest, next.Start.Contents))
		}
	}
	slices.SortFunc(next.Start.Members, func(a, b rollout.Member) int { return cmp.Compare(a.UID, b.UID) })
	run, err := rollout.Begin(next.Start.Candidate, next.Start.Strategy, next.Start.Members, next.Start.At)
	if err != nil {
		return nil // no member is changed; more members than a rollout can have stay as they are
	}
	next.Run = run
	return next
}

// healthOf returns what a report says: the name of the content that it is about, among those that a
// member goes from and to, and its health.
func healthOf(report *catalog.ServiceReport, record *Record, p *rollout.Progress) (has string, health rollout.Health) {
	tried, ok := report.Tried()
	if !ok {
		return "", rollout.Progressing
	}
	for _, key := range []string{p.To, p.From} {
		if slices.Equal(tried.Digests, digestsOf(record.Start.Contents[key])) {
			has = key
			break
		}
	}
	switch report.Phase {
	case catalog.PhaseHealthy:
		return has, rollout.Healthy
	case catalog.PhaseFailed, catalog.PhaseDegraded:
		return has, rollout.Failing
	case catalog.PhaseUnknown, catalog.PhasePending, catalog.PhaseSyncing, catalog.PhaseProgressing, catalog.PhasePaused:
	}
	return has, rollout.Progressing
}

// observe returns what the rollout does not know yet of its members.
func observe(record *Record, members []Seen, at time.Time) []rollout.Event {
	known := map[string]*rollout.Progress{}
	for i := range record.Run.Members {
		known[record.Run.Members[i].UID] = &record.Run.Members[i]
	}
	var events []rollout.Event
	change := rollout.Event{Kind: rollout.Membership, At: at}
	for _, m := range members {
		p := known[m.Service.UID]
		switch {
		case !m.isMember():
			continue
		case p == nil:
			if joined, ok := record.join(m); ok {
				change.Joined = append(change.Joined, joined)
				p = &rollout.Progress{UID: joined.UID, From: joined.From, To: joined.To}
			} else {
				continue
			}
		}
		delete(known, m.Service.UID)
		if has, health := healthOf(m.Report, record, p); has != p.Has || health != p.Health {
			events = append(events, rollout.Event{Kind: rollout.Report, At: at, Member: p.UID, Has: has, Health: health})
		}
		if m.IsOnline != p.IsOnline {
			events = append(events, rollout.Event{Kind: rollout.Presence, At: at, Member: p.UID, Online: m.IsOnline})
		}
	}
	for uid := range known {
		change.Left = append(change.Left, uid)
	}
	if slices.Sort(change.Left); len(change.Left)+len(change.Joined) > 0 {
		events = append([]rollout.Event{change}, events...)
	}
	return events
}

// join returns a service that joins a rollout under way. What it is to have are those contents of the
// rollout that it has sources of, and other folders of the rollout's commits; ok is false if the rollout
// is about none of them.
func (r *Record) join(m Seen) (joined rollout.Member, ok bool) {
	to := slices.Clone(m.Held.Content)
	for i, held := range to {
		live := find(m.Live, held.Source)
		for _, p := range r.Run.Members {
			if next := brought(r.Start.Contents[p.To], held.Source, live); next != nil {
				to[i], ok = *next, true
				break
			}
		}
	}
	if !ok {
		return rollout.Member{}, false
	}
	r.Start.Contents[keyOf(m.Held.Content)], r.Start.Contents[keyOf(to)] = m.Held.Content, to
	return rollout.Member{
		UID: m.Service.UID, Name: m.Service.Name, Cluster: m.Service.Spec.Cluster, Labels: m.Service.Labels, ClusterLabels: m.ClusterLabels,
		From: keyOf(m.Held.Content), To: keyOf(to),
	}, true
}

// brought returns what content has for a source: the source itself, or live if that is another folder of a
// commit in it; nil if it has neither.
func brought(content []catalog.HeldSource, source catalog.Source, live *catalog.HeldSource) *catalog.HeldSource {
	if next := find(content, source); next != nil || live == nil {
		return next
	}
	isOfCommit := func(h catalog.HeldSource) bool {
		return newRef(h.Source) == newRef(source) && h.Snapshot.Commit == live.Snapshot.Commit
	}
	if slices.ContainsFunc(content, isOfCommit) {
		return live
	}
	return nil
}

// isNewer reports whether sources hold content that the rollout does not bring.
func (r *Record) isNewer(members []Seen) bool {
	for _, m := range members {
		i := slices.IndexFunc(r.Run.Members, func(p rollout.Progress) bool { return p.UID == m.Service.UID })
		if i < 0 || !m.isMember() {
			continue
		}
		for _, held := range r.Start.Contents[r.Run.Members[i].To] {
			live := find(m.Live, held.Source)
			if live != nil && live.Snapshot.Digest != held.Snapshot.Digest && !slices.Contains(r.Refused, Refusal{live.Source, live.Snapshot.Digest}) {
				return true
			}
		}
	}
	return false
}

// admissions returns what follows from decisions.
func (r *Record) admissions(decisions []rollout.Decision) []catalog.Admission {
	latest := map[string]rollout.DecisionKind{}
	for _, d := range decisions {
		if d.Kind == rollout.Admit || d.Kind == rollout.Withdraw {
			latest[d.Member] = d.Kind
		}
	}
	var all []catalog.Admission
	for _, p := range r.Run.Members {
		kind, ok := latest[p.UID]
		if !ok {
			continue
		}
		key := p.To
		if kind == rollout.Withdraw {
			key = p.From
		}
		all = append(all, catalog.Admission{ServiceUID: p.UID, Service: p.Name, Run: r.ID, Content: r.Start.Contents[key]})
	}
	return all
}

// refuse remembers what a rollout that has ended did not bring to all members.
func (r *Record) refuse() {
	if state := r.Run.State; state != rollout.RolledBack && state != rollout.Aborted {
		return
	}
	for _, p := range r.Run.Members {
		for _, held := range r.Start.Contents[p.To] {
			was := find(r.Start.Contents[p.From], held.Source)
			next := Refusal{held.Source, held.Snapshot.Digest}
			if (was == nil || was.Snapshot.Digest != held.Snapshot.Digest) && !slices.Contains(r.Refused, next) {
				r.Refused = append(r.Refused, next)
			}
		}
	}
}

// forget drops refusals of content that no source holds any more.
func (r *Record) forget(members []Seen) {
	r.Refused = slices.DeleteFunc(slices.Clone(r.Refused), func(refusal Refusal) bool {
		return !slices.ContainsFunc(members, func(m Seen) bool {
			live := find(m.Live, refusal.Source)
			return live != nil && live.Snapshot.Digest == refusal.Digest
		})
	})
}

// Replay decides again what a log says was decided, and returns the first difference as a sentence, or
// "".
func (l *Log) Replay() string {
	run, err := rollout.Begin(l.Record.Start.Candidate, l.Record.Start.Strategy, l.Record.Start.Members, l.Record.Start.At)
	if err != nil {
		return "the rollout cannot begin: " + err.Error()
	}
	_, decisions := run.Advance(l.Events...)
	return differ(l.Decisions, decisions)
}

func differ(recorded, computed []rollout.Decision) string {
	for i := range min(len(recorded), len(computed)) {
		a, b := recorded[i], computed[i]
		if a.Kind != b.Kind || a.Member != b.Member || a.Wave != b.Wave || !a.At.Equal(b.At) || a.Why != b.Why || !slices.Equal(a.Because, b.Because) {
			return fmt.Sprintf("decision %d was %s of %q and is %s of %q now", i+1, a.Kind, a.Member, b.Kind, b.Member)
		}
	}
	if len(recorded) != len(computed) {
		return fmt.Sprintf("%d decisions were recorded, and %d are made now", len(recorded), len(computed))
	}
	return ""
}

// ApproversOf returns the groups of which somebody has to approve what comes after a wave; none if
// everybody may who may approve at all.
func (r *Record) ApproversOf(wave string) []string {
	for _, w := range r.Start.Strategy.Waves {
		if w.Name == wave && w.Approval != nil {
			return w.Approval.Groups
		}
	}
	return nil
}

// Follow returns what is written if the rollout follows a person. The error is a *rollout.RefusedError.
// To retry a rollout that has ended is to try its content once more, with another rollout.
func (r *Record) Follow(e rollout.Event) (Step, error) {
	next := *r
	if e.Kind == rollout.Command && e.Verb == rollout.Retry && len(r.Refused) > 0 && r.Run.State.HasEnded() {
		next.Refused = nil
		return Step{Record: &next}, nil
	}
	if err := r.Run.Check(e); err != nil {
		return Step{}, err
	}
	var decisions []rollout.Decision
	next.Run, decisions = r.Run.Advance(e)
	if next.Run.State.HasEnded() {
		next.refuse()
	}
	return Step{Record: &next, Events: []rollout.Event{e}, Decisions: decisions}, nil
}
