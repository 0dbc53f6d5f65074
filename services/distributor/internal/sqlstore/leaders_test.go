// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/metric/noop"

	"github.com/leatdev/leat/services/distributor/internal/catalog"
	"github.com/leatdev/leat/services/distributor/internal/fanout"
	"github.com/leatdev/leat/services/distributor/internal/plan"
	"github.com/leatdev/leat/services/distributor/internal/rollout"
	"github.com/leatdev/leat/services/distributor/internal/rollouts"
	"github.com/leatdev/leat/services/distributor/internal/sqlstore"
)

// fault is what happens to a replica at one of its writes.
type fault int

const (
	freezeBefore fault = iota + 1 // the write has not reached the database
	freezeAfter                   // the write is stored, and the replica does not know
	cutBefore
	cutAfter
)

// link is what one replica has of the database. A replica that is frozen stays in its call, whatever becomes of
// the context, and a cut link fails every call.
type link struct {
	mu      sync.Mutex
	next    fault
	thawing chan struct{} // closed by thaw; nil: the replica is not frozen
	isCut   bool
	// losesConnection has the call that was frozen fail when it goes on. The next one has another connection.
	losesConnection bool
	// written are the terms of the writes that were stored, in order.
	written []int64
	log     bytes.Buffer
}

// arm has a fault happen at the next write.
func (l *link) arm(f fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next = f
}

func (l *link) isArmed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next != 0
}

func (l *link) setCut(isCut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isCut = isCut
}

func (l *link) thaw() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.thawing)
	l.thawing = nil
}

// pass is one way of a call, to the database or back.
func (l *link) pass() error {
	l.mu.Lock()
	thawing := l.thawing
	l.mu.Unlock()
	if thawing != nil {
		<-thawing
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isCut || thawing != nil && l.losesConnection {
		return fmt.Errorf("the database is cut off: %w", catalog.ErrUnavailable)
	}
	return nil
}

// makeFault makes the fault that is armed, if it is one of these.
func (l *link) makeFault(ofFreezing, ofCutting fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	isFreezing, isCutting := l.next == ofFreezing, l.next == ofCutting
	if isFreezing {
		l.thawing = make(chan struct{})
	}
	l.isCut = l.isCut || isCutting
	if isFreezing || isCutting {
		l.next = 0
	}
}

// read makes a call that writes nothing in a term.
func (l *link) read(call func() error) error {
	if err := l.pass(); err != nil {
		return err
	}
	return errors.Join(call(), l.pass())
}

// write makes a call that writes in a term.
func (l *link) write(term int64, call func() error) error {
	l.makeFault(freezeBefore, cutBefore)
	return l.read(func() error {
		err := call()
		if err == nil {
			l.mu.Lock()
			l.written = append(l.written, term)
			l.mu.Unlock()
			l.makeFault(freezeAfter, cutAfter)
		}
		return err
	})
}

// Write takes a line of the replica's log.
func (l *link) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.log.Write(line)
}

func (l *link) hasLogged(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.log.String(), text)
}

// writes returns how many writes of this replica were stored.
func (l *link) writes() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.written)
}

// candidate is a replica that takes part in an election.
type candidate struct {
	*link

	stop func()
}

// startCandidate runs the loop of a leader behind a link, until stop is called.
func startCandidate(l *link, loop func(ctx context.Context) error) *candidate {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = loop(ctx) // the cause of ctx
	}()
	return &candidate{link: l, stop: func() { cancel(); <-done }}
}

// contest is work that one of two replicas has to do, once.
type contest interface {
	// start starts a replica.
	start(t *testing.T, holder string) *candidate
	// holder returns which replica leads, or "".
	holder(t *testing.T) string
	// giveWork gives the leader work that takes several writes.
	giveWork()
	isDone(t *testing.T) bool
	// check compares what was done with what one replica that nothing happens to does.
	check(t *testing.T)
}

