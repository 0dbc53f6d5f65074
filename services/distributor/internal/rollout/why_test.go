// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package rollout_test

import (
	"strings"
	"testing"
	"time"

	"github.com/leatdev/leat/services/distributor/internal/rollout"
)

// TestCausesOfFailures has members of another project fail, the second without a cause. The run's
// texts name them as people write them, and each has its reason.
func TestCausesOfFailures(t *testing.T) {
	t.Parallel()
	at := time.Unix(1e9, 0).UTC()
	var members []rollout.Member
	var events []rollout.Event
	for _, uid := range []string{"one", "one-b"} {
		members = append(members, rollout.Member{UID: uid, Name: "shop.web@" + uid, Cluster: uid, From: "old", To: "new"})
		events = append(events, rollout.Event{Kind: rollout.Presence, At: at, Member: uid, Online: true},
			rollout.Event{Kind: rollout.Report, At: at, Member: uid, Has: "old", Health: rollout.Healthy})
	}
	strategy := rollout.Strategy{MaxUnavailable: rollout.Share{Count: 2}, FailAfter: time.Second, Budget: rollout.Budget{Failed: 1}}
	run, err := rollout.Begin(rollout.Candidate{ID: "r"}, strategy, members, at)
	if err != nil {
		t.Fatal(err)
	}
	run, _ = run.Advance(append(events, rollout.Event{Kind: rollout.Tick, At: at})...)
	if want := `wave "rest" waits for 2 of 2 members`; run.Blocked.Why != want {
		t.Errorf("got %q, want %q", run.Blocked.Why, want)
	}
	later := at.Add(2 * time.Second)
	run, _ = run.Advance(
		rollout.Event{Kind: rollout.Report, At: at, Member: "one", Has: "new", Health: rollout.Failing, Reason: "no replica"},
		rollout.Event{Kind: rollout.Report, At: at, Member: "one-b", Has: "new", Health: rollout.Failing},
		rollout.Event{Kind: rollout.Tick, At: later})
	run, _ = run.Advance(rollout.Event{Kind: rollout.Tick, At: later.Add(time.Minute)})
	display := func(f rollout.Failure) string { return strings.Replace(f.Name, ".", "/", 1) }
	// Members are in an order that the name of the candidate decides.
	names := []string{"shop/web@" + run.Members[0].UID, "shop/web@" + run.Members[1].UID}
	if got, want := run.Says(display), "2 failed, 1 allowed: "+strings.Join(names, ", "); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if want := "2 members are on the way back"; run.Blocked.Why != want {
		t.Errorf("got %q, want %q", run.Blocked.Why, want)
	}
	whys := map[string]string{"one": "no replica", "one-b": "it is failing since " + at.Format(time.RFC3339)}
	for i, p := range run.Members {
		if p.Why != whys[p.UID] || run.Failures[i] != (rollout.Failure{Name: p.Name, Why: p.Why}) {
			t.Errorf("%s: got the cause %q and %+v, want %q", p.Name, p.Why, run.Failures[i], whys[p.UID])
		}
	}
	for _, uid := range []string{"one", "one-b"} {
		run, _ = run.Advance(rollout.Event{Kind: rollout.Report, At: later, Member: uid, Has: "old", Health: rollout.Healthy})
		run, _ = run.Advance(rollout.Event{Kind: rollout.Tick, At: later.Add(2 * time.Minute)})
		if uid == "one" && run.Blocked.Why != "1 member is on the way back" {
			t.Errorf("got %q, want one member on its way", run.Blocked.Why)
		}
	}
	for _, p := range run.Members {
		if _, why := run.Explain(p); run.State != rollout.RolledBack || why != "it went back because it failed: "+whys[p.UID] {
			t.Errorf("%s: got %s, %q", p.Name, run.State, why)
		}
	}
}
