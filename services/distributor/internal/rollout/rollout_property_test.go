// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package rollout_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/distributor/internal/rollout"
)

// wantDecided sums up what the first runs decide. Stored rollouts are replayed, so a release that decides
// otherwise about the same events is an incompatible one.
const (
	hashedRuns  = 150
	wantDecided = "2a4f2632fb309b84f9c276d5839b75c1e473d6054cebe162841fb884108ab2e6"
)

// TestRolloutsKeepTheirPromises runs rollouts over random fleets, with failures, outages, people, late
// joiners and restarts. The long form is part of make fault.
func TestRolloutsKeepTheirPromises(t *testing.T) {
	t.Parallel()
	runs := hashedRuns
	if os.Getenv("LEAT_FAULT_LONG") != "" {
		runs = 6000
	}
	var total sums
	decided := sha256.New()
	for seed := range runs {
		w := newWorld(t, uint64(seed), false)
		w.live()
		w.settle()
		w.replay()
		total.add(w)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
		if seed < hashedRuns {
			if err := json.NewEncoder(decided).Encode(w.decisions); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := hex.EncodeToString(decided.Sum(nil)); got != wantDecided {
		t.Errorf("got decisions with the sum %s, want %s: rollouts that are stored do not replay", got, wantDecided)
	}
	t.Logf("%d runs: %+v", runs, total)
	for name, n := range map[string]int{
		"completed": total.Completed, "rolled back": total.RolledBack, "halted": total.Halted, "aborted": total.Aborted, "admitted": total.Admitted,
		"withdrawn": total.Withdrawn, "restarts": total.Restarts, "offline": total.Offline, "replaced": total.Replaced, "joined": total.Joined,
	} {
		if n == 0 {
			t.Errorf("no run had %s: the fleets are too tame to show anything", name)
		}
	}
}

// TestSilentMembersFail runs rollouts whose strategy counts silence as a failure, over the same fleets, in which
// people hold members, too.
func TestSilentMembersFail(t *testing.T) {
	t.Parallel()
	runs := hashedRuns
	if os.Getenv("LEAT_FAULT_LONG") != "" {
		runs = 6000
	}
	var total sums
	for seed := range runs {
		w := newWorld(t, uint64(seed), true)
		w.live()
		w.settle()
		w.replay()
		total.add(w)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Logf("%d runs: %+v", runs, total)
	for name, n := range map[string]int{
		"completed": total.Completed, "rolled back": total.RolledBack, "lost": total.Lost, "excused": total.Excused, "held": total.Held,
	} {
		if n == 0 {
			t.Errorf("no run had %s: the fleets are too tame to show anything", name)
		}
	}
}

// sums count the events of all runs, so that a tame simulation fails.
type sums struct {
	Completed, RolledBack, Halted, Aborted, Replaced      int
	Admitted, Withdrawn, Restarts, Offline, Joined, Ticks int
	Lost, Excused, Held                                   int
}

func (s *sums) add(w *world) {
	for _, d := range w.decisions {
		switch d.Kind { //nolint:exhaustive // the others are not counted
		case rollout.Admit:
			s.Admitted++
		case rollout.Withdraw:
			s.Withdrawn++
		case rollout.Halt:
			s.Halted++
		case rollout.Done:
			switch rollout.State(d.Why) { //nolint:exhaustive // no run ends so
			case rollout.Completed:
				s.Completed++
			case rollout.RolledBack:
				s.RolledBack++
			case rollout.Aborted:
				s.Aborted++
			case rollout.Replaced:
				s.Replaced++
			}
		}
	}
	s.Restarts += w.restarts
	s.Offline += w.outages
	s.Joined += w.joined
	s.Ticks += w.ticks
	s.Lost += w.lost
	s.Excused += w.excused
	s.Held += w.held
}

// agent is the truth about a member, and what the run was told of it.
type agent struct {
	rollout.Member
	wave            int
	isAdmitted      bool
	isOnline        bool
	runs            string // the content that is applied
	health          rollout.Health
	isBad           bool // the candidate fails here
	isSick          bool // it fails for another reason
	toldOnline      bool
	toldHas         string
	toldHealth      rollout.Health
	isFresh         bool
	lastToldOffline time.Time
	// isHeld is true while a person holds the member, and isLost once its silence counted as a failure. Its patience
	// with silence begins at patientSince: when it was admitted, or when a person had the run tried again.
	isHeld, toldHeld, isLost bool
	admittedAt, patientSince time.Time
}

func (a *agent) wants() string {
	if a.isAdmitted {
		return a.To
	}
	return a.From
}

// isUp is the model's own judgement, by what was told.
func (a *agent) isUp() bool {
	return a.toldOnline && a.toldHealth == rollout.Healthy && a.toldHas == a.wants()
}

type world struct {
	t         *testing.T
	r         *rand.Rand
	seed      uint64
	now       time.Time
	start     func() (rollout.Run, error)
	begun     []rollout.Member
	run       rollout.Run
	agents    []*agent
	events    []rollout.Event
	decisions []rollout.Decision
	isSkipped map[string]bool
	broken    map[string]time.Time
	passed    map[string]bool
	approvals map[string]map[string]bool

	restarts, outages, joined, ticks int
	// isStrict is true if silence counts as a failure, and people hold members.
	isStrict            bool
	lost, excused, held int
}

func newWorld(t *testing.T, seed uint64, isStrict bool) *world {
	t.Helper()
	w := &world{
		t: t, r: rand.New(rand.NewPCG(seed, 7)), seed: seed, isStrict: isStrict, now: time.Date(2026, 11, 2, 8, 0, 0, 0, time.UTC),
		isSkipped: map[string]bool{}, broken: map[string]time.Time{}, passed: map[string]bool{}, approvals: map[string]map[string]bool{},
	}
	members := make([]rollout.Member, 1+w.r.IntN(24))
	badShare := w.r.IntN(4) * w.r.IntN(2)
	for i := range members {
		members[i] = w.member(i)
		w.agents = append(w.agents, w.agent(members[i], badShare))
	}
	members[0].From, members[0].To, w.agents[0].From, w.agents[0].To = "old", "new", "old", "new"
	w.begun = members
	candidate, strategy, at := rollout.Candidate{ID: fmt.Sprintf("run-%d", seed), Generation: 1}, w.strategy(), w.now
	w.start = func() (rollout.Run, error) { return rollout.Begin(candidate, strategy, members, at) }
	run, err := w.start()
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	w.run = run
	for _, p := range run.Members {
		w.find(p.UID).wave = p.Wave
	}
	return w
}

func (w *world) member(i int) rollout.Member {
	m := rollout.Member{
		UID: fmt.Sprintf("uid-%d", i), Name: fmt.Sprintf("shop@c%d", i), Cluster: fmt.Sprintf("c%d", i), From: "old", To: "new",
		ClusterLabels: map[string]string{"region": fmt.Sprintf("r%d", w.r.IntN(3)), "tier": []string{"lab", "prod"}[w.r.IntN(2)]},
	}
	if w.r.IntN(8) == 0 {
		m.To = m.From
	}
	return m
}

func (w *world) agent(m rollout.Member, badShare int) *agent {
	return &agent{Member: m, isOnline: w.r.IntN(10) > 0, runs: m.From, health: rollout.Healthy, isBad: w.r.IntN(10) < badShare, lastToldOffline: w.now}
}

func (w *world) strategy() rollout.Strategy {
	minutes := func(n int) time.Duration { return time.Duration(w.r.IntN(n)) * time.Minute }
	s := rollout.Strategy{
		OfflineAfter: minutes(15), FailAfter: minutes(6), HealthTimeout: 10*time.Minute + minutes(20),
		Budget:       rollout.Budget{Failed: w.r.IntN(3), OfRun: w.r.IntN(2) == 0, Window: minutes(2) * 60},
		PausesOnHalt: w.r.IntN(3) == 0, FailsOffline: w.isStrict,
	}
	if w.r.IntN(2) == 0 {
		s.MaxUnavailable = rollout.Share{Count: 1 + w.r.IntN(4)}
	} else {
		s.MaxUnavailable = rollout.Share{Percent: 5 + w.r.IntN(60)}
	}
	for i := range w.r.IntN(4) {
		wave := rollout.Wave{Name: fmt.Sprintf("w%d", i), Soak: minutes(20), Concurrent: w.r.IntN(3)}
		switch w.r.IntN(5) {
		case 0:
			wave.Clusters = []string{fmt.Sprintf("c%d", w.r.IntN(5))}
		case 1:
			wave.Labels = map[string]string{"tier": "lab"}
		case 2:
			wave.EachOf, wave.Count = "region", 1+w.r.IntN(2)
		case 3:
			wave.Percent = 1 + w.r.IntN(100)
		case 4:
			wave.OrderBy = "region"
		}
		if w.r.IntN(4) == 0 {
			wave.Approval = &rollout.Approval{Count: 1 + w.r.IntN(2)}
		}
		s.Waves = append(s.Waves, wave)
	}
	if w.r.IntN(5) == 0 {
		s.Windows = []syncpolicy.Window{{Schedule: "0 9 * * *", Duration: 3 * time.Hour, TimeZone: "Europe/Berlin"}}
	}
	if w.r.IntN(5) == 0 {
		s.Freezes = []rollout.Freeze{{From: w.now.Add(minutes(60)), Until: w.now.Add(time.Hour + minutes(120)), Reason: "sale"}}
	}
	return s
}

func (w *world) find(uid string) *agent {
	for _, a := range w.agents {
		if a.UID == uid {
			return a
		}
	}
	return nil
}

// live lets the fleet live, with all that can go wrong in it.
func (w *world) live() {
	for range 20 + w.r.IntN(60) {
		if w.run.State.HasEnded() || w.t.Failed() {
			return
		}
		w.advance()
		for _, a := range w.agents {
			w.change(a)
		}
		batch := w.observe()
		batch = append(batch, w.people()...)
		batch = append(batch, w.joining()...)
		w.feed(batch)
	}
}

// advance moves the clock: to the moment that the run waits for, or by some minutes.
func (w *world) advance() {
	if w.r.IntN(3) == 0 && w.run.WakeAt.After(w.now) {
		w.now = w.run.WakeAt
		return
	}
	w.now = w.now.Add(time.Duration(w.r.IntN(240)) * time.Second)
}

// change changes the truth about one member.
func (w *world) change(a *agent) {
	if w.r.IntN(25) == 0 {
		a.isOnline = !a.isOnline
		w.outages++
	}
	if w.r.IntN(40) == 0 {
		a.isSick = !a.isSick
	}
	if w.isStrict && w.r.IntN(60) == 0 {
		a.isHeld = !a.isHeld
		w.held++
	}
	if a.isOnline {
		w.work(a)
	}
}

// work is the work of an agent in a while.
func (w *world) work(a *agent) {
	switch {
	case a.runs != a.wants():
		a.runs, a.health = a.wants(), rollout.Progressing
	case a.health == rollout.Progressing && w.r.IntN(2) == 0:
	case a.isSick || a.isBad && a.runs == a.To && a.From != a.To:
		a.health = rollout.Failing
	default:
		a.health = rollout.Healthy
	}
}

// observe returns what the hub hears: in any order, and some of it twice.
func (w *world) observe() []rollout.Event {
	var batch []rollout.Event
	for _, a := range w.agents {
		if isSeen := a.isOnline && !a.isHeld; isSeen != a.toldOnline || a.isHeld != a.toldHeld || w.r.IntN(20) == 0 {
			batch = append(batch, rollout.Event{Kind: rollout.Presence, At: w.now, Member: a.UID, Online: isSeen, Held: a.isHeld})
		}
		if a.isOnline && (a.runs != a.toldHas || a.health != a.toldHealth || w.r.IntN(20) == 0) {
			batch = append(batch, rollout.Event{Kind: rollout.Report, At: w.now, Member: a.UID, Has: a.runs, Health: a.health})
		}
	}
	for _, e := range batch {
		if w.r.IntN(10) == 0 {
			batch = append(batch, e)
		}
	}
	w.r.Shuffle(len(batch), func(i, j int) { batch[i], batch[j] = batch[j], batch[i] })
	return batch
}

func (w *world) people() []rollout.Event {
	var batch []rollout.Event
	if w.run.Blocked.By == rollout.ByPerson && w.r.IntN(3) == 0 {
		batch = append(batch, w.approval())
	}
	if w.r.IntN(25) == 0 {
		verbs := []rollout.Verb{
			rollout.Pause, rollout.Resume, rollout.Abort, rollout.Retry, rollout.SkipWave, rollout.Rollback, rollout.Replace, rollout.Resume, rollout.Retry,
		}
		batch = append(batch, rollout.Event{Kind: rollout.Command, At: w.now, Person: "ann", Verb: verbs[w.r.IntN(len(verbs))]})
	}
	return batch
}

func (w *world) approval() rollout.Event {
	return rollout.Event{Kind: rollout.Approve, At: w.now, Wave: w.run.Current(), Person: fmt.Sprintf("p%d", w.r.IntN(3))}
}

func (w *world) joining() []rollout.Event {
	if w.r.IntN(20) > 0 {
		return nil
	}
	e := rollout.Event{Kind: rollout.Membership, At: w.now}
	if w.r.IntN(2) == 0 {
		a := w.agent(w.member(100+w.joined), 0)
		w.joined++
		a.isFresh, a.runs, a.health, a.wave = true, "", "", len(w.run.Waves)-1
		if a.From == a.To {
			a.wave = -1
		}
		w.agents = append(w.agents, a)
		e.Joined = []rollout.Member{a.Member}
	} else if len(w.agents) > 1 {
		i := w.r.IntN(len(w.agents))
		e.Left = []string{w.agents[i].UID}
		w.agents = slices.Delete(w.agents, i, i+1)
	}
	return []rollout.Event{e}
}

// feed gives the run a batch and a tick, one event at a time, perhaps with restarts between them, and
// checks what it decides.
func (w *world) feed(batch []rollout.Event) {
	w.checkOrder(batch)
	w.ticks++
	for _, e := range append(batch, rollout.Event{Kind: rollout.Tick, At: w.now}) {
		if w.r.IntN(10) == 0 {
			w.restart()
		}
		if w.run.State.HasEnded() {
			return
		}
		allowed := w.run.Check(e) == nil
		w.tell(e, allowed)
		before, members := w.run, valuesOf(w.run)
		next, decisions := w.run.Next(e)
		w.checkShared(before, members, next)
		w.events = append(w.events, e)
		w.run = next
		w.place(before, e)
		w.check(before, decisions)
		w.decisions = append(w.decisions, decisions...)
		if e.Kind == rollout.Tick && !next.State.HasEnded() && (next.Blocked.By == "" || next.Blocked.Why == "") {
			w.t.Errorf("after a tick the run waits for nothing: state %s, wave %q", next.State, next.Current())
		}
	}
}

func valuesOf(run rollout.Run) []rollout.Progress {
	values := make([]rollout.Progress, len(run.Members))
	for i, p := range run.Members {
		values[i] = *p
	}
	return values
}

// checkShared checks that an event leaves the state before it as it was, and that the difference
// between the two states leads from the one to the other: a step stores this difference.
func (w *world) checkShared(before rollout.Run, members []rollout.Progress, next rollout.Run) {
	if !slices.Equal(members, valuesOf(before)) {
		w.t.Errorf("an event changed the run that came before it")
	}
	stored := map[string]*rollout.Progress{}
	for i := range members {
		stored[members[i].UID] = &members[i]
	}
	changed, left := rollout.Differ(before, next)
	for _, uid := range left {
		delete(stored, uid)
	}
	for _, p := range changed {
		if last := stored[p.UID]; last != nil && *last == *p {
			w.t.Errorf("%s did not change, and is written", p.Name)
		}
		stored[p.UID] = p
	}
	read := next.With(slices.Collect(maps.Values(stored)))
	if !slices.Equal(valuesOf(next), valuesOf(read)) {
		w.t.Errorf("the members that are stored are not those of the run")
	}
}

// place tells the model where members have joined: late, or in a later wave that selected no
// member.
func (w *world) place(before rollout.Run, e rollout.Event) {
	for _, m := range e.Joined {
		i := slices.IndexFunc(w.run.Members, func(p *rollout.Progress) bool { return p.UID == m.UID })
		a := w.find(m.UID)
		if i < 0 || a == nil || w.run.Members[i].Wave == a.wave {
			continue
		}
		a.wave = w.run.Members[i].Wave
		if a.wave < before.Cursor || !w.selectsNobody(before.Strategy.Waves[a.wave]) {
			w.t.Errorf("%s joined in wave %d, which does not wait for it", m.Name, a.wave)
		}
		w.begun = append(w.begun, m) // the wave selects a member now
	}
}

// tell lets the model know what the run is told.
func (w *world) tell(e rollout.Event, allowed bool) {
	switch a := w.find(e.Member); {
	case e.Kind == rollout.Report && a != nil:
		a.toldHas, a.toldHealth = e.Has, e.Health
	case e.Kind == rollout.Presence && a != nil:
		if !e.Online && (a.toldOnline || a.toldHeld && !e.Held) {
			a.lastToldOffline = w.now
		}
		a.toldOnline, a.toldHeld = e.Online, e.Held
	case e.Kind == rollout.Approve && allowed:
		if w.approvals[e.Wave] == nil {
			w.approvals[e.Wave] = map[string]bool{}
		}
		w.approvals[e.Wave][e.Person] = true
	case e.Kind == rollout.Command && e.Verb == rollout.SkipWave && allowed:
		w.isSkipped[w.run.Current()] = true
	case e.Kind == rollout.Command && e.Verb == rollout.Retry && allowed:
		for _, a := range w.agents {
			a.isLost, a.patientSince = false, w.now
		}
	}
	for _, a := range w.agents {
		a.isFresh = a.isFresh && !a.isUp()
	}
}

func (w *world) down() int {
	n := 0
	for _, a := range w.agents {
		if !a.isUp() && !a.isFresh {
			n++
		}
	}
	return n
}

// check holds decisions against the promises.
func (w *world) check(before rollout.Run, decisions []rollout.Decision) {
	limit := before.Limit()
	w.checkWaves()
	defer w.checkSilence(before)
	for _, d := range decisions {
		if len(d.Because) == 0 || d.Because[len(d.Because)-1] > w.run.Seq {
			w.t.Errorf("%s names no event that led to it", d.Kind)
		}
		a := w.find(d.Member)
		if a == nil {
			continue
		}
		wasUp := a.isUp()
		switch d.Kind { //nolint:exhaustive // the others are about no member
		case rollout.Admit:
			w.checkAdmission(a)
			a.isAdmitted, a.isLost, a.admittedAt, a.patientSince = true, false, w.now, w.now
			if down := w.down(); down > limit {
				w.t.Errorf("admitting %s made %d unavailable of %d at most", a.Name, down, limit)
			}
		case rollout.Withdraw:
			a.isAdmitted = false
			if down := w.down(); wasUp && down > limit {
				w.t.Errorf("withdrawing %s made %d unavailable of %d at most", a.Name, down, limit)
			}
		}
	}
}

// isSilent is the model's own judgement: the member was seen after it was admitted, and is not now.
func (w *world) isSilent(a *agent) bool {
	return w.isStrict && a.isAdmitted && !a.toldOnline && !a.toldHeld && !a.lastToldOffline.Before(a.admittedAt)
}

// checkSilence checks that members count as failed for their silence when it has been long enough, and for no other.
func (w *world) checkSilence(before rollout.Run) {
	if w.run.Ticked != w.run.Seq || before.State != rollout.Running {
		return
	}
	for _, p := range w.run.Members {
		a := w.find(p.UID)
		if a == nil || !a.isAdmitted {
			continue
		}
		silence := w.now.Sub(a.lastToldOffline)
		if a.lastToldOffline.Before(a.patientSince) {
			silence = w.now.Sub(a.patientSince)
		}
		isDue, isFailed := w.isSilent(a) && silence >= w.run.Strategy.OfflineAfter, !p.FailedAt.IsZero()
		switch {
		case isDue && !isFailed:
			w.t.Errorf("%s has been silent for %s, and does not count as failed", a.Name, silence)
		case !isDue && p.FailedAt.Equal(w.now) && !a.toldOnline && p.Seq < before.Seq:
			w.t.Errorf("%s counts as failed while it is offline for %s (held: %t), before its time", a.Name, silence, a.toldHeld)
		case isDue && !a.isLost && p.FailedAt.Equal(w.now):
			a.isLost = true
			w.lost++
		case w.isStrict && !a.toldOnline && !isFailed && silence >= w.run.Strategy.OfflineAfter:
			w.excused++
		}
	}
}

// checkAdmission checks that all waves before the member's have passed, and that no freeze holds.
func (w *world) checkAdmission(a *agent) {
	for i := range a.wave {
		if w.run.Waves[i].PassedAt.IsZero() {
			w.t.Errorf("%s of wave %d was admitted before wave %d had passed", a.Name, a.wave, i)
		}
		if state := w.run.Waves[i]; i < len(w.run.Strategy.Waves) && w.selectsNobody(w.run.Strategy.Waves[i]) && !w.isSkipped[state.Name] {
			w.t.Errorf("%s was admitted after wave %d, which selects nobody, and which nobody skipped", a.Name, i)
		}
	}
	for _, f := range w.run.Strategy.Freezes {
		if !w.now.Before(f.From) && w.now.Before(f.Until) {
			w.t.Errorf("%s was admitted in a freeze", a.Name)
		}
	}
	if len(w.run.Strategy.Windows) > 0 {
		if hour := w.now.UTC().Hour(); hour < 8 || hour >= 11 {
			w.t.Errorf("%s was admitted at %s, outside of the window", a.Name, w.now)
		}
	}
}

// selectsNobody is the model's own judgement of a wave: it names a cluster, or a tier, that no member has.
func (w *world) selectsNobody(wave rollout.Wave) bool {
	return (wave.Clusters != nil || wave.Labels != nil) && !slices.ContainsFunc(w.begun, func(m rollout.Member) bool {
		return (wave.Clusters == nil || m.Cluster == wave.Clusters[0]) && (wave.Labels == nil || m.ClusterLabels["tier"] == wave.Labels["tier"])
	})
}

// checkWaves checks waves at the moment that they pass, and remembers when each was last not well.
func (w *world) checkWaves() {
	for i, state := range w.run.Waves {
		if w.passed[state.Name] {
			continue
		}
		isWell := !slices.ContainsFunc(w.agents, func(a *agent) bool { return a.wave == i && !w.isExcused(a) && (!a.isAdmitted || !a.isUp()) })
		if !isWell {
			w.broken[state.Name] = w.now
		}
		if state.PassedAt.IsZero() {
			continue
		}
		w.passed[state.Name] = true
		if i >= len(w.run.Strategy.Waves) {
			continue
		}
		wave := w.run.Strategy.Waves[i]
		if w.selectsNobody(wave) && !slices.ContainsFunc(w.agents, func(a *agent) bool { return a.wave > i }) {
			w.isSkipped[state.Name] = true // it holds no one up; later members come after it
		}
		if given := len(w.approvals[state.Name]); given < wave.Approval.Needed() {
			w.t.Errorf("wave %q passed with %d approvals of %d", state.Name, given, wave.Approval.Needed())
		}
		if w.isSkipped[state.Name] {
			continue
		}
		isEmpty := !slices.ContainsFunc(w.agents, func(a *agent) bool { return a.wave == i })
		if at, wasBroken := w.broken[state.Name]; wasBroken && !isEmpty && w.now.Sub(at) < wave.Soak {
			w.t.Errorf("wave %q passed %s after it was not well; it soaks for %s", state.Name, w.now.Sub(at), wave.Soak)
		}
	}
}

// isExcused reports whether a wave need not wait for the member.
func (w *world) isExcused(a *agent) bool {
	if !a.toldOnline && w.now.Sub(a.lastToldOffline) >= w.run.Strategy.OfflineAfter && !w.isSilent(a) {
		return true
	}
	i := slices.IndexFunc(w.run.Members, func(p *rollout.Progress) bool { return p.UID == a.UID })
	return i < 0 || !w.run.Members[i].FailedAt.IsZero()
}

// checkOrder checks that the order of events about different members makes no difference.
func (w *world) checkOrder(batch []rollout.Event) {
	var told []rollout.Event
	for _, e := range batch {
		if e.Kind == rollout.Report || e.Kind == rollout.Presence {
			told = append(told, e)
		}
	}
	tick := rollout.Event{Kind: rollout.Tick, At: w.now}
	_, one := w.run.Advance(append(slices.Clone(told), tick)...)
	w.r.Shuffle(len(told), func(i, j int) { told[i], told[j] = told[j], told[i] })
	_, other := w.run.Advance(append(told, tick)...)
	for _, decisions := range [][]rollout.Decision{one, other} {
		for i := range decisions {
			decisions[i].Because = nil
		}
	}
	if diff := cmp.Diff(one, other); diff != "" {
		w.t.Errorf("another order of reports decides otherwise:\n%s", diff)
	}
}

func (w *world) restart() {
	w.restarts++
	text, err := json.Marshal(w.run)
	if err != nil {
		w.t.Fatal(err)
	}
	var read rollout.Run
	if err := json.Unmarshal(text, &read); err != nil {
		w.t.Fatal(err)
	}
	w.run = read
}

// settle heals the fleet and has people answer: then the run ends.
func (w *world) settle() {
	for i := 0; !w.run.State.HasEnded() && !w.t.Failed(); i++ {
		if i > 3000 {
			w.t.Fatalf("seed %d: the run does not end: %s, wave %q, waits for %+v", w.seed, w.run.State, w.run.Current(), w.run.Blocked)
		}
		w.now = w.now.Add(time.Minute)
		if at := w.run.Blocked.Until; at.After(w.now) {
			w.now = at
		}
		for _, a := range w.agents {
			a.isOnline, a.isSick, a.isHeld = true, false, false
			if i > 500 && w.seed%2 == 0 {
				a.isBad = false // the run waits for these members by name, and they are repaired
			}
			w.work(a)
		}
		batch := w.observe()
		if i > 500 && w.seed%2 == 1 && w.run.Blocked.By == rollout.ByMember {
			batch = append(batch, rollout.Event{Kind: rollout.Command, At: w.now, Verb: rollout.Rollback, Person: "ann"})
		}
		if w.run.Blocked.By == rollout.ByPerson {
			switch w.run.State {
			case rollout.Paused:
				batch = append(batch, rollout.Event{Kind: rollout.Command, At: w.now, Verb: rollout.Resume, Person: "ann"})
			case rollout.Halted:
				verb := []rollout.Verb{rollout.Retry, rollout.Abort, rollout.Rollback}[w.r.IntN(3)]
				batch = append(batch, rollout.Event{Kind: rollout.Command, At: w.now, Verb: verb, Person: "ann"})
			default:
				batch = append(batch, w.approval())
				if w.run.Waves[w.run.Cursor].IsEmpty {
					batch = append(batch, rollout.Event{Kind: rollout.Command, At: w.now, Verb: rollout.SkipWave, Person: "ann"})
				}
			}
		}
		w.feed(batch)
	}
}

// replay computes everything again from the events.
func (w *world) replay() {
	run, err := w.start()
	if err != nil {
		w.t.Fatal(err)
	}
	var decisions []rollout.Decision
	for _, e := range w.events {
		var made []rollout.Decision
		run, made = run.Next(e)
		decisions = append(decisions, made...)
	}
	if diff := cmp.Diff(w.decisions, decisions); diff != "" {
		w.t.Errorf("the same events decide otherwise:\n%s", diff)
	}
	one, _ := json.Marshal(run)
	other, _ := json.Marshal(w.run)
	if string(one) != string(other) {
		w.t.Error("the same events lead to another run")
	}
}
