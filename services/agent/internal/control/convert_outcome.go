// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package control

import (
	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/report"
	"github.com/leatdev/leat/services/agent/internal/wire"
)

func testsOf(results []inventory.TestResult) []*distributorv1.TestReport {
	var all []*distributorv1.TestReport
	for _, r := range results[max(len(results)-report.MaxObjects, 0):] { // one that failed is the last
		all = append(all, testOf(r))
	}
	return all
}

func testOf(r inventory.TestResult) *distributorv1.TestReport {
	return &distributorv1.TestReport{
		Ref: wire.Ref(r.Ref), Passed: r.Passed, Message: r.Message, LogTail: r.LogTail, StartedAt: timeOf(r.StartedAt), EndedAt: timeOf(r.EndedAt),
	}
}

// runningTestOf is unset while no test runs.
func runningTestOf(r *inventory.TestResult) *distributorv1.TestReport {
	if r == nil {
		return nil
	}
	return testOf(*r)
}

func dryRunOf(d *report.DryRun) *distributorv1.DryRunReport {
	if d == nil {
		return nil
	}
	report := &distributorv1.DryRunReport{
		Created: clamp(d.Created), Updated: clamp(d.Updated), Deleted: clamp(d.Deleted), Unchanged: clamp(d.Unchanged),
	}
	for _, c := range d.Changes {
		report.Changes = append(report.Changes, &distributorv1.DryRunChange{Ref: wire.Ref(c.Ref), Action: actionOf(c.Change)})
	}
	return report
}

// actionOf returns the message of a change. A problem tells of an impossible one.
func actionOf(c report.Change) distributorv1.DryRunAction {
	return map[report.Change]distributorv1.DryRunAction{
		report.Adopt:  distributorv1.DryRunAction_DRY_RUN_ACTION_ADOPT,
		report.Create: distributorv1.DryRunAction_DRY_RUN_ACTION_CREATE,
		report.Update: distributorv1.DryRunAction_DRY_RUN_ACTION_UPDATE,
		report.Delete: distributorv1.DryRunAction_DRY_RUN_ACTION_DELETE,
	}[c]
}
