// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"maps"

	"github.com/leatdev/leat/services/distributor/internal/delivery/derive"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// isConfigHeld reports whether a service, of which that is admitted, is planned with another configuration than
// its own. A service that was never derived has nothing, whatever is held.
func isConfigHeld(service *catalog.Service, known *catalog.Admission) bool {
	return known != nil && known.Config != "" && known.Config != service.ConfigName && !isWaiting(service)
}

// withConfig returns the service with the configuration that it is planned with.
func (a *admissions) withConfig(service *catalog.Service, known *catalog.Admission) *catalog.Service {
	if !isConfigHeld(service, known) {
		return service
	}
	next := *service
	next.Spec.Config = known.Staged.Planned()
	next.ConfigDigest, next.ConfigWaits, next.ConfigProblem = "", true, nil
	switch held := service.HeldConfig; {
	case known.Config == catalog.NoConfig:
		next.ConfigWaits = false
	case known.Staged == nil:
	case service.Derived != nil:
		a.settle(&next, known.Staged)
	case held != nil && held.Name == known.Config:
		next.ConfigDigest, next.ConfigWaits, next.ConfigProblem = held.Digest, held.Waits, held.Problem
	}
	if isDerivationProblem(service.ConfigProblem) {
		next.ConfigProblem = service.ConfigProblem
	}
	return &next
}

// settle completes the configuration at which a derived service is held with its stored variant.
func (a *admissions) settle(service *catalog.Service, staged *catalog.StagedConfig) {
	if staged.Variant == nil {
		service.ConfigDigest, service.ConfigWaits = staged.Digest, false
		return
	}
	a.mu.RLock()
	state, isStored := a.variants[staged.Variant.ID]
	a.mu.RUnlock()
	service.ConfigDigest = derive.WithValues(staged.Digest, state.Digest)
	service.ConfigWaits, service.ConfigProblem = !isStored || state.Waits, state.Problem
	if !isStored {
		service.ConfigProblem = unread()
	}
}

// putVariants takes over stored variants. It returns the names of services that are held at a
// configuration with one of them.
func (a *admissions) putVariants(states []catalog.VariantState) (services []string) {
	if len(states) == 0 {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	changed := make(map[string]bool, len(states))
	for _, state := range states {
		if changed[state.ID] = true; state.IsEnded {
			delete(a.variants, state.ID)
			continue
		}
		a.variants[state.ID] = state
	}
	for _, known := range a.byUID {
		if known.Staged != nil && known.Staged.Variant != nil && changed[known.Staged.Variant.ID] {
			services = append(services, known.Service)
		}
	}
	return services
}

// endVariants forgets the variants of a global service that was deleted.
func (a *admissions) endVariants(globalUID string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.variants, func(_ string, state catalog.VariantState) bool { return state.GlobalUID == globalUID })
}

// heldVariants returns the variants of the configurations at which services are held, by id.
func (a *admissions) heldVariants() map[string]catalog.ConfigVariant {
	a.mu.RLock()
	defer a.mu.RUnlock()
	held := map[string]catalog.ConfigVariant{}
	for _, known := range a.byUID {
		if known.Staged != nil && known.Staged.Variant != nil {
			held[known.Staged.Variant.ID] = *known.Staged.Variant
		}
	}
	return held
}
