// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/leatdev/leat/internal/reason"
	"github.com/leatdev/leat/services/agent/internal/health"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/reconcile/decide"
	"github.com/leatdev/leat/services/agent/internal/reconcile/observe"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// Observe records what a watch saw. Observations of objects that are in no inventory, and observations
// that are older than what is known, have no effect. It returns at once.
func (e *Engine) Observe(o observe.Observation) {
	u, err := e.unit(o.Service)
	if err != nil {
		return // the object carries our label, but belongs to no service of ours
	}
	u.observe(o)
}

// Synced records that every existing object of a kind was observed. The objects of inventories that
// were not are missing.
func (e *Engine) Synced(kind schema.GroupKind) {
	for _, u := range e.all() {
		u.objects.SetSynced(kind)
		signal(u.wake)
	}
}

// MarkUnobservable records why objects of a kind cannot be observed. Until they can, this is the health
// of those that never were.
func (e *Engine) MarkUnobservable(kind schema.GroupKind, why string) {
	for _, u := range e.all() {
		u.objects.SetUnobservable(kind, why)
		signal(u.wake)
	}
}

func (u *unit) observe(o observe.Observation) {
	effect := u.objects.Observe(o)
	if effect.HasNewHealth {
		u.mu.Lock()
		u.retryOnHealthy(effect.Health)
		phase := u.status.Phase
		u.mu.Unlock()
		u.engine.events.publish(report.Event{
			Time: time.Now(), Service: u.name, Phase: phase, Object: &effect.Ref, Message: sentence(effect.Health),
		})
	}
	if effect.HasNews {
		signal(u.wake)
	}
}

func sentence(v health.Verdict) string {
	if v.Message == "" {
		return v.State.String()
	}
	return v.State.String() + ": " + v.Message
}

// publish reports the unit's status if it changed.
func (u *unit) publish(now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.order == decide.Wait || u.closed || u.order == decide.Leave && u.problem == nil {
		return // nobody has asked yet, or nobody asks any more
	}
	status := u.assess(now)
	if status.Equal(u.status) {
		return
	}
	changed := status.Phase != u.status.Phase
	u.status = status
	u.engine.relations.note(status)
	u.engine.params.Reporter.Report(status)
	if changed {
		u.engine.events.publish(report.Event{Time: now, Service: u.name, Phase: status.Phase, Message: headline(status)})
	}
}

func headline(s report.Status) string {
	if s.Problem != nil {
		return s.Problem.Message
	}
	return s.Phase.String()
}

// assess makes a status of all that is known. u.mu is held.
func (u *unit) assess(now time.Time) report.Status {
	objects, counts := u.objects.Statuses(u.failures)
	s := report.Status{
		Service: u.name, UID: u.desired.UID, Observed: u.tried, Planned: u.planned, ObservedSyncRequest: u.carried,
		Applied: u.stored.Applied, Counts: counts, Objects: report.Attention(objects), Guarded: u.guarded,
		Drift: u.objects.Drift(now),
	}
	if s.UID == "" {
		s.UID = u.stored.ServiceUID
	}
	s.DryRun = u.rehearsed()
	if !u.stored.Tests.Due {
		s.Tests = u.stored.Tests.Results
	}
	if counts.Healthy == counts.Total {
		u.since = time.Time{}
	} else if u.since.IsZero() {
		u.since = now
	}
	s.Phase, s.Problem = u.judge(now, s)
	if s.Problem != nil && s.Problem == u.bar || u.desired.Spec.DryRun && u.rehearsal.of.SameInputs(u.desired.Inputs()) {
		s.Observed = u.newest.Inputs() // which this status is about, though nothing of it was applied
	}
	s.PhaseSince = u.status.PhaseSince
	if s.Phase != u.status.Phase {
		s.PhaseSince = now
	}
	if s.Phase == report.Healthy && u.stage == applied {
		u.stage, u.timings.Healthy = settled, now.Sub(u.arrived)
	}
	s.Timings = u.timings
	return s
}

// judge is the one place where an outcome becomes a phase. u.mu is held.
func (u *unit) judge(now time.Time, s report.Status) (report.Phase, *reason.Problem) {
	switch {
	case u.order == decide.Hold:
		return report.Failed, reason.Errorf(reason.PruneGuarded, "%s; the service is kept: %s", u.heldWhy, howToConfirm)
	case u.order == decide.Follow && u.desired.Spec.Paused:
		return report.Paused, nil
	case u.syncing:
		return report.Syncing, nil
	case u.bar != nil:
		return report.Pending, u.bar
	case u.problem != nil:
		return report.Failed, u.problem
	case len(u.desired.Bundles) == 0 || !u.current() && !u.once():
		return report.Pending, nil
	case s.Counts.Failed > 0:
		return report.Degraded, unhealthy("not healthy", s.Objects, health.Degraded, health.Missing)
	case u.engine.bench.problem(u.name) != nil:
		return report.Degraded, u.engine.bench.problem(u.name)
	case s.Counts.Healthy == s.Counts.Total:
		return u.verdict(s.Drift)
	case now.Sub(u.since) >= u.desired.Spec.HealthTimeoutOrDefault():
		return report.Degraded, unhealthy(fmt.Sprintf("not healthy within %v", u.desired.Spec.HealthTimeoutOrDefault()), s.Objects,
			health.Unknown, health.Progressing, health.Terminating)
	default:
		return report.Progressing, nil
	}
}

// unhealthy names the objects in the given states, the first that says why in front, and tells what it says.
func unhealthy(what string, objects []report.ObjectStatus, states ...health.State) *reason.Problem {
	var named []inventory.Object
	message := ""
	for _, o := range objects {
		switch {
		case !slices.Contains(states, o.Health.State):
		case message == "" && o.Health.Message != "":
			message = ": " + o.Health.Message
			named = slices.Insert(named, 0, inventory.Object{Ref: o.Ref})
		default:
			named = append(named, inventory.Object{Ref: o.Ref})
		}
	}
	return reason.Errorf(reason.HealthTimeout, "%s: %s%s", what, describe(named), message)
}

// Objects lists all objects of a service by group, kind, namespace, name. Error: ErrUnknownService.
func (e *Engine) Objects(service string) ([]report.ObjectStatus, error) {
	u, err := e.unit(service)
	if err != nil {
		return nil, err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	all, _ := u.objects.Statuses(u.failures)
	return all, nil
}
