// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"
	"strings"
	"time"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
)

// rolloutPolicyKind shows rollout policies.
var rolloutPolicyKind = kind{
	columns: []string{"NAME", "SERVICES", "ROLLOUT", "STATE", "WAVE", "ARRIVED", "STARTED", "MESSAGE"},
	cells:   rolloutPolicyCells,
}

// rolloutPolicyCells shows how many services a policy decides about, and how far its latest rollout
// is.
func rolloutPolicyCells(object *fleetv1.Document, now time.Time) []cell {
	p := object.GetRolloutPolicy()
	status := p.GetStatus()
	cells := append([]cell{plain(p.GetMetadata().GetName()), plain(fmt.Sprint(status.GetServices()))}, rolloutCells(status.GetLatest(), now)...)
	if problem := status.GetProblem(); problem != nil {
		cells[len(cells)-1] = cell{oneLine(problem.GetMessage()), red}
	}
	return cells
}

// rolloutCells shows how far a rollout is. Nil stands for a policy without a rollout.
func rolloutCells(r *fleetv1.Rollout, now time.Time) []cell {
	if r == nil {
		return []cell{plain("-"), plain("-"), plain("-"), plain("-"), plain("-"), plain("")}
	}
	message := r.GetWhy()
	if message == "" {
		message = r.GetWaitsFor()
	}
	return []cell{
		plain(fmt.Sprint(r.GetNumber())), rolloutState(r.GetState()), plain(r.GetWave()), plain(fmt.Sprintf("%d/%d", r.GetArrived(), r.GetTotal())),
		ago(r.GetStartedAt(), now), plain(oneLine(message)),
	}
}

func rolloutState(state string) cell {
	switch state {
	case "halted", "rolledBack", "rollingBack":
		return cell{state, red}
	case "completed":
		return cell{state, green}
	}
	return plain(state)
}

// Rollouts prints rollouts without their members.
func Rollouts(w io.Writer, format Format, style Style, now time.Time, all []*fleetv1.Rollout) error {
	return items(w, format, newGrid(style, "NUMBER", "STATE", "WAVE", "ARRIVED", "STARTED", "MESSAGE"), all, func(r *fleetv1.Rollout) []cell {
		return rolloutCells(r, now)
	})
}

// Rollout prints a rollout with its members.
func Rollout(w io.Writer, format Format, style Style, now time.Time, res *fleetv1.GetRolloutResponse) error {
	if format == Table {
		if err := rolloutHead(w, res.GetRollout()); err != nil {
			return err
		}
	}
	err := items(w, format, newGrid(style, "SERVICE", "WAVE", "STAGE", "WHY"), res.GetMembers(), func(m *fleetv1.RolloutMember) []cell {
		stage := plain(m.GetStage())
		switch m.GetStage() {
		case "failed", "goingBack", "back":
			stage = cell{m.GetStage(), red}
		case "arrived":
			stage = cell{m.GetStage(), green}
		}
		return []cell{plain(m.GetService()), plain(m.GetWave()), stage, plain(oneLine(m.GetWhy()))}
	})
	if err == nil && res.GetNextPageToken() != "" {
		_, err = io.WriteString(w, "there are more members; -o json prints all\n")
	}
	return err
}

// rolloutHead prints the rolled-out content, how far it is, and what it waits for.
func rolloutHead(w io.Writer, r *fleetv1.Rollout) error {
	text := fmt.Sprintf("rollout %d of %s is %s: %d of %d arrived, %d of at most %d unavailable\n",
		r.GetNumber(), r.GetPolicy(), r.GetState(), r.GetArrived(), r.GetTotal(), r.GetUnavailable(), r.GetMaxUnavailable())
	for _, c := range r.GetContents() {
		text += strings.TrimRight(fmt.Sprintf("  %s at %.12s %s", c.GetRepository(), c.GetCommit(), c.GetVersion()), " ") + "\n"
	}
	for _, line := range []struct{ word, text string }{
		{"changes", strings.Join(r.GetChanges(), ", ")}, {"edited by", strings.Join(r.GetAuthors(), ", ")}, {"why", r.GetWhy()}, {"waits for", r.GetWaitsFor()},
	} {
		if line.text != "" {
			text += fmt.Sprintf("  %s: %s\n", line.word, oneLine(line.text))
		}
	}
	for _, wave := range r.GetWaves() {
		if wave.GetTotal() == 0 {
			continue
		}
		state := "has not passed"
		switch {
		case wave.GetSkipped():
			state = "was skipped"
		case wave.GetPassedAt() != nil:
			state = "passed"
		}
		if by := wave.GetApprovedBy(); len(by) > 0 {
			state += ", approved by " + strings.Join(by, ", ")
		}
		text += fmt.Sprintf("  wave %s: %d of %d arrived, %s\n", wave.GetName(), wave.GetArrived(), wave.GetTotal(), state)
	}
	_, err := io.WriteString(w, text+"\n")
	return err
}
