// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"strings"
	"time"

	"github.com/leatdev/leat/cli/internal/delivery"
	"github.com/leatdev/leat/cli/internal/lifetime"
	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/document"
)

// serviceKind shows services.
var serviceKind = kind{
	columns: []string{"NAME", "CLUSTER", "PHASE", "SYNCED", "VERSION", "OBJECTS", "SINCE", "MESSAGE"},
	cells:   serviceCells,
	detail:  serviceDetail,
}

func serviceCells(object *fleetv1.Document, now time.Time) []cell {
	s := object.GetService()
	status := s.GetStatus()
	counts := status.GetReport().GetCounts()
	return []cell{
		plain(s.GetMetadata().GetName()), plain(s.GetSpec().GetCluster()), stateCell(status.GetPhase()), yes(status.GetSynced()),
		plain(delivery.Versions(status)), ratio(counts.GetHealthy(), counts.GetTotal()), ago(status.GetReport().GetPhaseSince(), now),
		concern(s, now),
	}
}

// serviceDetail returns the parts of the latest report that the row lacks.
func serviceDetail(style Style, _ time.Time, object *fleetv1.Document) string {
	report := object.GetService().GetStatus().GetReport()
	return drift(style, report.GetDrift()) + tests(style, report.GetTests()) +
		dryRun(style, report.GetDryRun()) + renderWarnings(report.GetWarnings())
}

// concern shows the problem of a service or, without one, the test that it waits for, that it is pinned, or until when
// it is or was paused.
func concern(s *fleetv1.Service, now time.Time) cell {
	status, pause := s.GetStatus(), lifetime.Until(s.GetSpec().GetPausedUntil())
	running := status.GetReport().GetRunningTest()
	switch pinned := status.GetHold().GetPinnedRevision(); {
	case status.GetProblem() != nil:
		return problem(status.GetProblem())
	case running == nil && pinned > 0:
		return cell{oneLine(fmt.Sprintf("pinned to revision %d by %s", pinned, status.GetHold().GetPinnedBy()) + lifetime.Until(status.GetHold().GetPinnedUntil())), yellow}
	case running == nil && pause != "" && status.GetPauseEnded():
		return cell{"was paused" + pause, faint}
	case running == nil && pause != "":
		return cell{"paused" + pause, yellow}
	case running == nil:
		return cell{}
	}
	text := fmt.Sprintf("waits for test %s, for %s", objectName(running.GetRef()), span(now.Sub(running.GetStartedAt().AsTime())))
	if message := running.GetMessage(); message != "" {
		text += ": " + message
	}
	return cell{text: oneLine(text)}
}

// drift returns the drift of a service's objects, a field per line, or "" if nothing drifted.
func drift(style Style, objects []*distributorv1.ObjectDrift) string {
	if len(objects) == 0 {
		return ""
	}
	var rows [][]cell
	for _, object := range objects {
		name := plain(objectName(object.GetRef()))
		if len(object.GetFields()) == 0 {
			rows = append(rows, []cell{name, plain(""), plain(""), {"gone", red}, plain("")})
		}
		for _, field := range object.GetFields() {
			rows = append(rows, []cell{name, plain(field.GetPath()), line(field.GetOld()), line(field.GetNew()), plain(field.GetManager())})
		}
	}
	return "\n" + newGrid(style, "DRIFTED OBJECT", "FIELD", "MANIFEST", "CLUSTER", "CHANGED BY").render(rows)
}

// tests returns the results of a service's tests, and the end of the log of a failed one, or "" if
// there are no tests.
func tests(style Style, reports []*distributorv1.TestReport) string {
	if len(reports) == 0 {
		return ""
	}
	var rows [][]cell
	var log strings.Builder
	for _, t := range reports {
		result := cell{"passed", green}
		if !t.GetPassed() {
			result = cell{"failed", red}
		}
		rows = append(rows, []cell{
			plain(objectName(t.GetRef())), result, plain(span(t.GetEndedAt().AsTime().Sub(t.GetStartedAt().AsTime()))), {text: oneLine(t.GetMessage())},
		})
		if t.GetLogTail() != "" {
			fmt.Fprintf(&log, "\n%s\n%s\n", style.Faint("END OF THE LOG OF "+objectName(t.GetRef())), strings.TrimRight(printable(t.GetLogTail()), "\n"))
		}
	}
	return "\n" + newGrid(style, "TEST", "RESULT", "TOOK", "MESSAGE").render(rows) + log.String()
}

// renderWarnings returns what the renderers of a service warned of, or "" if they did not.
func renderWarnings(warnings []string) string {
	if len(warnings) == 0 {
		return ""
	}
	text := "\nWarnings of the latest render:\n"
	for _, warning := range warnings {
		text += "  " + oneLine(warning) + "\n"
	}
	return text
}

// dryRun returns what an apply would do, or "" without a report.
func dryRun(style Style, report *distributorv1.DryRunReport) string {
	if report == nil {
		return ""
	}
	text := fmt.Sprintf("\nDry run: %d would be created, %d updated, %d deleted; %d are unchanged.\n",
		report.GetCreated(), report.GetUpdated(), report.GetDeleted(), report.GetUnchanged())
	if len(report.GetChanges()) == 0 {
		return text
	}
	var rows [][]cell
	for _, c := range report.GetChanges() {
		rows = append(rows, []cell{plain(objectName(c.GetRef())), action(c.GetAction())})
	}
	return text + newGrid(style, "OBJECT", "WOULD BE").render(rows)
}

func action(a distributorv1.DryRunAction) cell {
	switch a {
	case distributorv1.DryRunAction_DRY_RUN_ACTION_CREATE:
		return cell{"created", green}
	case distributorv1.DryRunAction_DRY_RUN_ACTION_UPDATE:
		return cell{"updated", yellow}
	case distributorv1.DryRunAction_DRY_RUN_ACTION_DELETE:
		return cell{"deleted", red}
	case distributorv1.DryRunAction_DRY_RUN_ACTION_ADOPT:
		return plain("adopted")
	case distributorv1.DryRunAction_DRY_RUN_ACTION_UNSPECIFIED:
	}
	return plain(document.EnumName(a))
}
