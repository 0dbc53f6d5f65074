// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package electiontest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/election"
)

// fault is the failure of a replica at one of its writes.
type fault int

const (
	freezeBefore fault = iota + 1 // the write has not reached the database
	freezeAfter                   // the write is stored, and the replica does not know
	cutBefore
	cutAfter
)

// Link is all that one replica has of the store, and its log. A replica that is frozen stays in its call,
// whatever becomes of the context, and a cut link fails every call. It is safe for concurrent use.
type Link struct {
	mu      sync.Mutex
	next    fault
	thawing chan struct{} // closed by thaw; nil: the replica is not frozen
	isCut   bool
	// losesConnection has the call that was frozen fail when it continues. The next one has another
	// connection.
	losesConnection bool
	// written are the terms of the writes that were stored, in order.
	written []int64
	log     bytes.Buffer
}

// arm has a fault happen at the next write.
func (l *Link) arm(f fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next = f
}

func (l *Link) isArmed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next != 0
}

func (l *Link) setCut(isCut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isCut = isCut
}

func (l *Link) thaw() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.thawing)
	l.thawing = nil
}

// pass is one way of a call, to the database or back.
func (l *Link) pass() error {
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
func (l *Link) makeFault(ofFreezing, ofCutting fault) {
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

// Read makes a call that writes nothing in a term.
func (l *Link) Read(call func() error) error {
	if err := l.pass(); err != nil {
		return err
	}
	return errors.Join(call(), l.pass())
}

// InTerm makes a call that writes in a term.
func (l *Link) InTerm(term int64, call func() error) error {
	l.makeFault(freezeBefore, cutBefore)
	return l.Read(func() error {
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

// Election returns a store behind the link. Beats are not counted as work.
func (l *Link) Election(store election.Store) election.Store { return linked{store, l} }

type linked struct {
	store election.Store
	link  *Link
}

func (s linked) Tenure(ctx context.Context) (seen election.Tenure, err error) {
	err = s.link.Read(func() error { seen, err = s.store.Tenure(ctx); return err })
	return seen, err
}

func (s linked) Claim(ctx context.Context, holder string, seen election.Tenure) (term int64, ok bool, err error) {
	err = s.link.Read(func() error { term, ok, err = s.store.Claim(ctx, holder, seen); return err })
	return term, ok && err == nil, err
}

func (s linked) Beat(ctx context.Context, term int64) error {
	return s.link.Read(func() error { return s.store.Beat(ctx, term) })
}

func (s linked) Resign(ctx context.Context, term int64) error {
	return s.link.Read(func() error { return s.store.Resign(ctx, term) })
}

// Write takes a line of the replica's log, and String returns all of them.
func (l *Link) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.log.Write(line)
}

func (l *Link) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.log.String()
}

// HasLogged reports whether the replica has logged a text.
func (l *Link) HasLogged(text string) bool { return strings.Contains(l.String(), text) }

// writes returns how many writes of this replica were stored.
func (l *Link) writes() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.written)
}

// candidate is a replica that takes part in an election.
type candidate struct {
	*Link

	stop func()
}

// enter runs a replica behind a link, until stop is called.
func enter(t *testing.T, c Contest, holder string) *candidate {
	t.Helper()
	l := new(Link)
	run := c.Replica(t, holder, l)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = run(ctx) // the cause of ctx
	}()
	return &candidate{Link: l, stop: func() { cancel(); <-done }}
}

