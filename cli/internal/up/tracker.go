// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"slices"
	"strings"
	"time"

	"github.com/leatdev/leat/cli/internal/delivery"
	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/cli/internal/up/report"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/document"
)

// patience is how long a failure must last before it counts. Right after a start a repository may
// not be fetched yet, and an agent not connected.
const patience = 10 * time.Second

// paused is the phase of a service that waits until a person resumes it, as an earlier start may have left it.
const paused = "paused"

// tracker remembers the last state of every service, and the problems of repositories.
type tracker struct {
	planned      []string          // references, in the order of the summary
	seen         map[string]seen   // by reference
	repositories map[string]string // reported problems, by name
}

type seen struct {
	state report.Service
	since time.Time // of the state
}

func newTracker(planned []string) *tracker {
	return &tracker{planned: planned, seen: map[string]seen{}, repositories: map[string]string{}}
}

// observe records a service's state and reports whether it is new.
func (t *tracker) observe(now time.Time, service *fleetv1.Service) (report.Service, bool) {
	state, name := stateOf(service), document.ServiceReference(service)
	before, known := t.seen[name]
	if known && same(before.state, state) {
		return state, false
	}
	t.seen[name] = seen{state: state, since: now}
	return state, true
}

// forget drops an object's state.
func (t *tracker) forget(kind, name string) {
	switch kind {
	case "Service":
		delete(t.seen, name)
	case "Repository":
		delete(t.repositories, name)
	}
}

// observeRepository reports whether a repository's problem has changed or gone. As long as the
// earlier content is served, a service's state does not show the problem.
func (t *tracker) observeRepository(repository *fleetv1.Repository) (text string, changed bool) {
	name, told := repository.GetMetadata().GetName(), ""
	if problem := repository.GetStatus().GetProblem(); problem != nil {
		told = document.EnumName(problem.GetReason()) + ": " + problem.GetMessage()
	}
	changed = t.repositories[name] != told
	t.repositories[name] = told
	if told == "" {
		return "has recovered", changed
	}
	return "has a problem: " + told, changed
}

// same compares services without the fields that change all the time on the way to healthy.
func same(a, b report.Service) bool {
	return slices.Equal(a.Commits, b.Commits) && slices.Equal(a.Versions, b.Versions) &&
		a.Phase == b.Phase && a.Delivered == b.Delivered && a.Reason == b.Reason && a.Message == b.Message &&
		(!a.Delivered || a.Objects == b.Objects && a.Healthy == b.Healthy)
}

// judged reports whether the outcome of every planned service is known: it was delivered, somebody has paused it, or it
// has been failing for a while.
func (t *tracker) judged(now time.Time) bool {
	for _, name := range t.planned {
		s, known := t.seen[name]
		isOver := s.state.Delivered || s.state.Phase == paused || s.state.Failed && now.Sub(s.since) >= patience
		if !known || !isOver {
			return false
		}
	}
	return true
}

// states returns the current states of the planned services.
func (t *tracker) states() []report.Service {
	states := make([]report.Service, 0, len(t.planned))
	for _, name := range t.planned {
		state := t.seen[name].state
		state.Name, _, _ = strings.Cut(name, "@")
		states = append(states, state)
	}
	return states
}

func stateOf(service *fleetv1.Service) report.Service {
	status := service.GetStatus()
	state := report.Service{
		Name:      service.GetMetadata().GetName(),
		Cluster:   service.GetSpec().GetCluster(),
		Phase:     document.EnumName(status.GetPhase()),
		Synced:    status.GetSynced(),
		Commits:   status.GetReport().GetAppliedCommits(),
		Versions:  status.GetReport().GetAppliedVersions(),
		Digests:   status.GetReport().GetAppliedDigests(),
		Objects:   status.GetReport().GetCounts().GetTotal(),
		Healthy:   status.GetReport().GetCounts().GetHealthy(),
		Delivered: delivery.Healthy.Reached(service),
		Failed:    delivery.Failed(service),
	}
	if state.Phase == "unspecified" {
		state.Phase = "pending"
	}
	if problem := status.GetProblem(); problem != nil {
		state.Reason = document.EnumName(problem.GetReason())
		state.Message = problem.GetMessage()
		state.Advice = failure.Advice(problem.GetReason())
	}
	return state
}
