// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package decide_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/agent/internal/health"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/reconcile/decide"
	"github.com/leatdev/leat/services/agent/internal/report"
)

var (
	now     = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	refresh = now.Add(2 * time.Hour)
)

// entry returns a plan's entry whose content is named by spec.
func entry(spec string) plan.Service {
	return plan.Service{Name: "app", UID: "1", SpecDigest: spec, Bundles: []plan.Bundle{{Digest: digest.FromBytes([]byte(spec))}}}
}

// dry returns an entry that is a dry run.
func dry(spec string) plan.Service {
	s := entry(spec)
	s.Spec.DryRun = true
	return s
}

func nothing() []string { return nil }

// following returns the state of a service that has applied the plan.
func following(s plan.Service) decide.State {
	state := decide.New(recordOf(s), plan.Service{}, false, refresh)
	state.OrderFollow(s, now, now, 1)
	state.Admit(now, false, nothing)
	state.SettleOrder(false)
	return state
}

func recordOf(s plan.Service) inventory.Record {
	applied := s.Inputs()
	applied.At = now.Add(-time.Hour)
	return inventory.Record{Service: s.Name, ServiceUID: s.UID, Applied: applied}
}

// TestNext is the table of next actions: for each case a service that has applied entry "a", the
// following events, and the expected action.
func TestNext(t *testing.T) {
	t.Parallel()
	soon := now.Add(time.Minute)
	for name, c := range map[string]struct {
		happens func(s *decide.State, f *decide.Facts)
		what    decide.Action
		until   time.Time
	}{
		"nothing": {func(*decide.State, *decide.Facts) {}, decide.Rest, refresh},
		"a change": {func(s *decide.State, _ *decide.Facts) {
			s.OrderFollow(entry("b"), now, now, 2)
			s.Admit(now, false, nothing)
		}, decide.Apply, time.Time{}},
		"a change that waits for another service": {func(s *decide.State, _ *decide.Facts) {
			s.OrderFollow(entry("b"), now, now, 2)
			s.Admit(now, false, func() []string { return []string{"service db is Pending"} })
		}, decide.Rest, refresh},
		"a change without resolved sources": {func(s *decide.State, _ *decide.Facts) {
			s.OrderFollow(plan.Service{Name: "app", UID: "1", SpecDigest: "b"}, now, now, 2)
			s.Admit(now, false, nothing)
		}, decide.Rest, time.Time{}},
		"a pause": {func(s *decide.State, _ *decide.Facts) {
			paused := entry("b")
			paused.Spec.Paused = true
			s.OrderFollow(paused, now, now, 2)
			s.Admit(now, false, nothing)
		}, decide.Rest, time.Time{}},
		"a dry run": {func(s *decide.State, _ *decide.Facts) {
			s.OrderFollow(dry("b"), now, now, 2)
			s.Admit(now, false, nothing)
		}, decide.Preview, time.Time{}},
		"a request":             {func(s *decide.State, _ *decide.Facts) { s.Request() }, decide.Apply, time.Time{}},
		"a nudge":               {func(s *decide.State, _ *decide.Facts) { s.Nudge() }, decide.Apply, time.Time{}},
		"drift that is due":     {func(_ *decide.State, f *decide.Facts) { f.CorrectionDue = now }, decide.Apply, time.Time{}},
		"drift that is not due": {func(_ *decide.State, f *decide.Facts) { f.CorrectionDue = soon }, decide.Rest, soon},
		"a contest":             {func(_ *decide.State, f *decide.Facts) { f.ContestExpires = soon }, decide.Rest, soon},
		"the refresh":           {func(s *decide.State, _ *decide.Facts) { s.Hasten(now) }, decide.Apply, time.Time{}},
		"objects on their way": {func(s *decide.State, f *decide.Facts) {
			s.UnhealthySince, f.Phase = now, report.Progressing
		}, decide.Rest, now.Add(10 * time.Minute)},
		"a failure": {func(s *decide.State, _ *decide.Facts) {
			s.EndRun(decide.Run{}, report.Timings{}, &decide.Failure{Problem: reason.Errorf(reason.ApplyRejected, "no"), RetryAt: soon}, refresh)
		}, decide.Rest, soon},
		"a failure of the hub that answers again": {func(s *decide.State, _ *decide.Facts) {
			s.EndRun(decide.Run{}, report.Timings{}, &decide.Failure{Problem: reason.Errorf(reason.BundleUnavailable, "no"), RetryAt: soon}, refresh)
			s.RetryUnanswered()
		}, decide.Apply, time.Time{}},
		"a failure of the cluster while the hub answers again": {func(s *decide.State, _ *decide.Facts) {
			s.EndRun(decide.Run{}, report.Timings{}, &decide.Failure{Problem: reason.Errorf(reason.ApplyRejected, "no"), RetryAt: soon}, refresh)
			s.RetryUnanswered()
		}, decide.Rest, soon},
		"a failure that lasts": {func(s *decide.State, _ *decide.Facts) {
			s.EndRun(decide.Run{}, report.Timings{}, &decide.Failure{Problem: reason.Errorf(reason.ManifestInvalid, "no"), RetryAt: soon}, refresh)
		}, decide.Rest, refresh},
		"a failure and a nudge": {func(s *decide.State, _ *decide.Facts) {
			s.Nudge()
			s.EndRun(decide.Run{}, report.Timings{}, &decide.Failure{Problem: reason.Errorf(reason.ApplyRejected, "no"), RetryAt: soon}, refresh)
		}, decide.Apply, time.Time{}},
		"the plan drops it":                   {func(s *decide.State, _ *decide.Facts) { s.OrderLeave("", now, 2) }, decide.Remove, time.Time{}},
		"the plan drops it with a dependant":  {func(s *decide.State, f *decide.Facts) { s.OrderLeave("", now, 2); f.IsNeeded = true }, decide.Rest, time.Time{}},
		"the guard keeps it":                  {func(s *decide.State, _ *decide.Facts) { s.OrderLeave("too many", now, 2) }, decide.Rest, time.Time{}},
		"the guard keeps it, another takes":   {func(s *decide.State, _ *decide.Facts) { s.OrderLeave("too many", now, 2); s.Nudge() }, decide.Release, time.Time{}},
		"the guard keeps it, a person agrees": {func(s *decide.State, _ *decide.Facts) { s.OrderLeave("too many", now, 2); s.Request() }, decide.Remove, time.Time{}},
		"the plan drops it and takes it back": {func(s *decide.State, _ *decide.Facts) {
			s.OrderLeave("", now, 2)
			s.OrderFollow(entry("a"), now, now, 3)
			s.Admit(now, false, nothing)
		}, decide.Rest, refresh},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, f := following(entry("a")), decide.Facts{Now: now}
			c.happens(&s, &f)
			if what, until := s.Next(f); what != c.what || !until.Equal(c.until) {
				t.Errorf("got %v until %v, want %v until %v", what, until, c.what, c.until)
			}
		})
	}
}

