// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package execute

import "time"

// Stage is a part of a run that is measured.
type Stage string

// The stages. Wait is the time for others: for health, hooks, and objects that go.
const (
	StageRender Stage = "render"
	StageApply  Stage = "apply"
	StagePrune  Stage = "prune"
	StageWait   Stage = "wait"
)

// measured are the steps that count for a stage.
var measured = map[string]Stage{
	"render": StageRender, "apply": StageApply, "finish": StageApply, "prune": StagePrune, "delete objects": StagePrune,
}

// Spent is what a run spent its time on, and what it spared.
type Spent struct {
	// Stages are the durations of the stages that the run came to, without the waits in them.
	Stages map[Stage]time.Duration
	// Applied is the number of objects that were sent to the API server, and Kept that of objects of which nothing
	// differed from what was applied last, so that they cost no request.
	Applied, Kept int
	// Failed is the stage that ended the run with an error; empty: another step, or none.
	Failed Stage
}

// spend adds a step that ended to what the run spent.
func (s *Spent) spend(step string, took, waited time.Duration, err error) {
	stage, ok := measured[step]
	if !ok {
		return
	}
	if s.Stages == nil {
		s.Stages = map[Stage]time.Duration{}
	}
	s.Stages[stage] += took - waited
	if waited > 0 {
		s.Stages[StageWait] += waited
	}
	if err != nil {
		s.Failed = stage
	}
}
