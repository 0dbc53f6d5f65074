// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/agent/internal/health"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// HowToConfirm describes how to remove a service that the guard keeps. The hub cannot show it,
// because it no longer has the service.
const HowToConfirm = "put it back into the fleet, or mark its inventory in the agent's namespace, leat-system by default: " +
	"kubectl -n NAMESPACE annotate configmap leat-inventory.NAME leat.dev/remove=confirmed"

// Observed is the known state of a service's objects.
type Observed struct {
	Objects []report.ObjectStatus
	Counts  health.Counts
	Drift   []report.ObjectDrift
	// RunningTest is the test that runs now, or nil.
	RunningTest *inventory.TestResult
	// BadRules is the problem of the service's health rules, or nil.
	BadRules *reason.Problem
}

// Assess returns the service's status, based on the previous one. It records since when objects are
// unhealthy, and when the latest change became healthy.
func (s *State) Assess(now time.Time, o Observed, previous report.Status) report.Status {
	status := report.Status{
		Service: s.Name, UID: s.Desired.UID, Observed: s.Attempt.Tried, Planned: s.Change.Planned, Trigger: s.Change.Trigger,
		ObservedSyncRequest: s.Attempt.SyncRequest, Applied: s.Stored.Applied, Counts: o.Counts,
		Objects: report.Attention(o.Objects), Guarded: s.Attempt.Guarded, Drift: o.Drift,
		Warnings: s.Stored.Warnings,
	}
	status.UID = cmp.Or(status.UID, s.Stored.ServiceUID)
	isPreviewed := s.Desired.Spec.DryRun && s.Preview.Of.SameInputs(s.Desired.Inputs())
	if isPreviewed {
		status.DryRun = s.Preview.Result
	}
	if s.Stored.Tests.Due {
		status.RunningTest = o.RunningTest
	} else {
		status.Tests = s.Stored.Tests.Results
	}
	if o.Counts.Healthy == o.Counts.Total {
		s.UnhealthySince = time.Time{}
	} else if s.UnhealthySince.IsZero() {
		s.UnhealthySince = now
	}
	status.Phase, status.Problem = s.judge(now, o, status)
	if status.Problem != nil && status.Problem == s.Gate.Bar || isPreviewed {
		status.Observed = s.Newest.Inputs() // the status is about these inputs, even if they were not applied
	}
	status.PhaseSince = previous.PhaseSince
	if status.Phase != previous.Phase {
		status.PhaseSince = now
	}
	if status.Phase == report.Healthy && s.Change.progress == isApplied {
		s.Change.progress, s.Change.Timings.Healthy = wasHealthy, now.Sub(s.Change.Arrived)
	}
	status.Timings = s.Change.Timings
	return status
}

// judge derives the phase from a run's outcome. No other function does.
func (s *State) judge(now time.Time, o Observed, status report.Status) (report.Phase, *reason.Problem) {
	timeout := s.Desired.Spec.HealthTimeoutOrDefault()
	switch {
	case s.Order == Hold:
		return report.Failed, reason.Errorf(reason.PruneGuarded, "%s; the service is kept: %s", s.HeldWhy, HowToConfirm)
	case s.Order == Follow && s.Desired.Spec.Paused:
		return report.Paused, nil
	case s.IsSyncing:
		return report.Syncing, nil
	case s.Gate.Bar != nil:
		return report.Pending, s.Gate.Bar
	case s.Attempt.Problem != nil:
		return report.Failed, s.Attempt.Problem
	case len(s.Desired.Bundles) == 0 || !s.IsCurrent() && !s.wasAppliedBeforeDryRun():
		return report.Pending, nil
	case o.Counts.Failed > 0:
		return report.Degraded, report.Unhealthy("not healthy", status.Objects, health.Degraded, health.Missing)
	case o.BadRules != nil:
		return report.Degraded, o.BadRules
	case o.Counts.Healthy == o.Counts.Total:
		return s.judgeHealthy(o.Drift)
	case now.Sub(s.UnhealthySince) >= timeout:
		return report.Degraded, report.Unhealthy(fmt.Sprintf("not healthy within %v", timeout), status.Objects,
			health.Unknown, health.Progressing, health.Terminating)
	default:
		return report.Progressing, nil
	}
}

// wasAppliedBeforeDryRun reports whether the cluster has the state that was applied before the
// service became a dry run.
func (s *State) wasAppliedBeforeDryRun() bool {
	return s.Desired.Spec.DryRun && !s.Stored.Applied.At.IsZero() && !s.Stored.IsTouched
}

// judgeHealthy returns the phase of a service whose objects are all healthy: its tests decide.
func (s *State) judgeHealthy(drift []report.ObjectDrift) (report.Phase, *reason.Problem) {
	if s.Stored.Tests.Due && !s.Desired.Spec.DryRun {
		return report.Progressing, nil
	}
	failed, hasFailed := s.Stored.Tests.Failed()
	if !hasFailed {
		return report.Healthy, cmp.Or(s.Attempt.Notice, driftProblem(drift, s.Desired.Spec.Policy.Drift))
	}
	message := fmt.Sprintf("test %s failed: %s", failed.Ref.Key, failed.Message)
	if end := lastLines(failed.LogTail); end != "" {
		message += "; its log ends with: " + end
	}
	return report.Degraded, &reason.Problem{Reason: reason.TestFailed, Message: message}
}

// lastLines returns the end of a log, short enough for a message.
func lastLines(log string) string {
	const maxLines, maxBytes = 3, 300
	all := strings.Split(strings.TrimSpace(log), "\n")
	text := strings.Join(all[max(len(all)-maxLines, 0):], " | ")
	return strings.ToValidUTF8(text[max(len(text)-maxBytes, 0):], "")
}

// driftProblem returns the problem that people see if everything else is in order.
func driftProblem(drift []report.ObjectDrift, mode syncpolicy.DriftMode) *reason.Problem {
	if len(drift) == 0 {
		return nil
	}
	var refs []inventory.Ref
	for _, d := range drift {
		refs = append(refs, d.Ref)
	}
	by, objects := managersOf(drift), inventory.Describe(refs)
	if mode == syncpolicy.DriftCorrect {
		return reason.Errorf(reason.DriftDetected, "changed again and again%s, and corrected less and less often: %s; "+
			"stop the cause of the changes, or ignore those fields", by, objects)
	}
	return reason.Errorf(reason.DriftDetected, "changed%s: %s; a sync corrects them", by, objects)
}

// managersOf returns the names of the field managers that have changed fields.
func managersOf(drift []report.ObjectDrift) string {
	var managers []string
	for _, d := range drift {
		for _, f := range d.Fields {
			if f.Manager != "" && f.Manager != k8s.FieldManager && !slices.Contains(managers, f.Manager) {
				managers = append(managers, f.Manager)
			}
		}
	}
	if len(managers) == 0 {
		return " by others"
	}
	return " by " + strings.Join(managers, ", ")
}
