// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/reason"
	"github.com/leatdev/leat/internal/syncpolicy"
	"github.com/leatdev/leat/services/agent/internal/health"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/plan"
)

// Judge gives the verdict on a live object: by the rules of the service that its label names, by those of the fleet, or else by
// what Leat knows of its kind. The object is only read. Judge may be called concurrently.
func (e *Engine) Judge(o *unstructured.Unstructured) health.Verdict {
	return e.bench.judge(o)
}

// bench knows the rules by which objects are judged.
type bench struct {
	library *health.Library

	mu       sync.RWMutex
	fleet    ruleset
	services map[string]ruleset
}

// ruleset is rules as they were written, and what became of them.
type ruleset struct {
	source []syncpolicy.HealthRule
	rules  *health.Rules
	wrong  []error
}

func newBench() *bench {
	return &bench{library: health.NewLibrary(), services: map[string]ruleset{}}
}

func (b *bench) judge(o *unstructured.Unstructured) health.Verdict {
	service := k8s.ServiceOf(o)
	b.mu.RLock()
	own, fleet := b.services[service].rules, b.fleet.rules
	b.mu.RUnlock()
	return b.library.Judge(o, own, fleet)
}

// learn takes over the rules of a plan. It tells whether any changed.
func (b *bench) learn(plan plan.Plan) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	changed := b.fleet.replace(plan.Settings.HealthRules)
	for _, s := range plan.Services {
		own := b.services[s.Name]
		if !own.replace(s.Spec.Policy.HealthRules) {
			continue
		}
		changed = true
		b.services[s.Name] = own
	}
	return changed
}

// replace tells whether the rules are others than before.
func (r *ruleset) replace(source []syncpolicy.HealthRule) bool {
	if slices.Equal(r.source, source) {
		return false
	}
	r.source = source
	r.rules, r.wrong = health.Compile(source)
	return true
}

// forget drops the rules of a service that is gone.
func (b *bench) forget(service string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.services, service)
}

// problem is what is wrong with a service's rules; nil when nothing is. Those that are right count all the same.
func (b *bench) problem(service string) *reason.Problem {
	b.mu.RLock()
	wrong := b.services[service].wrong
	b.mu.RUnlock()
	if len(wrong) == 0 {
		return nil
	}
	words := make([]string, len(wrong))
	for i, err := range wrong {
		words[i] = err.Error()
	}
	return reason.Errorf(reason.ManifestInvalid, "%s", strings.Join(words, "; "))
}

// learn takes over the health rules of a plan, and has all objects judged anew where they changed.
func (e *Engine) learn(ctx context.Context, plan plan.Plan) {
	if !e.bench.learn(plan) {
		return
	}
	if err := errors.Join(e.bench.fleetErrors()...); err != nil {
		e.params.Logger.ErrorContext(ctx, "health rules of the fleet are wrong, going on with the others", slog.Any("error", err))
	}
	e.params.Watches.Recheck()
}

func (b *bench) fleetErrors() []error {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.fleet.wrong
}
