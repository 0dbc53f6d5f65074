// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts

import (
	"cmp"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/syncpolicy"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
	"github.com/leatdev/leat/services/distributor/internal/plan"
	"github.com/leatdev/leat/services/distributor/internal/rollout"
)

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

// heldOf returns what rollouts admitted of a service's sources.
func (s Seen) heldOf() []catalog.HeldSource { return s.Held.Release().Content }

// isNewcomer reports whether no rollout decides about the service yet.
func (s Seen) isNewcomer() bool { return s.Held == nil || s.Held.Content == nil }

// isTakenOver reports whether the service is held at a whole release. One that an earlier version took over
// is held at content alone, or without a configuration, and has its own until it is taken over once more.
func (s Seen) isTakenOver() bool { return !s.isNewcomer() && s.Held.Spec != nil && s.Held.Config != "" }

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

// takeOver returns the admissions of services that a policy covers and that are not held at a release: their
// own spec and configuration, with what the others have of its sources, or what a source holds if none of them
// reads that ref. A service waits while its configuration refers to what is not there. record is the latest
// rollout of the policy, or nil.
//
// Others may read other folders of the ref. What is held is then its commit, and the newcomer gets its
// own folder at that commit: granted has what such wishes were found to be. The wishes that it lacks are
// returned, and their services wait. So does a service that is derived from a template which the others do
// not have yet: see isUnshown.
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

// sharedSets stands for all sets of configuration beside the uids of global services.
const sharedSets = ""

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

// isMember reports whether a service takes part in rollouts: its agent has reported on it, it is held at a
// release, and no person has pinned it.
func (s Seen) isMember() bool {
	return s.Report != nil && s.isTakenOver() && s.Held.Pin == nil && len(s.Held.Content) == len(s.Held.Spec.Sources)
}

// refusals are a set of what is not tried again.
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

// target returns the release that a service is to have after base: its own spec and configuration with what the
// sources hold, except what was refused. What was refused gives way to that of base. While a source of the spec
// was never resolved, or a value of the configuration is missing, there is no such release, and the target is
// base. A derived service that waits for its derivation has no sources.
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

// member returns a service as a rollout begins with it. replaced are the names of the releases with which the
// rollout before began, if that one was replaced, by the uids of the members that it had admitted: what it
// began with is what the member goes back to.
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

// newID returns the id of a policy's rollout: the same on every replica.
func newID(policyUID string, number int64) string {
	sum := sha256.Sum256([]byte(policyUID + "\x00" + strconv.FormatInt(number, 10)))
	return base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:10])
}

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

// healthOf returns what the agent's report says: the name of the release that it is about, among those that
// a member goes from and to, and its health.
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

// maxFailure bounds what a rollout keeps of why a member fails, in bytes.
const maxFailure = 240

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
// A brake, or a limit of the project, changes the digest of the spec at once, and a back end that of the
// configuration. Until the agent has reported on it, the member has what it had if its content is still that.
// The digest of a configuration is known of the one that the member is held at alone: while the agent reports
// another one, the member has what it had.
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

// isOfConfig reports whether an agent has tried the configuration of a release. A release of an earlier version
// does not say which one that is.
func (s Seen) isOfConfig(tried catalog.Content, release catalog.Release) bool {
	return release.Config == "" || release.Config == s.Held.Config && tried.ConfigDigest == s.ConfigDigest
}

// specDigests remembers the digests that plans give to specs. It is for one goroutine.
type specDigests struct{ known map[specKey]string }

// specKey is what a digest is made of.
type specKey struct {
	spec               string
	isPaused, isDryRun bool
	confirmation       string
	limits             *syncpolicy.Limits
}

// maxDigests bounds what is remembered.
const maxDigests = 1 << 16

// of returns the digest of a spec in the plan of a service.
func (d *specDigests) of(s Seen, spec *catalog.StagedSpec) string {
	own := s.Service.Spec.Wanted()
	key := specKey{spec: spec.Digest, isPaused: own.Paused, isDryRun: own.DryRun, confirmation: own.PruneConfirmation, limits: s.Limits}
	if known, ok := d.known[key]; ok {
		return known
	}
	if d.known == nil || len(d.known) >= maxDigests {
		d.known = map[specKey]string{}
	}
	d.known[key] = plan.SpecDigest(s.Service.Spec.At(spec), s.Limits)
	return d.known[key]
}

// observe returns what the rollout does not know yet of its members. known has followed it.
func observe(record *Record, known *memory, at time.Time, digests *specDigests) []rollout.Event {
	var events []rollout.Event
	var brought *offer
	change := rollout.Event{Kind: rollout.Membership, At: at}
	there := map[string]struct{}{} // those that take part, if all are looked at
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
		if m.IsOnline != p.IsOnline {
			events = append(events, rollout.Event{Kind: rollout.Presence, At: at, Member: p.UID, Online: m.IsOnline})
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

// join returns a service that joins a rollout under way. What it is to have is its own spec if the rollout
// brings that, those contents of the rollout that it has sources of, and other folders of the rollout's
// commits; ok is false if the rollout is about none of them.
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

// offer is what a rollout brings to services that join it. Members have few different releases, so each is
// looked at once, in the order of the members that have it.
type offer struct {
	contents [][]catalog.HeldSource
	// sources are the positions of the first content that has a source, and commits those of the first that has
	// a commit of a ref.
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

// admissions returns what follows from decisions.
func (r *Record) admissions(decisions []rollout.Decision) []catalog.Admission {
	if len(decisions) == 0 {
		return nil
	}
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
		release := r.Start.Release(key)
		all = append(all, catalog.Admission{ServiceUID: p.UID, Service: p.Name, Run: r.ID, Content: release.Content, Spec: release.Spec, Config: release.Config})
	}
	return all
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

// forget drops refusals of specs that no member has any more, and of content that no source holds any more.
// What a service that waits for its derivation has is not known, so nothing is dropped beside one.
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

// Follow returns what is written if the rollout follows a person. The error is a *rollout.RefusedError
// or a *rollout.AuthorError.
// To retry a rollout that has ended is to try its content once more, with another rollout.
func (r *Record) Follow(e rollout.Event) (Step, error) {
	next := *r
	if e.Kind == rollout.Command && e.Verb == rollout.Retry && len(r.Refused) > 0 && r.Run.State.HasEnded() {
		next.Refused = nil
		return Step{Record: &next, Before: r}, nil
	}
	if err := r.Run.Check(e); err != nil {
		return Step{}, err
	}
	var decisions []rollout.Decision
	next.Run, decisions = r.Run.Advance(e)
	if next.Run.State.HasEnded() {
		next.refuse()
	}
	return Step{Record: &next, Before: r, Events: []rollout.Event{e}, Decisions: decisions}, nil
}
