// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"time"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/kit/wake"
	"github.com/leatdev/leat/services/distributor/internal/delivery/derive"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// variantBook counts the services that have each variant of a configuration, and keeps the stored state of
// each variant. The catalog's lock guards it.
type variantBook struct {
	// uses are by the id of the variant. One that is stored and that no service has is among them, too.
	uses map[string]*variantUse
	// states are the stored ones, by id.
	states map[string]catalog.VariantState
	// lacking is set when a service has a variant that is not stored.
	lacking wake.Signal
}

// variantUse counts the services that have a variant.
type variantUse struct {
	variant *catalog.ConfigVariant
	members int
	// unusedSince is when the keeper found that no service has the variant.
	unusedSince time.Time
	// refused is why the store does not keep the variant; nil: it has not refused it.
	refused *catalog.Problem
}

func newVariantBook() *variantBook {
	return &variantBook{uses: map[string]*variantUse{}, states: map[string]catalog.VariantState{}, lacking: wake.NewSignal()}
}

// variantOf returns the variant of a derived service, or nil.
func variantOf(service *catalog.Service) *catalog.ConfigVariant {
	if service == nil || service.Derived == nil || service.Derived.Config == nil {
		return nil
	}
	return &service.Derived.Config.Variant
}

// count counts a service that came or went.
func (b *variantBook) count(service *catalog.Service, n int) {
	variant := variantOf(service)
	if variant == nil {
		return
	}
	use := b.uses[variant.ID]
	if use == nil {
		use = &variantUse{variant: variant}
		b.uses[variant.ID] = use
	}
	if use.members += n; use.members > 0 {
		use.variant, use.unusedSince = variant, time.Time{}
	}
	_, isStored := b.states[variant.ID]
	if use.members == 0 && !isStored {
		delete(b.uses, variant.ID)
	}
	if n > 0 && !isStored {
		b.lacking.Set()
	}
}

// settle completes the configuration of a derived service, which no reader has seen yet, with its
// stored variant. A service whose variant is not stored waits.
func (b *variantBook) settle(service *catalog.Service) {
	variant := variantOf(service)
	if variant == nil {
		return
	}
	config := service.Derived.Config
	state, isStored := b.states[variant.ID]
	problem := state.Problem
	if !isStored {
		problem = unread()
		if use := b.uses[variant.ID]; use != nil && use.refused != nil {
			problem = use.refused
		}
	}
	service.ConfigDigest = derive.WithValues(config.Digest, state.Digest)
	service.ConfigWaits = config.Waits || !isStored || state.Waits
	if config.Problem != nil {
		problem = config.Problem
	}
	if !isDerivationProblem(service.ConfigProblem) {
		service.ConfigProblem = problem
	}
}

// unread is the problem of services whose variant is not stored.
func unread() *catalog.Problem {
	return &catalog.Problem{Reason: reason.ConfigMissing, Message: "the hub has not read the values of back ends yet"}
}

// isDerivationProblem reports whether a problem is one of the derivation, which comes before
// problems of values.
func isDerivationProblem(p *catalog.Problem) bool {
	return p != nil && (p.Reason == reason.DerivationFailed || p.Reason == reason.DerivationTooExpensive || p.Reason == reason.DerivationPending)
}

// put takes over the stored state.
func (b *variantBook) put(states []catalog.VariantState) {
	for _, state := range states {
		use := b.uses[state.ID]
		if state.IsEnded {
			delete(b.states, state.ID)
			switch {
			case use == nil:
			case use.members == 0:
				delete(b.uses, state.ID)
			default:
				b.lacking.Set()
			}
			continue
		}
		b.states[state.ID] = state
		if use == nil {
			b.uses[state.ID] = &variantUse{variant: &catalog.ConfigVariant{ID: state.ID, GlobalUID: state.GlobalUID}}
		} else {
			use.refused = nil
		}
	}
}

// endedVariants returns the end of each variant that is stored: the content of a store without
// them.
func endedVariants(c *Catalog) []catalog.VariantState {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var ended []catalog.VariantState
	for id, state := range c.contents.derived.variants.states {
		ended = append(ended, catalog.VariantState{ID: id, GlobalUID: state.GlobalUID, IsEnded: true})
	}
	return ended
}

// end forgets the variants of a global service, with which the store deletes them.
func (b *variantBook) end(globalUID string) {
	for id, use := range b.uses {
		if use.variant.GlobalUID == globalUID {
			delete(b.uses, id)
			delete(b.states, id)
		}
	}
}
