// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/election"
	"github.com/leatdev/leat/services/distributor/internal/spine/election/electiontest"
)

// book is a store of an election, with the terms of the lines that leaders wrote.
type book struct {
	electiontest.Memory

	mu    sync.Mutex
	lines []int64
	most  int // lines that are to be written
}

func (b *book) write(term int64) error {
	return b.Write(term, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.lines = append(b.lines, term)
	})
}

func (b *book) isFull() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.lines) >= b.most
}

func (b *book) terms() []int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.lines)
}

func newFenced() (*book, electiontest.Fenced) {
	b := new(book)
	return b, electiontest.Fenced{
		Store:  b,
		Writes: map[string]func(context.Context, int64) error{"line": func(_ context.Context, term int64) error { return b.write(term) }},
		Rows: func(t *testing.T) any {
			tenure, err := b.Tenure(t.Context())
			return fmt.Sprint(tenure, err, b.terms())
		},
	}
}

// TestMemory holds the double to what the stores in SQL promise.
func TestMemory(t *testing.T) {
	t.Parallel()
	_, f := newFenced()
	electiontest.Check(t, f)
	b, f := newFenced()
	told := electiontest.Contend(t, f, f.Writes["line"])
	electiontest.WantInTurn(t, b.terms(), told)
}

// bookWork is a book that one of two replicas fills.
type bookWork struct{ book }

const bookLines = 8

// Replica writes a line every ten seconds, and beats alone in between.
func (w *bookWork) Replica(t *testing.T, holder string, l *electiontest.Link) func(ctx context.Context) error {
	t.Helper()
	params := paramsOf(l.Election(w), holder, func(ctx context.Context, term int64) error {
		for {
			if !w.isFull() {
				if err := l.InTerm(term, func() error { return w.write(term) }); err != nil {
					return err
				}
			}
			if err := backoff.Wait(ctx, 10*time.Second); err != nil {
				return err
			}
		}
	}, l)
	return func(ctx context.Context) error { return election.Run(ctx, params) }
}

func (w *bookWork) Election() election.Store { return w }

func (w *bookWork) GiveWork() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.most = bookLines
}

func (w *bookWork) IsDone(*testing.T) bool { return w.isFull() }

func (w *bookWork) Check(t *testing.T) {
	t.Helper()
	if terms := w.terms(); len(terms) != bookLines || !slices.IsSorted(terms) {
		t.Errorf("got lines of the terms %v, want %d in order", terms, bookLines)
	}
}

// TestOneLeads has something happen to the leader, whatever its work is.
func TestOneLeads(t *testing.T) {
	t.Parallel()
	electiontest.Contests(t, "another replica writes now", func(*testing.T) electiontest.Contest { return new(bookWork) })
}

func paramsOf(store election.Store, holder string, lead func(ctx context.Context, term int64) error, l *electiontest.Link) election.Params {
	return election.Params{
		Store: store, Holder: holder, IsNeeded: func() bool { return true }, Lead: lead,
		Subject: "lines", Work: "writes", Logger: slog.New(slog.NewTextHandler(l, nil)),
	}
}

// TestTermsEnd ends terms in each way. The work writes nothing: a beat shows that a term lasts, or that another
// replica took over.
func TestTermsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var m electiontest.Memory
		var isNeeded atomic.Bool
		l, terms, end := new(electiontest.Link), make(chan context.Context, 1), make(chan error)
		params := paramsOf(l.Election(&m), "first", func(ctx context.Context, _ int64) error {
			terms <- ctx
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case err := <-end:
				return err
			}
		}, l)
		params.IsNeeded = isNeeded.Load
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- election.Run(ctx, params) }()
		want := func(after time.Duration, term int64) (begun context.Context) {
			t.Helper()
			elapse(after)
			if tenure, _ := m.Tenure(ctx); tenure.Holder != "first" || tenure.Term != term {
				t.Fatalf("got %+v, want term %d of the first; log:\n%s", tenure, term, l)
			}
			return <-terms
		}
		wantLogged := func(end string) {
			t.Helper()
			if synctest.Wait(); !strings.HasSuffix(fmt.Sprint(l), end+"\n") {
				t.Errorf("got the log\n%s\nwant %q at its end", l, end)
			}
		}
		elapse(time.Hour)
		if tenure, _ := m.Tenure(ctx); tenure != (election.Tenure{}) {
			t.Errorf("got %+v with nothing to do", tenure)
		}
		isNeeded.Store(true)
		first := want(3*time.Second, 1)
		elapse(time.Hour)
		if first.Err() != nil {
			t.Errorf("the first term ended: %v", context.Cause(first))
		}
		end <- nil // there is nothing to do any more
		for _, term := range []int64{2, 3} {
			want(3*time.Second, term)
			end <- catalog.ErrUnavailable
			wantLogged(`msg="lines wait; trying again" error="catalog store unavailable"`)
		}
		begun := want(3*time.Second, 4)
		electiontest.Claim(t, &m, "other")
		elapse(6 * time.Second)
		if cause := context.Cause(begun); !errors.Is(cause, election.ErrDeposed) {
			t.Errorf("got the cause %v a beat after another replica took over, want %v", cause, election.ErrDeposed)
		}
		wantLogged(`msg="another replica writes now" term=4`)
		want(40*time.Second, 6)
		other := electiontest.Claim(t, &m, "other")
		end <- fmt.Errorf("write: %w", election.ErrDeposed)
		wantLogged(`msg="another replica writes now" term=6`)
		if err := m.Beat(ctx, other); err != nil {
			t.Errorf("the term of the other replica: %v", err)
		}
		want(40*time.Second, 8)
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the election ended with %v", err)
		}
		if tenure, _ := m.Tenure(t.Context()); tenure.Holder != "" {
			t.Errorf("got %+v after the replica stopped, want nobody", tenure)
		}
	})
}

// elapse lets virtual time pass.
func elapse(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}