// TestWindows holds a change back until its window opens, unless a person asks.
func TestWindows(t *testing.T) {
	t.Parallel()
	nightly := entry("b")
	nightly.Spec.Policy.Windows = []syncpolicy.Window{{Schedule: "0 22 * * *", Duration: time.Hour}}
	s := following(entry("a"))
	s.OrderFollow(nightly, now, now, 2)
	s.Admit(now, false, nothing)
	opening := time.Date(2026, 11, 22, 22, 0, 0, 0, time.UTC)
	if bar := s.Gate.Bar; bar == nil || bar.Reason != reason.SyncWindowClosed || !s.Gate.Until.Equal(opening) {
		t.Fatalf("at noon: bar %v until %v, want one until %v", bar, s.Gate.Until, opening)
	}
	if s.Desired.SpecDigest != "a" {
		t.Errorf("the unit works on %q while the window is closed", s.Desired.SpecDigest)
	}
	requested := s
	requested.Request()
	if requested.Admit(now, false, nothing); requested.Gate.Bar != nil || requested.Desired.SpecDigest != "b" {
		t.Errorf("a request: bar %v, works on %q", requested.Gate.Bar, requested.Desired.SpecDigest)
	}
	if s.Admit(opening, false, nothing); s.Gate.Bar != nil || s.Desired.SpecDigest != "b" {
		t.Errorf("at its opening: bar %v, works on %q", s.Gate.Bar, s.Desired.SpecDigest)
	}
}

