// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// rehearsers is how many services a rehearsal compares at once. The agent that works meanwhile has the cluster's API
// server for itself otherwise.
const rehearsers = 2

// Rehearsal is what an engine would change of services that another agent holds settled.
type Rehearsal struct {
	// Compared and Skipped count the services. A service is skipped where the other agent has not yet applied all that
	// the plan asks, or leaves it alone on purpose.
	Compared, Skipped int
	// Deviations are the differences of compared services, sorted by service.
	Deviations []Deviation
}

// Deviation is one difference of a rehearsal.
type Deviation struct {
	Service string
	// Object is what the engine would change. Zero: the engine could not say what it would change in the service.
	Object inventory.Key
	Change report.Change
	// Problem is why the engine could not say that, or would not be let. Nil: it could. Its message can repeat what the
	// service holds, so it is not for people who see the agent alone.
	Problem *reason.Problem
}

// changeWords are the verbs of messages about what would change.
var changeWords = map[report.Change]string{report.Create: "create", report.Update: "update", report.Delete: "delete", report.Impossible: "not be let write"}

// String describes the deviation as the end of a sentence about the engine: "would …".
func (d Deviation) String() string {
	text := fmt.Sprintf("would fail in service %s", d.Service)
	if d.Object != (inventory.Key{}) {
		text = fmt.Sprintf("would %s %s of service %s", changeWords[d.Change], d.Object, d.Service)
	}
	if d.Problem != nil {
		text += fmt.Sprintf(" (%s)", d.Problem.Reason)
	}
	return text
}

// Rehearse compares what this engine would make of a plan with what another agent has made of it, and changes nothing.
// It is called in place of Run, once. Because the other agent has settled what is compared, it would change none of it
// itself. Error: the inventories cannot be read, or ctx ended.
func (e *Engine) Rehearse(ctx context.Context, p plan.Plan) (Rehearsal, error) {
	records, err := e.shared.inventories.List(ctx)
	if err != nil {
		return Rehearsal{}, fmt.Errorf("read inventories: %w", err)
	}
	units := make(map[string]*unit, len(records))
	for _, record := range records {
		units[record.Service] = e.join(ctx, record)
	}
	e.shared.rules.update(p)
	e.configure(p.Settings)
	e.facts.set(p.Facts)
	e.shared.ownership.HandOut(func() {
		for _, s := range p.Services {
			if u := units[s.Name]; u != nil {
				u.follow(s, p.Time, time.Now(), 1)
			}
		}
	})
	var mu sync.Mutex // guards found
	var found Rehearsal
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(rehearsers)
	for _, s := range p.Services {
		u := units[s.Name]
		if u == nil || !u.isSettled() {
			found.Skipped++
			continue
		}
		found.Compared++
		group.Go(func() error {
			deviations := e.deviations(ctx, u, s)
			mu.Lock()
			defer mu.Unlock()
			found.Deviations = append(found.Deviations, deviations...)
			return ctx.Err()
		})
	}
	if err := group.Wait(); err != nil {
		return Rehearsal{}, fmt.Errorf("compare services: %w", err)
	}
	slices.SortStableFunc(found.Deviations, func(a, b Deviation) int { return strings.Compare(a.Service, b.Service) })
	return found, nil
}

// deviations returns what the engine would change of one service. Where drift is not corrected, the other agent leaves
// what people have changed, and so would this one: there, only objects that come or go count.
func (e *Engine) deviations(ctx context.Context, u *unit, s plan.Service) []Deviation {
	found, err := e.shared.executor.Diff(ctx, u.diffJob(nil))
	if err != nil {
		return []Deviation{{Service: s.Name, Problem: reason.ProblemOf(err)}}
	}
	var deviations []Deviation
	for _, d := range found {
		isDrift := d.Change == report.Update && s.Spec.Policy.Drift != syncpolicy.DriftCorrect
		if d.Change != report.Unchanged && !isDrift {
			deviations = append(deviations, Deviation{Service: s.Name, Object: d.Ref.Key, Change: d.Change, Problem: d.Problem})
		}
	}
	return deviations
}

// isSettled reports whether what the plan asks of the service was applied completely, and is to be kept so.
func (u *unit) isSettled() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.state.IsSettled()
}
