// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"log/slog"
	"time"

	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

const (
	// variantLife is how long a variant is stored that no service has.
	variantLife = 10 * time.Minute
	// variantRetry is after how long the store is asked again to keep variants that it refused.
	variantRetry = time.Minute
)

// VariantKeeper has the store keep the variants that services have, and end the ones that none has.
// Every replica has one: they agree without asking each other, because keeping a variant twice
// changes nothing, and one that ended too early is kept again. One goroutine runs it.
type VariantKeeper struct {
	View   *View
	Store  catalog.Variants
	Logger *slog.Logger
}

// Run keeps variants until ctx is done.
func (k VariantKeeper) Run(ctx context.Context) error {
	isAway := false
	for {
		lacking, unused, wait := lookAtVariants(k.View.Catalog, k.View.admitted.heldVariants(), time.Now())
		err := k.keep(ctx, lacking, unused)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			wait = variantRetry
			if !isAway {
				k.Logger.WarnContext(ctx, "values of back ends are not stored for derived services", slog.Any("error", err))
			}
		case len(lacking) > 0:
			wait = min(wait, variantRetry)
		}
		isAway = err != nil
		if err := k.View.Catalog.contents.derived.variants.lacking.Await(ctx, wait); err != nil {
			return err
		}
	}
}

func (k VariantKeeper) keep(ctx context.Context, lacking []catalog.ConfigVariant, unused []string) error {
	if len(lacking) > 0 {
		refused, err := k.Store.Keep(ctx, lacking)
		if err != nil {
			return err
		}
		k.refuse(ctx, refused)
		if err := k.View.Refresh(ctx); err != nil {
			return err
		}
	}
	if len(unused) == 0 {
		return nil
	}
	return k.Store.Forget(ctx, unused)
}

// lookAtVariants returns the variants that are to be stored, the ones that are to end, and when to
// look again. While a global service is being derived, none of its variants ends, and none of the
// held ones does, at which services are held.
func lookAtVariants(c *Catalog, held map[string]catalog.ConfigVariant, at time.Time) (lacking []catalog.ConfigVariant, unused []string, wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.contents.derived.variants
	underived := map[string]bool{}
	for _, j := range c.contents.derived.jobs {
		underived[j.global.UID] = true
	}
	for path := range c.contents.derived.late {
		if global := c.contents.globals.objects[path]; global != nil {
			underived[global.UID] = true
		}
	}
	wait = idle
	for id, variant := range held {
		use := b.uses[id]
		if _, isStored := b.states[id]; !isStored && (use == nil || use.members == 0) {
			lacking = append(lacking, variant)
		}
	}
	for id, use := range b.uses {
		_, isStored := b.states[id]
		switch {
		case use.members > 0 && !isStored:
			lacking = append(lacking, *use.variant)
		case use.members > 0, held[id].ID != "":
		case underived[use.variant.GlobalUID]:
			wait = min(wait, variantLife)
		case use.unusedSince.IsZero():
			use.unusedSince = at
			wait = min(wait, variantLife)
		case at.Sub(use.unusedSince) >= variantLife:
			unused = append(unused, id)
			wait = min(wait, variantLife)
		default:
			wait = min(wait, variantLife-at.Sub(use.unusedSince))
		}
	}
	return lacking, unused, wait
}

// refuse has services show why their variants are not stored.
func (k VariantKeeper) refuse(ctx context.Context, refused map[string]*catalog.Problem) {
	if len(refused) == 0 {
		return
	}
	v := k.View
	defer v.writing.take()()
	s := newChangeSet()
	c := v.Catalog
	c.mu.Lock()
	globals := map[string]bool{}
	for id, problem := range refused {
		if use := c.contents.derived.variants.uses[id]; use != nil {
			use.refused, globals[use.variant.GlobalUID] = problem, true
		}
	}
	for path, global := range c.contents.globals.objects {
		if !globals[global.UID] {
			continue
		}
		for member := range c.contents.indexed.names.inClusters(path) {
			current := c.contents.services.Service(member)
			if variant := variantOf(current); variant != nil && refused[variant.ID] != nil {
				putDerivedLocked(c.contents, current, new(*current), s)
			}
		}
	}
	c.mu.Unlock()
	v.revise(ctx, s)
}
