// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package audit_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/internal/runtime/audit"
)

// changes returns the records of an edit.
func changes(edit, n int) []*audit.Record {
	records := make([]*audit.Record, n)
	for i := range records {
		records[i] = &audit.Record{
			Request: audit.Request{ID: fmt.Sprintf("%d/%d", edit, i)}, Phase: audit.PhaseChange, Allowed: true, Change: &audit.Change{},
		}
	}
	return records
}

// TestEditsShareWrites has many edits of many changes at once, each beside requests that write their
// own decisions. Each record is written once, and none waits for another one's time-out.
func TestEditsShareWrites(t *testing.T) {
	t.Parallel()
	plain, prompt := &memory{}, &prompt{}
	q1, _ := start(t, audit.QueueParams{Output: plain, Timeout: time.Hour}) // a record that waits for it hangs the test
	q2, _ := start(t, audit.QueueParams{Output: prompt, Timeout: time.Hour})
	fan := audit.Fan{q1, q2}
	var group sync.WaitGroup
	for edit := range 8 {
		group.Go(func() {
			if err := fan.WriteAll(t.Context(), changes(edit, 600)); err != nil {
				t.Error(err)
			}
		})
		group.Go(func() {
			for i := range 50 {
				if err := request(t.Context(), fan, fmt.Sprintf("request %d/%d", edit, i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	for name, all := range map[string][]*audit.Record{"plain": plain.all(), "prompt": prompt.all()} {
		written := map[string]int{}
		for _, r := range all {
			if r.Phase == audit.PhaseChange {
				written[r.ID]++
			}
		}
		if len(written) != 8*600 {
			t.Errorf("%s: got %d changes, want %d", name, len(written), 8*600)
		}
		for id, n := range written {
			if n != 1 {
				t.Errorf("%s: %s was written %d times", name, id, n)
			}
		}
	}
}

// TestEditsAreRefusedWhole has an output that takes some records of an edit and not the others: the
// edit is refused once, after the time of one record, and an outcome follows each record that was
// written.
func TestEditsAreRefusedWhole(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		good, bad := &memory{}, &memory{full: true, room: 3, held: make(chan struct{})}
		q1, stop := start(t, audit.QueueParams{Output: good})
		q2, _ := start(t, audit.QueueParams{Output: bad})
		refused := make(chan error, 1)
		go func() { refused <- (audit.Fan{q1, q2}).WriteAll(t.Context(), changes(1, 10)) }()
		synctest.Wait() // a record that an output does not have yet would be abandoned with the first refusal
		close(bad.held)
		if err := <-refused; !errors.Is(err, errFull) {
			t.Errorf("got %v, want %v", err, errFull)
		}
		bad.setRoom(false, 0)
		synctest.Wait()
		<-time.After(2 * time.Second)
		if err := stop(); err != nil {
			t.Error(err)
		}
		for name, all := range map[string][]*audit.Record{"good": good.all(), "bad": bad.all()} {
			phases := map[string][]audit.Phase{}
			for _, r := range all {
				phases[r.ID] = append(phases[r.ID], r.Phase)
			}
			for id, got := range phases {
				if len(got) != 2 || got[0] != audit.PhaseChange || got[1] != audit.PhaseOutcome {
					t.Errorf("%s: %s has %v, want a change and its outcome", name, id, got)
				}
			}
		}
		if len(good.all()) != 20 || len(bad.all()) != 6 {
			t.Errorf("got %d and %d records, want 10 and 3 changes with their outcomes", len(good.all()), len(bad.all()))
		}
	})
}

// TestEditsDoNotWaitForEachRecord holds the output: an edit of many records fails after the time of
// one.
func TestEditsDoNotWaitForEachRecord(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out := &memory{held: make(chan struct{})}
		queue, _ := start(t, audit.QueueParams{Output: out, Timeout: 3 * time.Second})
		began := time.Now()
		if err := (audit.Fan{queue}).WriteAll(t.Context(), changes(1, 500)); err == nil {
			t.Error("an edit went through whose records are not written")
		}
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("took %s, want 3s", took)
		}
		close(out.held)
	})
}

// TestFailingUntilARecordIsWritten asks an output that is full, then has room again.
func TestFailingUntilARecordIsWritten(t *testing.T) {
	t.Parallel()
	out := &memory{}
	closed, _ := start(t, audit.QueueParams{Output: out})
	open, _ := start(t, audit.QueueParams{Output: &memory{full: true}, FailOpen: true})
	fan := audit.Fan{closed, open}
	if err := fan.Failing(); err != nil {
		t.Errorf("before the first record: %v", err)
	}
	out.setRoom(true, 0)
	if err := fan.WriteAll(t.Context(), changes(1, 1)); !errors.Is(err, errFull) || !errors.Is(fan.Failing(), errFull) {
		t.Errorf("got %v, then %v, want %v", err, fan.Failing(), errFull)
	}
	out.setRoom(false, 0)
	if err := fan.WriteAll(t.Context(), changes(2, 1)); err != nil || fan.Failing() != nil {
		t.Errorf("with room again: got %v, then %v", err, fan.Failing())
	}
}

// TestWithdraw records that a commit failed.
func TestWithdraw(t *testing.T) {
	t.Parallel()
	out := &memory{}
	queue, stop := start(t, audit.QueueParams{Output: out})
	fan, records := audit.Fan{queue}, changes(1, 2)
	if err := fan.WriteAll(t.Context(), records); err != nil {
		t.Fatal(err)
	}
	fan.Withdraw(records)
	if err := stop(); err != nil {
		t.Error(err)
	}
	all := out.all()
	if len(all) != 4 || all[2].ID != "1/0" || all[2].Outcome != audit.OutcomeFailed || all[3].ID != "1/1" {
		t.Errorf("got %d records, want two changes and two failures", len(all))
	}
}
