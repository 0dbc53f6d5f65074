// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package rollout_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leatdev/leat/services/distributor/internal/rollout"
)

// TestPausesOfRollouts pauses a rollout until a time. It continues at the first tick from then on, asks to be
// woken for that, and decides the same after it was stored and read again.
func TestPausesOfRollouts(t *testing.T) {
	t.Parallel()
	start := time.Unix(1e9, 0).UTC()
	at := func(after time.Duration) time.Time { return start.Add(after) }
	tick := func(after time.Duration) rollout.Event { return rollout.Event{Kind: rollout.Tick, At: at(after)} }
	command := func(verb rollout.Verb, until time.Time) rollout.Event {
		return rollout.Event{Kind: rollout.Command, At: at(time.Minute), Verb: verb, Person: "ann", Until: until}
	}
	hour := at(time.Hour)
	for name, test := range map[string]struct {
		events []rollout.Event
		state  rollout.State
		wake   time.Time
	}{
		"before its end":               {[]rollout.Event{command(rollout.Pause, hour), tick(time.Hour - 1)}, rollout.Paused, hour},
		"at its end":                   {[]rollout.Event{command(rollout.Pause, hour), tick(time.Hour)}, rollout.Running, time.Time{}},
		"long after its end":           {[]rollout.Event{command(rollout.Pause, hour), tick(99 * time.Hour)}, rollout.Running, time.Time{}},
		"without an end":               {[]rollout.Event{command(rollout.Pause, time.Time{}), tick(99 * time.Hour)}, rollout.Paused, time.Time{}},
		"with another end":             {[]rollout.Event{command(rollout.Pause, hour), command(rollout.Pause, at(2*time.Hour)), tick(time.Hour)}, rollout.Paused, at(2 * time.Hour)},
		"resumed by a person":          {[]rollout.Event{command(rollout.Pause, hour), command(rollout.Resume, time.Time{}), tick(2 * time.Minute)}, rollout.Running, time.Time{}},
		"paused again after a resume":  {[]rollout.Event{command(rollout.Pause, hour), command(rollout.Resume, time.Time{}), command(rollout.Pause, time.Time{}), tick(time.Hour)}, rollout.Paused, time.Time{}},
		"paused while it goes back":    {[]rollout.Event{command(rollout.Rollback, time.Time{}), command(rollout.Pause, hour), tick(time.Hour)}, rollout.RolledBack, time.Time{}},
		"aborted while it was paused":  {[]rollout.Event{command(rollout.Pause, hour), command(rollout.Abort, time.Time{}), tick(time.Hour)}, rollout.Aborted, time.Time{}},
		"with an end that has passed":  {[]rollout.Event{command(rollout.Pause, start), tick(time.Minute)}, rollout.Running, time.Time{}},
		"paused twice until that time": {[]rollout.Event{command(rollout.Pause, hour), command(rollout.Pause, hour), tick(time.Hour)}, rollout.Running, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			strategy := rollout.Strategy{MaxUnavailable: rollout.Share{Count: 1}, OfflineAfter: 999 * time.Hour, HealthTimeout: 999 * time.Hour}
			run, err := rollout.Begin(rollout.Candidate{ID: "r"}, strategy, []rollout.Member{{UID: "one", Name: "web@one", Cluster: "one", From: "old", To: "new"}}, start)
			if err != nil {
				t.Fatal(err)
			}
			first := []rollout.Event{
				{Kind: rollout.Presence, At: start, Member: "one", Online: true}, {Kind: rollout.Report, At: start, Member: "one", Has: "old", Health: rollout.Healthy},
			}
			run, _ = run.Advance(first...)
			stored := run
			for _, e := range test.events {
				run, _ = run.Advance(e)
				text, err := json.Marshal(stored)
				if err != nil {
					t.Fatal(err)
				}
				stored = rollout.Run{}
				if err := json.Unmarshal(text, &stored); err != nil {
					t.Fatal(err)
				}
				stored, _ = stored.Advance(e)
			}
			if run.State != test.state || stored.State != test.state {
				t.Errorf("got %s, and %s of the stored one, want %s", run.State, stored.State, test.state)
			}
			if test.state == rollout.Paused && !run.WakeAt.Equal(test.wake) {
				t.Errorf("got a wish to be woken at %s, want %s", run.WakeAt, test.wake)
			}
			if isShown := strings.Contains(run.Why, "until 2001-09-09T"); test.state == rollout.Paused && isShown != !test.wake.IsZero() || !run.Blocked.Until.Equal(test.wake) && test.state == rollout.Paused {
				t.Errorf("got %q, blocked until %s, want the time of the end: %s", run.Why, run.Blocked.Until, test.wake)
			}
			if test.state == rollout.Running && (run.Why != "" || !run.Until.IsZero()) {
				t.Errorf("got %q until %s of a run that continues", run.Why, run.Until)
			}
		})
	}
	if refused := (&rollout.Header{State: rollout.Paused, Stop: rollout.Stop{Until: hour}}); refused.Check(command(rollout.Pause, hour)) == nil ||
		refused.Check(command(rollout.Pause, time.Time{})) != nil || !slices.Contains([]rollout.State{rollout.Paused}, refused.State) {
		t.Error("a pause may be given another end, and not the one that it has")
	}
}
