// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package rollout_test

import (
	"slices"
	"testing"
	"time"

	"github.com/leatdev/leat/services/distributor/internal/rollout"
)

// TestSilence has one of two members not be seen any more, under both strategies.
func TestSilence(t *testing.T) {
	t.Parallel()
	start := time.Unix(1e9, 0).UTC()
	presence := func(after time.Duration, online, held bool) rollout.Event {
		return rollout.Event{Kind: rollout.Presence, At: start.Add(after), Member: "one", Online: online, Held: held}
	}
	tick := func(after time.Duration) rollout.Event {
		return rollout.Event{Kind: rollout.Tick, At: start.Add(after)}
	}
	retry := func(after time.Duration) rollout.Event {
		return rollout.Event{Kind: rollout.Command, At: start.Add(after), Verb: rollout.Retry, Person: "ann"}
	}
	for name, tc := range map[string]struct {
		excuses bool
		events  []rollout.Event
		state   rollout.State
		// why is the cause of the member that failed; empty: it did not.
		why string
	}{
		"it falls silent": {
			events: []rollout.Event{presence(time.Minute, false, false), tick(6 * time.Minute)},
			state:  rollout.Halted, why: "its cluster is offline since 2001-09-09T01:47:40Z",
		},
		"its silence is short": {
			events: []rollout.Event{presence(time.Minute, false, false), tick(6*time.Minute - time.Second)}, state: rollout.Running,
		},
		"it falls silent at the moment of its admission": {
			events: []rollout.Event{presence(0, false, false), tick(5 * time.Minute)},
			state:  rollout.Halted, why: "its cluster is offline since 2001-09-09T01:46:40Z",
		},
		"it is no longer waited for": {
			excuses: true, events: []rollout.Event{presence(time.Minute, false, false), tick(6 * time.Minute)}, state: rollout.Completed,
		},
		"a person holds it": {
			events: []rollout.Event{presence(time.Minute, false, true), tick(6 * time.Minute)}, state: rollout.Completed,
		},
		"it falls silent after a person held it": {
			events: []rollout.Event{presence(time.Minute, false, true), presence(4*time.Minute, false, false), tick(6 * time.Minute)}, state: rollout.Running,
		},
		"it stays silent after a retry": {
			events: []rollout.Event{presence(time.Minute, false, false), tick(6 * time.Minute), retry(7 * time.Minute), tick(8 * time.Minute)}, state: rollout.Running,
		},
		"it comes back after a retry": {
			events: []rollout.Event{
				presence(time.Minute, false, false), tick(6 * time.Minute), retry(7 * time.Minute), presence(8*time.Minute, true, false),
				{Kind: rollout.Report, At: start.Add(8 * time.Minute), Member: "one", Has: "new", Health: rollout.Healthy},
				tick(8 * time.Minute),
			},
			state: rollout.Completed,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			strategy := rollout.Strategy{
				MaxUnavailable: rollout.Share{Count: 2}, OfflineAfter: 5 * time.Minute, FailsOffline: !tc.excuses, PausesOnHalt: true,
			}
			var members []rollout.Member
			var events []rollout.Event
			for _, uid := range []string{"one", "two"} {
				members = append(members, rollout.Member{UID: uid, Name: "agent@" + uid, Cluster: uid, From: "old", To: "new"})
				events = append(events, rollout.Event{Kind: rollout.Presence, At: start, Member: uid, Online: true},
					rollout.Event{Kind: rollout.Report, At: start, Member: uid, Has: "old", Health: rollout.Healthy})
			}
			run, err := rollout.Begin(rollout.Candidate{ID: "r"}, strategy, members, start)
			if err != nil {
				t.Fatal(err)
			}
			run, _ = run.Advance(append(events, tick(0))...)
			run, _ = run.Advance(rollout.Event{Kind: rollout.Report, At: start, Member: "two", Has: "new", Health: rollout.Healthy})
			run, _ = run.Advance(tc.events...)
			i := slices.IndexFunc(run.Members, func(p *rollout.Progress) bool { return p.UID == "one" })
			why := ""
			if p := run.Members[i]; !p.FailedAt.IsZero() {
				why = p.Why
			}
			if run.State != tc.state || why != tc.why {
				t.Errorf("got %s and the cause %q, want %s and %q; it waits for %+v", run.State, why, tc.state, tc.why, run.Blocked)
			}
		})
	}
}