// TestRunGoesOnBehindAClosingGate lets a run continue with the entry that was admitted before.
func TestRunGoesOnBehindAClosingGate(t *testing.T) {
	t.Parallel()
	s := following(entry("a"))
	s.OrderFollow(entry("b"), now, now, 2)
	s.Admit(now, false, nothing)
	if s.Admit(now, true, func() []string { return []string{"gone"} }); s.Desired.SpecDigest != "b" {
		t.Errorf("the run's entry became %q", s.Desired.SpecDigest)
	}
	if s.Admit(now, false, func() []string { return []string{"gone"} }); s.Desired.SpecDigest != "a" {
		t.Errorf("after the run the unit works on %q, want what is applied", s.Desired.SpecDigest)
	}
}

// TestFallback leaves a service alone if its change is partly applied, or if the applied entry is
// unknown.
func TestFallback(t *testing.T) {
	t.Parallel()
	for name, record := range map[string]inventory.Record{
		"half-way": func() inventory.Record { r := recordOf(entry("a")); r.Touched = true; return r }(),
		"unknown":  recordOf(entry("from before")),
	} {
		s := decide.New(record, entry("a"), false, refresh)
		s.OrderFollow(entry("b"), now, now, 1)
		s.Admit(now, false, func() []string { return []string{"gone"} })
		if len(s.Desired.Bundles) > 0 {
			t.Errorf("%s: the unit works on %q", name, s.Desired.SpecDigest)
		}
	}
}

// TestAssess is the table of phases.
func TestAssess(t *testing.T) {
	t.Parallel()
	unhealthy := decide.Observed{
		Counts:  health.Counts{Total: 1, Progressing: 1},
		Objects: []report.ObjectStatus{{Health: health.Verdict{State: health.Progressing, Message: "0 of 1 ready"}}},
	}
	broken := decide.Observed{
		Counts:  health.Counts{Total: 1, Failed: 1},
		Objects: []report.ObjectStatus{{Health: health.Verdict{State: health.Degraded, Message: "crashes"}}},
	}
	for name, c := range map[string]struct {
		happens  func(s *decide.State)
		observed decide.Observed
		phase    report.Phase
		words    []string
	}{
		"healthy":       {func(*decide.State) {}, decide.Observed{}, report.Healthy, nil},
		"on its way":    {func(*decide.State) {}, unhealthy, report.Progressing, nil},
		"too long":      {func(s *decide.State) { s.UnhealthySince = now.Add(-11 * time.Minute) }, unhealthy, report.Degraded, []string{"10m0s", "0 of 1 ready"}},
		"broken":        {func(*decide.State) {}, broken, report.Degraded, []string{"crashes"}},
		"kept":          {func(s *decide.State) { s.OrderLeave("9 of 10 services left the plan at once", now, 2) }, decide.Observed{}, report.Failed, []string{"9 of 10", "leat.dev/remove=confirmed"}},
		"tests are due": {func(s *decide.State) { s.Stored.Tests.Due = true }, decide.Observed{}, report.Progressing, nil},
		"a test failed": {func(s *decide.State) {
			s.Stored.Tests.Results = []inventory.TestResult{{Message: "no answer", LogTail: "a\nb"}}
		}, decide.Observed{}, report.Degraded, []string{"no answer", "a | b"}},
		"wrong rules":      {func(*decide.State) {}, decide.Observed{BadRules: reason.Errorf(reason.ManifestInvalid, "rule 1")}, report.Degraded, []string{"rule 1"}},
		"drift":            {func(*decide.State) {}, decide.Observed{Drift: []report.ObjectDrift{{}}}, report.Healthy, []string{"by others"}},
		"a failed run":     {func(s *decide.State) { s.Attempt.Problem = reason.Errorf(reason.ApplyRejected, "no") }, decide.Observed{}, report.Failed, []string{"no"}},
		"syncing":          {func(s *decide.State) { s.IsSyncing = true }, decide.Observed{}, report.Syncing, nil},
		"not resolved yet": {func(s *decide.State) { s.Desired.Bundles = nil }, decide.Observed{}, report.Pending, nil},
	} {
		s := following(entry("a"))
		c.happens(&s)
		got := s.Assess(now, c.observed, report.Status{})
		message := ""
		if got.Problem != nil {
			message = got.Problem.Message
		}
		if got.Phase != c.phase || slices.ContainsFunc(c.words, func(word string) bool { return !strings.Contains(message, word) }) {
			t.Errorf("%s: got %v, %q, want %v with %q", name, got.Phase, message, c.phase, c.words)
		}
	}
}