// elapse lets virtual time pass.
func elapse(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// elapseUntil lets virtual time pass until something is so, for ten minutes at most.
func elapseUntil(t *testing.T, what string, isSo func() bool) {
	t.Helper()
	for range 600 {
		if isSo() {
			return
		}
		elapse(time.Second)
	}
	t.Fatalf("after ten minutes: not %s", what)
}

// contests has one of two replicas lead, and something happen to it in the middle of its work. deposed is what
// a leader logs when it finds that another one leads.
func contests(t *testing.T, deposed string, newContest func(t *testing.T, store *sqlstore.Store) contest) {
	t.Helper()
	for _, what := range []string{
		nothing, frozenBefore, frozenAfter, brokenBefore, brokenAfter, cutOffBefore, cutOffAfter, cutOffAlone, stopped,
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newContest(t, open(t, sqliteURL(t)))
				first := c.start(t, "first")
				defer first.stop()
				elapse(10 * time.Second)
				second := c.start(t, "second")
				defer second.stop()
				elapse(time.Minute)
				if got := c.holder(t); got != "first" || second.writes() != 0 {
					t.Fatalf("got leader %q, and %d writes of the second, want the first alone", got, second.writes())
				}
				c.giveWork()
				happen(t, what, c, first, second, deposed)
				elapseUntil(t, "done", func() bool { return c.isDone(t) })
				c.check(t)
				wantTerms(t, first, second)
			})
		})
	}
}

// What happens to a leader.
const (
	nothing      = "nothing happens"
	frozenBefore = "it is frozen before a write"
	frozenAfter  = "it is frozen after a write"
	brokenBefore = "it is frozen before a write, and its connection breaks"
	brokenAfter  = "it is frozen after a write, and its connection breaks"
	cutOffBefore = "the database is cut off before a write"
	cutOffAfter  = "the database is cut off after a write"
	cutOffAlone  = "it alone is cut off"
	stopped      = "it is stopped"
)

func happen(t *testing.T, what string, c contest, first, second *candidate, deposed string) {
	t.Helper()
	switch what {
	case frozenBefore:
		freeze(t, c, first, freezeBefore, deposed)
	case frozenAfter:
		freeze(t, c, first, freezeAfter, deposed)
	case brokenBefore:
		first.losesConnection = true
		freeze(t, c, first, freezeBefore, deposed)
	case brokenAfter:
		first.losesConnection = true
		freeze(t, c, first, freezeAfter, deposed)
	case cutOffBefore:
		cutBoth(t, c, first, second, cutBefore)
	case cutOffAfter:
		cutBoth(t, c, first, second, cutAfter)
	case cutOffAlone:
		strike(t, first, cutAfter)
		elapse(15 * time.Second)
		if second.writes() != 0 {
			t.Error("the second acts before it is sure that the first is gone")
		}
		elapseUntil(t, "led by the second", func() bool { return c.holder(t) == "second" })
		first.setCut(false)
	case stopped:
		before := first.writes()
		elapseUntil(t, "at work", func() bool { return first.writes() > before+1 })
		first.stop()
		elapse(3 * time.Second)
		if got := c.holder(t); got != "second" {
			t.Errorf("got leader %q after the first was stopped, want the second at once", got)
		}
	}
}

// strike has a fault happen in the middle of a replica's work.
func strike(t *testing.T, c *candidate, f fault) {
	t.Helper()
	c.arm(f)
	elapseUntil(t, "struck", func() bool { return !c.isArmed() })
}

// freeze freezes the leader. The other replica waits for its silence, takes the lead and goes on. The first finds
// itself deposed when it is thawed, and writes nothing more.
func freeze(t *testing.T, c contest, first *candidate, f fault, deposed string) {
	t.Helper()
	strike(t, first, f)
	elapse(20 * time.Second)
	if got := c.holder(t); got != "first" {
		t.Errorf("got leader %q after 20 s of silence, want still the first", got)
	}
	elapse(20 * time.Second)
	if got := c.holder(t); got != "second" {
		t.Errorf("got leader %q after 40 s of silence, want the second", got)
	}
	before := first.writes()
	first.thaw()
	elapse(10 * time.Second)
	if first.writes() != before || !first.hasLogged(deposed) {
		t.Errorf("the first wrote %d times after it was deposed, and logged\n%s", first.writes()-before, &first.log)
	}
}

// cutBoth cuts both replicas off, the leader in the middle of its work. Nobody acts. Afterwards one goes on.
func cutBoth(t *testing.T, c contest, first, second *candidate, f fault) {
	t.Helper()
	strike(t, first, f)
	second.setCut(true)
	before := first.writes()
	elapse(5 * time.Minute)
	if first.writes() != before || second.writes() != 0 {
		t.Error("a replica acts while the database is cut off")
	}
	first.setCut(false)
	second.setCut(false)
	elapse(40 * time.Second)
	isFirst, isSecond := first.writes() > before, second.writes() > 0
	if isFirst == isSecond {
		t.Errorf("the first acts: %v, and the second: %v; want one of them", isFirst, isSecond)
	}
}

