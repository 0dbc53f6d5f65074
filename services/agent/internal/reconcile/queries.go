// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/agent/internal/fingerprint"
	"github.com/leatdev/leat/services/agent/internal/health"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/reconcile/execute"
	"github.com/leatdev/leat/services/agent/internal/reconcile/observe"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// ErrUnknownService means that neither the plan nor the cluster has a service of that name.
var ErrUnknownService = errors.New("unknown service")

// Refuse returns the problem of a service whose policy this agent does not support.
func Refuse(err error) *reason.Problem { return execute.Refuse(err) }

// Reconcile applies a service although nothing changed. If the guard stops the removal of a
// service, Reconcile confirms it, like a mark on the inventory. Error: ErrUnknownService.
func (e *Engine) Reconcile(service string) error {
	u, err := e.unit(service)
	if err != nil {
		return err
	}
	u.request()
	return nil
}

// Objects returns all objects of a service by group, kind, namespace, name. Error:
// ErrUnknownService.
func (e *Engine) Objects(service string) ([]report.ObjectStatus, error) {
	u, err := e.unit(service)
	if err != nil {
		return nil, err
	}
	u.mu.Lock()
	failures := u.state.Attempt.Failures
	u.mu.Unlock()
	all, _ := u.objects.Statuses(failures)
	for i := range all {
		all[i].Health = e.shared.secrets.verdict(service, all[i].Health)
	}
	return all, nil
}

// Diff returns the changes of a run of a service. The API server computes them in a dry run. A
// candidate replaces the bundles of the plan's entry; everything else is as in the plan. See
// execute.Executor.Diff. Errors: ErrUnknownService, the errors of rendering, *reason.Problem.
func (e *Engine) Diff(ctx context.Context, service string, candidate ...plan.Bundle) ([]report.Difference, error) {
	u, err := e.unit(service)
	if err != nil {
		return nil, err
	}
	job := u.diffJob(candidate)
	if len(job.Service.Bundles) == 0 {
		return nil, nil // not resolved, or no longer in the plan: there is nothing to compare with
	}
	return e.shared.executor.Diff(ctx, job)
}

// Subscribe returns a channel of events of one service ("" for all) and a function that ends the
// subscription. The engine never waits for a reader: the channel is closed when its reader falls
// 256 events behind.
func (e *Engine) Subscribe(service string) (<-chan report.Event, func()) {
	return e.shared.events.subscribe(service)
}

// Observe records an object's state from a watch. States of objects that no inventory lists, and
// states older than the known one, have no effect. It returns at once.
func (e *Engine) Observe(o observe.Observation) {
	u, err := e.unit(o.Service)
	if err != nil {
		return // the object has Leat's label, but no known service
	}
	u.observe(o)
}

// Synced records that every existing object of a kind in a scope was observed. Listed objects there
// that were not observed are missing.
func (e *Engine) Synced(kind schema.GroupKind, scope observe.Scope) {
	for _, u := range e.all() {
		if e.Owns(scope, u.name) {
			u.objects.SetSynced(kind, scope.Namespace)
			u.Wake()
		}
	}
}

// MarkUnobservable records why objects of a kind in a scope cannot be observed. Until they can, this
// is the health of all that have never been observed.
func (e *Engine) MarkUnobservable(kind schema.GroupKind, scope observe.Scope, why string) {
	for _, u := range e.all() {
		if e.Owns(scope, u.name) {
			u.objects.SetUnobservable(kind, scope.Namespace, why)
			u.Wake()
		}
	}
}

// Owns reports whether a watch of a scope speaks for a service. A label does not prove it, because
// an account that may write objects in a namespace may write any label.
func (e *Engine) Owns(scope observe.Scope, service string) bool {
	return scope == (observe.Scope{}) || e.shared.kinds.accountOf(service) == scope.Account
}

// Judge returns the verdict on a live object by the rules of the service in its label, by the
// fleet's, or else by Leat's own knowledge of its kind. It only reads the object.
func (e *Engine) Judge(o *unstructured.Unstructured) health.Verdict {
	return e.shared.rules.judge(o)
}

// Fingerprint returns the sum of the fields of a live object that Leat has set, without the fields
// that its service ignores. It is fast.
func (e *Engine) Fingerprint(o *unstructured.Unstructured) fingerprint.Sum {
	u, err := e.unit(k8s.ServiceOf(o))
	if err != nil {
		return fingerprint.Live(o, k8s.FieldManager)
	}
	u.mu.Lock()
	rules := u.rules
	u.mu.Unlock()
	return rules.Live(o)
}

func (e *Engine) unit(service string) (*unit, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	u, ok := e.units[service]
	if !ok {
		return nil, fmt.Errorf("%w %q", ErrUnknownService, service)
	}
	return u, nil
}