// Contest is work that one of two replicas has to do, once.
type Contest interface {
	// Replica returns the loop of a replica that has nothing but the link, and logs to it.
	Replica(t *testing.T, holder string, l *Link) func(ctx context.Context) error
	// Election returns the store of the election.
	Election() election.Store
	// GiveWork gives the leader work that takes several writes.
	GiveWork()
	IsDone(t *testing.T) bool
	// Check compares what was done with what one replica that nothing happens to does.
	Check(t *testing.T)
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

// race is a contest of two replicas. deposed is the text that a leader logs when it finds that
// another one leads.
type race struct {
	Contest

	t             *testing.T
	first, second *candidate
	deposed       string
}

func (r *race) leader() string {
	r.t.Helper()
	return see(r.t, r.Election()).Holder
}

// Contests has the first of two replicas lead, and something happen to it in the middle of its
// work. deposed is the text that a leader logs when it finds that another one leads.
func Contests(t *testing.T, deposed string, newContest func(t *testing.T) Contest) {
	t.Helper()
	for what, happen := range map[string]func(r *race){
		"nothing happens":                                        func(*race) {},
		"it is frozen before a write":                            func(r *race) { r.freeze(freezeBefore, false) },
		"it is frozen after a write":                             func(r *race) { r.freeze(freezeAfter, false) },
		"it is frozen before a write, and its connection breaks": func(r *race) { r.freeze(freezeBefore, true) },
		"it is frozen after a write, and its connection breaks":  func(r *race) { r.freeze(freezeAfter, true) },
		"the database is cut off before a write":                 func(r *race) { r.cutBoth(cutBefore) },
		"the database is cut off after a write":                  func(r *race) { r.cutBoth(cutAfter) },
		"it alone is cut off":                                    (*race).cutFirst,
		"it is stopped":                                          (*race).stopFirst,
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &race{Contest: newContest(t), t: t, deposed: deposed}
				r.first = enter(t, r, "first")
				defer r.first.stop()
				elapse(10 * time.Second)
				r.second = enter(t, r, "second")
				defer r.second.stop()
				elapse(time.Minute)
				if got := r.leader(); got != "first" || r.second.writes() != 0 {
					t.Fatalf("got leader %q, and %d writes of the second, want the first alone", got, r.second.writes())
				}
				r.GiveWork()
				happen(r)
				elapseUntil(t, "done", func() bool { return r.IsDone(t) })
				r.Check(t)
				wantTerms(t, r.first, r.second)
			})
		})
	}
}

// cutFirst cuts the leader off. The other replica waits for its silence, takes the lead and
// continues.
func (r *race) cutFirst() {
	strike(r.t, r.first, cutAfter)
	elapse(15 * time.Second)
	if r.second.writes() != 0 {
		r.t.Error("the second acts before it is sure that the first is gone")
	}
	elapseUntil(r.t, "led by the second", func() bool { return r.leader() == "second" })
	r.first.setCut(false)
}

// stopFirst stops the leader, which resigns.
func (r *race) stopFirst() {
	before := r.first.writes()
	elapseUntil(r.t, "at work", func() bool { return r.first.writes() > before+1 })
	r.first.stop()
	elapse(3 * time.Second)
	if got := r.leader(); got != "second" {
		r.t.Errorf("got leader %q after the first was stopped, want the second at once", got)
	}
}

// strike has a fault happen in the middle of a replica's work.
func strike(t *testing.T, c *candidate, f fault) {
	t.Helper()
	c.arm(f)
	elapseUntil(t, "struck", func() bool { return !c.isArmed() })
}

// freeze freezes the leader. The other replica waits for its silence, takes the lead and continues.
// The first finds itself deposed when it is thawed, and writes nothing more.
func (r *race) freeze(f fault, isBreaking bool) {
	t, first := r.t, r.first
	first.losesConnection = isBreaking
	strike(t, first, f)
	elapse(20 * time.Second)
	if got := r.leader(); got != "first" {
		t.Errorf("got leader %q after 20 s of silence, want still the first", got)
	}
	elapse(20 * time.Second)
	if got := r.leader(); got != "second" {
		t.Errorf("got leader %q after 40 s of silence, want the second", got)
	}
	before := first.writes()
	first.thaw()
	elapse(10 * time.Second)
	if first.writes() != before || !first.HasLogged(r.deposed) {
		t.Errorf("the first wrote %d times after it was deposed, and logged\n%s", first.writes()-before, first)
	}
}

// cutBoth cuts both replicas off, the leader in the middle of its work. No replica acts. Afterwards
// one continues.
func (r *race) cutBoth(f fault) {
	t, first, second := r.t, r.first, r.second
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