// wantTerms checks that no term has two leaders.
func wantTerms(t *testing.T, first, second *candidate) {
	t.Helper()
	for _, l := range []*candidate{first, second} {
		if !slices.IsSorted(l.written) {
			t.Errorf("got writes of the terms %v, want them in order", l.written)
		}
	}
	for _, term := range first.written {
		if slices.Contains(second.written, term) {
			t.Errorf("both wrote in term %d", term)
		}
	}
}

// linkedRollouts are the rollouts of a store, behind a link.
type linkedRollouts struct {
	rollouts.Store
	*link
}

func (s linkedRollouts) Lead(ctx context.Context) (lead rollouts.Lead, err error) {
	err = s.read(func() error { lead, err = s.Store.Lead(ctx); return err })
	return lead, err
}

func (s linkedRollouts) Claim(ctx context.Context, holder string, seen rollouts.Lead) (term int64, ok bool, err error) {
	err = s.read(func() error { term, ok, err = s.Store.Claim(ctx, holder, seen); return err })
	return term, ok && err == nil, err
}

func (s linkedRollouts) Beat(ctx context.Context, term int64) error {
	return s.read(func() error { return s.Store.Beat(ctx, term) })
}

func (s linkedRollouts) Resign(ctx context.Context, term int64) error {
	return s.read(func() error { return s.Store.Resign(ctx, term) })
}

func (s linkedRollouts) Heads(ctx context.Context) (heads []rollouts.Head, err error) {
	err = s.read(func() error { heads, err = s.Store.Heads(ctx); return err })
	return heads, err
}

func (s linkedRollouts) Record(ctx context.Context, id string) (record *rollouts.Record, err error) {
	err = s.read(func() error { record, err = s.Store.Record(ctx, id); return err })
	return record, err
}

func (s linkedRollouts) Save(ctx context.Context, term int64, step rollouts.Step) error {
	return s.write(term, func() error { return s.Store.Save(ctx, term, step) })
}

// testRolloutLink holds the link to the port: one without a fault changes nothing.
func testRolloutLink(t *testing.T, s subject) {
	linked := linkedRollouts{Store: sqlstore.RolloutsOf(s.Store), link: new(link)}
	checkFence(t, s.raw(t), newStagedFleet(t, s, linked).fenced())
}

// stagedWork is a rollout to six services, one after another. Agents run what the replica's view admits at once.
type stagedWork struct {
	subject

	policy   *catalog.RolloutPolicy
	services []*catalog.Service

	mu   sync.Mutex
	live catalog.HeldSource
}

const stagedMembers = 6

func newStagedWork(t *testing.T, store *sqlstore.Store) contest {
	w := &stagedWork{subject: subject{Store: store}, live: heldAt("c1")[0]}
	apply(t, w.subject, &catalog.RolloutPolicy{Metadata: catalog.Metadata{Name: "waves"}, Spec: catalog.RolloutPolicySpec{
		Strategy: rollout.Strategy{
			Waves:          []rollout.Wave{{Name: "canary", Percent: 10, Soak: time.Minute}},
			MaxUnavailable: rollout.Share{Count: 1},
		},
	}})
	w.policy = changes(t, w.subject, 0).Policies[0]
	for i := range stagedMembers {
		name := fmt.Sprint("s", i)
		w.services = append(w.services, &catalog.Service{
			Metadata: catalog.Metadata{UID: name, Name: name},
			Spec:     catalog.ServiceSpec{Cluster: name, Sources: []catalog.Source{w.live.Source}},
		})
	}
	return w
}

// stagedView is one replica's view of the fleet.
type stagedView struct {
	*stagedWork
	*link

	mu       sync.Mutex
	admitted map[string]catalog.Admission
}

func (v *stagedView) Refresh(ctx context.Context) error {
	return v.read(func() error {
		now, err := v.Changes(ctx, 0)
		if err != nil {
			return err
		}
		v.mu.Lock()
		defer v.mu.Unlock()
		v.admitted = map[string]catalog.Admission{}
		for _, a := range now.Admissions {
			v.admitted[a.ServiceUID] = a
		}
		return nil
	})
}

