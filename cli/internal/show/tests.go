// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"strings"
	"unicode"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/internal/document"
)

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
	return "\n" + newRows(style, "TEST", "RESULT", "TOOK", "MESSAGE").render(rows) + log.String()
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
	return text + newRows(style, "OBJECT", "WOULD BE").render(rows)
}

func action(a distributorv1.DryRunAction) cell {
	switch a {
	case distributorv1.DryRunAction_DRY_RUN_ACTION_CREATE:
		return cell{"created", green}
	case distributorv1.DryRunAction_DRY_RUN_ACTION_UPDATE:
		return cell{"updated", yellow}
	case distributorv1.DryRunAction_DRY_RUN_ACTION_DELETE:
		return cell{"deleted", red}
	case distributorv1.DryRunAction_DRY_RUN_ACTION_UNSPECIFIED:
	}
	return plain(document.EnumName(a))
}

// oneLine returns a text on one line, without control characters.
func oneLine(text string) string { return strings.Join(strings.Fields(printable(text)), " ") }

// printable returns a text without control characters.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, text)
}
