// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/leatdev/leat/cli/internal/delivery"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/document"
)

// Trace prints the way of one revision of a service, step by step, in the given format. name is the service's, for people.
func Trace(w io.Writer, format Format, style Style, name string, revision *fleetv1.Revision) error {
	switch format {
	case JSON:
		return document.WriteJSONItem(w, revision)
	case YAML:
		return document.WriteYAMLItem(w, revision)
	default:
	}
	var head strings.Builder
	state := outcome(revision.GetOutcome())
	fmt.Fprintf(&head, "service/%s, revision %d: %s\n", name, revision.GetNumber(), style.paint(state.text, state.color))
	fmt.Fprintf(&head, "Version: %s\n", oneLine(delivery.Quote(revision.GetCommits(), revision.GetVersions())))
	fmt.Fprintf(&head, "Trace:   %s\n", oneLine(cmp.Or(revision.GetTraceUrl(), revision.GetTraceId(), "unknown, because the hub exports no traces, or the agent does not report which one it was")))
	if problem := problem(revision.GetProblem()); problem.text != "" {
		fmt.Fprintf(&head, "Problem: %s\n", style.paint(oneLine(problem.text), problem.color))
	}
	if _, err := io.WriteString(w, head.String()+"\n"); err != nil {
		return err
	}
	steps := stepsOf(revision)
	var total time.Duration
	for _, s := range steps {
		total += s.took
	}
	var rows [][]cell
	var at time.Duration
	for _, s := range steps {
		rows = append(rows, []cell{plain(s.name), took(durationpb.New(s.took)), {text: bar(at, s.took, total), color: faint}})
		at += s.took
	}
	rows = append(rows, []cell{plain("all"), took(durationpb.New(total))})
	return newGrid(style, "STEP", "TOOK", "").write(w, rows)
}

// maxStep bounds a step, so that the sum of all is a time.
const maxStep = 365 * 24 * time.Hour

// step is one step of a delivery.
type step struct {
	name string
	took time.Duration
}

// stepsOf returns the steps that a revision has gone, as far as they are known, one after the other. The clocks of the
// hub and of the agent may differ, and the agent may report anything, so no step takes less than no time, or more than
// maxStep.
func stepsOf(r *fleetv1.Revision) (steps []step) {
	add := func(name string, took time.Duration) {
		steps = append(steps, step{name: name, took: min(max(0, took), maxStep)})
	}
	planned, t := r.GetPlannedAt().AsTime(), r.GetTimings()
	if r.GetFetchBeganAt() != nil {
		fetched := r.GetFetchDuration().AsDuration()
		add("fetch", fetched)
		add("plan", planned.Sub(r.GetFetchBeganAt().AsTime())-fetched)
	}
	if t == nil {
		return steps
	}
	if t.GetArrivedAt() != nil {
		add("reach the agent", t.GetArrivedAt().AsTime().Sub(planned))
	}
	var known time.Duration
	for _, part := range []struct {
		name string
		took *durationpb.Duration
	}{{"download", t.GetDownload()}, {"wait for a turn", t.GetRenderWait()}, {"render", t.GetRender()}, {"apply", t.GetApply()}} {
		if part.took != nil {
			add(part.name, part.took.AsDuration())
			known += steps[len(steps)-1].took
		}
	}
	if t.GetHealthy() != nil {
		add("become healthy", t.GetHealthy().AsDuration()-known)
	}
	return steps
}

// barWidth is the width of the line on which bars are drawn.
const barWidth = 40

// bar draws a step at its place within the whole.
func bar(at, took, total time.Duration) string {
	if total <= 0 {
		return ""
	}
	place := func(at time.Duration) int { return int(barWidth * at.Seconds() / total.Seconds()) }
	begin := min(place(at), barWidth-1)
	end := max(place(at+took), begin+1)
	return strings.Repeat("·", begin) + strings.Repeat("━", end-begin)
}
