// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package compose

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/services/distributor/internal/config/configs"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// SettleVariants is Settle for variants.
func SettleVariants(ctx context.Context, store Store, now time.Time, ids []string) (isChanged bool, err error) {
	c := New(store, now)
	for chunk := range slices.Chunk(ids, ChunkSize) {
		hasChanged, err := c.settleVariants(ctx, store, chunk)
		if err != nil {
			return false, err
		}
		isChanged = isChanged || hasChanged
	}
	return isChanged, nil
}

func (c *Composer) settleVariants(ctx context.Context, store Store, ids []string) (isChanged bool, err error) {
	all, err := store.Variants(ctx, ids)
	if err != nil {
		return false, err
	}
	if err := c.linkVariants(ctx, store, all); err != nil {
		return false, err
	}
	var next Settlement
	for _, v := range all {
		out, err := c.resolve(ctx, v.Project, v.References, v.Given)
		if err != nil {
			return false, err
		}
		if decided, isSame := v.decide(out, c.store.Digest, c.now); !isSame {
			next.Variants = append(next.Variants, decided)
		}
	}
	if next.isEmpty() {
		return false, nil
	}
	return true, store.Save(ctx, next)
}

// decide returns a variant as it is from now on, and reports whether it is stored so.
func (v *Variant) decide(out configs.Outcome, digest func([]byte) string, now time.Time) (next *Variant, isSame bool) {
	decided := *v
	decided.Given, decided.Waits, decided.Problem = out.Values, out.Waits, since(out.Problem, v.Problem, now)
	decided.Digest = digest(canonical(v.GlobalUID, WithGiven(&catalog.Config{}, out.Values)))
	return &decided, v.Digest == decided.Digest && v.Waits == decided.Waits && reflect.DeepEqual(v.Problem, decided.Problem) &&
		maps.Equal(v.Given, decided.Given)
}

// linkVariants stores which entries variants refer to, and loads these.
func (c *Composer) linkVariants(ctx context.Context, store Store, all []*Variant) error {
	next := Linking{Variants: map[string][]EntryKey{}}
	entries, projects := map[EntryKey]configs.Place{}, map[string]struct{}{}
	for _, v := range all {
		own, err := c.entriesOf(ctx, v.References)
		if err != nil {
			return err
		}
		maps.Copy(entries, own)
		if keys := sortedEntries(own); !slices.Equal(v.Entries, keys) {
			next.Variants[v.ID], projects[v.Project] = keys, struct{}{}
		}
	}
	return c.relink(ctx, store, next, projects, sortedEntries(entries))
}

// Keep calls add for variants, some at once. If these are too many it calls add for each of them, so
// that the others are stored. It returns why some cannot be stored, by id. add calls AddVariants in a
// transaction of its own.
func Keep(
	ctx context.Context, variants []catalog.ConfigVariant, add func(ctx context.Context, some []catalog.ConfigVariant) error,
) (map[string]*catalog.Problem, error) {
	refused := map[string]*catalog.Problem{}
	for chunk := range slices.Chunk(variants, ChunkSize) {
		err := add(ctx, chunk)
		if !isTooMany(err) {
			if err != nil {
				return refused, err
			}
			continue
		}
		for _, variant := range chunk {
			switch err := add(ctx, []catalog.ConfigVariant{variant}); {
			case isTooMany(err):
				refused[variant.ID] = &catalog.Problem{Reason: reason.ConfigTooManyVariants, Message: err.Error()}
			case err != nil:
				return refused, err
			}
		}
	}
	return refused, nil
}

// tooManyError names the bound that another variant would exceed.
type tooManyError struct{ message string }

// Error implements error.
func (e *tooManyError) Error() string { return e.message }

// isTooMany reports whether a bound refuses a variant: one of variants, or one of the paths of a back end.
func isTooMany(err error) bool {
	_, isVariants := errors.AsType[*tooManyError](err)
	_, isPaths := errors.AsType[*fielderr.Error](err)
	return isVariants || isPaths
}

// AddVariants adds the wanted variants that are not stored yet, and settles them. Its errors
// are for Keep.
func AddVariants(ctx context.Context, store VariantStore, now time.Time, wanted []catalog.ConfigVariant) error {
	missing, err := store.Missing(ctx, wanted)
	if err != nil || len(missing) == 0 {
		return err
	}
	added, ids := make([]*Variant, len(missing)), make([]string, len(missing))
	others := map[string][]map[string]configs.Value{}
	for i, variant := range missing {
		uid := variant.GlobalUID
		if _, isKnown := others[uid]; !isKnown {
			if others[uid], err = store.Given(ctx, uid, maxInherited); err != nil {
				return err
			}
		}
		// A service keeps what it was given when its document changes, and so do derived ones.
		ids[i], added[i] = variant.ID, &Variant{ConfigVariant: variant, Waits: true, Given: inherited(variant.References, others[uid]...)}
	}
	if err := store.Add(ctx, added); err != nil {
		return err
	}
	numbers, err := store.Numbers(ctx)
	if err != nil {
		return err
	}
	if err := checkNumbers(numbers); err != nil {
		return err
	}
	_, err = SettleVariants(ctx, store, now, ids)
	return err
}

// checkNumbers returns a *tooManyError if global services have more variants than allowed.
func checkNumbers(numbers map[string]int) error {
	total := 0
	for _, name := range slices.Sorted(maps.Keys(numbers)) {
		total += numbers[name]
		if numbers[name] > MaxVariantsOfGlobal {
			return &tooManyError{fmt.Sprintf("services of the global service %s would refer to back ends in more than %d different ways; "+
				"use labels with fewer values in its references", name, MaxVariantsOfGlobal)}
		}
	}
	if total > MaxVariants {
		return &tooManyError{fmt.Sprintf("services of all global services would refer to back ends in more than %d different ways; "+
			"use labels with fewer values in references", MaxVariants)}
	}
	return nil
}
