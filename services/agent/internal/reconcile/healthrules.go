// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/agent/internal/health"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/plan"
)

// healthRules judge objects by the rules of the service in an object's label, then by the fleet's,
// then by Leat's own knowledge of the kind. It is safe for concurrent use.
type healthRules struct {
	library *health.Library

	mu       sync.RWMutex
	fleet    ruleset
	services map[string]ruleset
}

// ruleset holds rules as written and compiled.
type ruleset struct {
	source []syncpolicy.HealthRule
	rules  *health.Rules
	errs   []error // of the rules that cannot be compiled; the others apply
}

func newHealthRules() *healthRules {
	return &healthRules{library: health.NewLibrary(), services: map[string]ruleset{}}
}

// judge returns the verdict on a live object, which it only reads.
func (h *healthRules) judge(o *unstructured.Unstructured) health.Verdict {
	service := k8s.ServiceOf(o)
	h.mu.RLock()
	own, fleet := h.services[service].rules, h.fleet.rules
	h.mu.RUnlock()
	return h.library.Judge(o, own, fleet)
}

// update replaces the rules by a plan's, and reports whether any changed.
func (h *healthRules) update(p plan.Plan) (changed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	changed = h.fleet.replace(p.Settings.HealthRules)
	for _, s := range p.Services {
		own := h.services[s.Name]
		if own.replace(s.Spec.Policy.HealthRules) {
			changed = true
			h.services[s.Name] = own
		}
	}
	return changed
}

// replace compiles other rules, and reports whether they differ from the previous ones.
func (r *ruleset) replace(source []syncpolicy.HealthRule) bool {
	if slices.Equal(r.source, source) {
		return false
	}
	r.source = source
	r.rules, r.errs = health.Compile(source)
	return true
}

// forget drops the rules of a service that is gone.
func (h *healthRules) forget(service string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.services, service)
}

// problem returns the problem of a service's invalid rules, or nil.
func (h *healthRules) problem(service string) *reason.Problem {
	h.mu.RLock()
	errs := h.services[service].errs
	h.mu.RUnlock()
	if len(errs) == 0 {
		return nil
	}
	texts := make([]string, len(errs))
	for i, err := range errs {
		texts[i] = err.Error()
	}
	return reason.Errorf(reason.ManifestInvalid, "%s", strings.Join(texts, "; "))
}

// fleetErrors returns the errors in the fleet's rules.
func (h *healthRules) fleetErrors() []error {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.fleet.errs
}