func (*stagedView) IsNeeded() bool { return true }

func (*stagedView) Layers([]*catalog.Service) []string { return nil }

func (*stagedView) Revision() int64 { return 0 }

func (*stagedView) Behind() func(*catalog.Service) bool {
	return func(*catalog.Service) bool { return false }
}

func (*stagedView) ClusterOf(*catalog.Service) *catalog.Cluster { return nil }

func (v *stagedView) Watch() rollouts.Watch { return v }

func (v *stagedView) Look([]catalog.Key, bool) rollouts.Sight {
	v.stagedWork.mu.Lock()
	live := v.live
	v.stagedWork.mu.Unlock()
	v.mu.Lock()
	defer v.mu.Unlock()
	var members []rollouts.Seen
	for _, service := range v.services {
		seen := rollouts.Seen{
			Service: service, Spec: service.Spec.Staged(), Live: []catalog.HeldSource{live}, IsOnline: true, Config: catalog.NoConfig, Report: &catalog.ServiceReport{},
		}
		if held, ok := v.admitted[service.UID]; ok {
			seen.Held = &held
			seen.Report = &catalog.ServiceReport{
				Phase: catalog.PhaseHealthy, ObservedSpecDigest: plan.SpecDigest(held.SpecFor(service.Spec), nil),
				AppliedDigests: []string{held.Content[0].Snapshot.Digest.String()},
			}
		}
		members = append(members, seen)
	}
	return rollouts.Sight{Policies: []*catalog.RolloutPolicy{v.policy}, Members: map[string][]rollouts.Seen{v.policy.UID: members}}
}

func (w *stagedWork) start(t *testing.T, holder string) *candidate {
	t.Helper()
	metrics, err := rollouts.NewMetrics(noop.Meter{})
	if err != nil {
		t.Fatal(err)
	}
	l := new(link)
	return startCandidate(l, rollouts.NewDriver(rollouts.Params{
		Store: linkedRollouts{sqlstore.RolloutsOf(w.Store), l}, Fleet: &stagedView{stagedWork: w, link: l},
		Objects: fanout.NewHub[catalog.Key](0), Metrics: metrics, Logger: slog.New(slog.NewTextHandler(l, nil)), Holder: holder,
	}).Run)
}

func (w *stagedWork) holder(t *testing.T) string {
	t.Helper()
	lead, err := sqlstore.RolloutsOf(w.Store).Lead(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return lead.Holder
}

func (w *stagedWork) giveWork() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.live = heldAt("c2")[0]
}

func (w *stagedWork) isDone(t *testing.T) bool {
	t.Helper()
	log, err := sqlstore.RolloutsOf(w.Store).Log(t.Context(), w.policy.UID, 0)
	if errors.Is(err, rollouts.ErrNotFound) {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	return log.Record.Run.State.HasEnded()
}

func (w *stagedWork) check(t *testing.T) {
	t.Helper()
	log, err := sqlstore.RolloutsOf(w.Store).Log(t.Context(), w.policy.UID, 0)
	if err != nil {
		t.Fatal(err)
	}
	if diff := log.Replay(); diff != "" || log.Record.Run.State != rollout.Completed || log.Record.Number != 1 {
		t.Errorf("got rollout %d, %s, want the first, completed; replay: %s", log.Record.Number, log.Record.Run.State, diff)
	}
	admitted := map[string]int{}
	for _, d := range log.Decisions {
		if d.Kind == rollout.Admit || d.Kind == rollout.Withdraw {
			admitted[d.Member]++
		}
	}
	all := changes(t, w.subject, 0).Admissions
	if len(admitted) != stagedMembers || len(all) != stagedMembers {
		t.Errorf("got decisions about %v and %d admissions, want %d", admitted, len(all), stagedMembers)
	}
	for _, a := range all {
		if admitted[a.ServiceUID] != 1 || a.Content[0].Snapshot.Commit != "c2" {
			t.Errorf("%s was admitted %d times, and has %s", a.ServiceUID, admitted[a.ServiceUID], a.Content[0].Snapshot.Commit)
		}
	}
}

// TestRolloutsHaveOneLeader has something happen to the leader of a rollout. Each service is admitted once, and
// the log replays, as if nothing had happened.
func TestRolloutsHaveOneLeader(t *testing.T) {
	t.Parallel()
	contests(t, "another replica drives the rollouts now", newStagedWork)
}
