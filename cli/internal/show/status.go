// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/leatdev/leat/cli/internal/failure"
	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/document"
	"github.com/leatdev/leat/internal/contract/enumname"
	"github.com/leatdev/leat/internal/kit/amount"
)

// shownExamples is how many of a problem's objects are named.
const shownExamples = 3

// Status prints the problems of a fleet: the worst first, each with since when, where, why, and
// what to do.
func Status(w io.Writer, format Format, style Style, now time.Time, status *fleetv1.GetFleetStatusResponse) error {
	switch format {
	case JSON:
		return document.WriteJSONItem(w, status)
	case YAML:
		return document.WriteYAMLItem(w, status)
	default:
	}
	var out strings.Builder
	for _, counts := range []struct {
		what   string
		groups []*fleetv1.FleetGroup
	}{{"service", status.GetServices()}, {"cluster", status.GetClusters()}, {"repository", status.GetRepositories()}} {
		out.WriteString(countsLine(counts.what, counts.groups))
	}
	if len(status.GetProblems()) == 0 {
		out.WriteString(style.Good("Nothing is wrong.") + "\n")
	}
	for _, p := range status.GetProblems() {
		out.WriteString("\n" + problemGroup(style, now, p))
	}
	if n := status.GetOmitted(); n > 0 {
		fmt.Fprintf(&out, "\n%d further problems are not shown; narrow by --project or --cluster.\n", n)
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// countsLine prints the number of objects in each phase.
func countsLine(what string, groups []*fleetv1.FleetGroup) string {
	total, parts := int32(0), []string{}
	ordered := slices.SortedStableFunc(slices.Values(groups), func(a, b *fleetv1.FleetGroup) int { return cmp.Compare(b.GetCount(), a.GetCount()) })
	for _, g := range ordered {
		total += g.GetCount()
		parts = append(parts, fmt.Sprintf("%d %s", g.GetCount(), strings.ToLower(strings.ReplaceAll(oneLine(g.GetValue()), "_", " "))))
	}
	if total == 0 {
		return ""
	}
	return amount.Of(total, what) + ": " + strings.Join(parts, ", ") + "\n"
}

// problemGroup prints the objects that one cause affects.
func problemGroup(style Style, now time.Time, p *fleetv1.ProblemGroup) string {
	severity := enumname.Of(p.GetSeverity())
	paint := style.Faint
	switch p.GetSeverity() {
	case fleetv1.ProblemSeverity_PROBLEM_SEVERITY_FAILED, fleetv1.ProblemSeverity_PROBLEM_SEVERITY_DEGRADED:
		paint = style.Bad
	case fleetv1.ProblemSeverity_PROBLEM_SEVERITY_WARNING:
		paint = style.Warn
	case fleetv1.ProblemSeverity_PROBLEM_SEVERITY_WAITING, fleetv1.ProblemSeverity_PROBLEM_SEVERITY_UNSPECIFIED:
	}
	line := paint(strings.ToLower(severity)) + "  " + affected(p)
	if p.GetReason() != errorsv1.Reason_REASON_UNSPECIFIED {
		line += ": " + enumname.Of(p.GetReason())
	}
	if p.GetFirstSince() != nil {
		line += ", since " + p.GetFirstSince().AsTime().Local().Format("2006-01-02 15:04") + " (" + ago(p.GetFirstSince(), now).text + ")"
	}
	lines := []string{line, "  " + oneLine(p.GetMessage())}
	if p.GetCommit() != "" {
		lines = append(lines, "  commit "+oneLine(short(p.GetCommit()))+" of "+oneLine(p.GetRepository()))
	}
	examples := p.GetExamples()[:min(len(p.GetExamples()), shownExamples)]
	where := "  " + oneLine(strings.Join(examples, ", "))
	if rest := int(p.GetObjects()) - len(examples); rest > 0 {
		where += fmt.Sprintf(" and %d more", rest)
	}
	lines = append(lines, where)
	if advice := failure.Advice(p.GetReason()); advice != "" {
		lines = append(lines, "  → "+advice)
	}
	if p.GetFilter() != "" && p.GetObjects() > int32(len(examples)) {
		lines = append(lines, style.Faint(fmt.Sprintf("  leat get %ss -A --filter '%s'", pluralStem(p.GetKind()), oneLine(p.GetFilter()))))
	}
	return strings.Join(lines, "\n") + "\n"
}

func pluralStem(kind string) string {
	if kind == "Repository" {
		return "repositorie"
	}
	return strings.ToLower(kind)
}

// affected counts what a problem affects.
func affected(p *fleetv1.ProblemGroup) string {
	text := amount.Of(p.GetObjects(), strings.ToLower(p.GetKind()))
	switch {
	case p.GetKind() == "Service":
		text += " in " + amount.Of(p.GetClusters(), "cluster")
	case p.GetServices() > 0:
		text += " with " + amount.Of(p.GetServices(), "service")
	}
	return text
}

// short returns the beginning of a commit.
func short(commit string) string { return commit[:min(len(commit), 8)] }
