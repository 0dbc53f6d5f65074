// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/internal/fielderr"
	"github.com/leatdev/leat/internal/reason"
	"github.com/leatdev/leat/services/distributor/internal/config/configs"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

const (
	// maxVariants bounds the variants of all global services together, and maxVariantsOfGlobal the
	// variants of one.
	maxVariants         = 20_000
	maxVariantsOfGlobal = 2_000
	// maxInherited bounds the variants that a new one may have values from.
	maxInherited = 100
)

// variantRow holds the values of back ends for derived services with equal references.
type variantRow struct {
	bun.BaseModel `bun:"table:config_variants,alias:cv"`
	ID            string                    `bun:"id,pk"`
	GlobalUID     string                    `bun:"global_uid"`
	Project       string                    `bun:"project"`
	References    column[map[string]string] `bun:"refs"`
	Digest        string                    `bun:"digest"`
	Problem       column[*catalog.Problem]  `bun:"problem"`
	Waits         int                       `bun:"waits"`  // 1: true
	Sealed        []byte                    `bun:"sealed"` // bound to the id
	EndedAt       int64                     `bun:"ended_at"`
	Revision      int64                     `bun:"revision"`
}

// variantValues are the values for the variants of services, and for services: their ids differ.
var variantValues = sealedColumn{"config_variants", "id", "sealed", purposeEntries, "given *"}

// variantLink records that a variant refers to an entry.
type variantLink struct {
	bun.BaseModel `bun:"table:variant_references,alias:vr"`
	VariantID     string `bun:"variant_id,pk"`
	EntryID       string `bun:"entry_id,pk"`
}

func (r *variantRow) state() catalog.VariantState {
	return catalog.VariantState{
		ID: r.ID, GlobalUID: r.GlobalUID, Digest: r.Digest, Waits: r.Waits == 1, Problem: r.Problem.v, IsEnded: r.EndedAt != 0,
	}
}

// Variants implements catalog.Variants.
type Variants struct{ Store *Store }

var _ catalog.Variants = Variants{}

// Keep implements catalog.Variants. If some are too many, it stores them one by one, so that the others are
// stored.
func (v Variants) Keep(ctx context.Context, variants []catalog.ConfigVariant) (map[string]*catalog.Problem, error) {
	refused := map[string]*catalog.Problem{}
	for chunk := range slices.Chunk(variants, settleChunk) {
		err := v.keep(ctx, chunk)
		if !isTooMany(err) {
			if err != nil {
				return refused, err
			}
			continue
		}
		for _, variant := range chunk {
			switch err := v.keep(ctx, []catalog.ConfigVariant{variant}); {
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

func (v Variants) keep(ctx context.Context, variants []catalog.ConfigVariant) error {
	return v.Store.editWith(ctx, numbered, func(ctx context.Context, t *tx) error {
		ids, globals := make([]string, len(variants)), make([]string, len(variants))
		for i, variant := range variants {
			ids[i], globals[i] = variant.ID, variant.GlobalUID
		}
		var live, known []string
		if err := t.sql.NewSelect().Table("config_variants").Column("id").Where("id IN (?) AND ended_at = 0", bun.List(ids)).Scan(ctx, &live); err != nil {
			return translate("read variants", err)
		}
		if err := t.sql.NewSelect().Table("global_services").Column("uid").Where("uid IN (?)", bun.List(globals)).Scan(ctx, &known); err != nil {
			return translate("read global services", err)
		}
		var rows []*variantRow
		for _, variant := range variants {
			if slices.Contains(live, variant.ID) || !slices.Contains(known, variant.GlobalUID) {
				continue
			}
			rows = append(rows, &variantRow{
				ID: variant.ID, GlobalUID: variant.GlobalUID, Project: variant.Project, References: columnOf(variant.References), Waits: 1,
			})
		}
		if len(rows) == 0 {
			return nil
		}
		t.dirty = true
		if err := inherit(ctx, t, rows); err != nil {
			return err
		}
		if err := replaceAll(ctx, t, rows, "id", "digest", "problem", "waits", "sealed", "ended_at", "revision"); err != nil {
			return translate("write variants", err)
		}
		if err := checkVariants(ctx, t); err != nil {
			return err
		}
		added := make([]string, len(rows))
		for i, row := range rows {
			added[i] = row.ID
		}
		_, err := settleVariants(ctx, t, added, numbered)
		return err
	})
}

// checkVariants returns a *tooManyError if there are more variants than allowed.
func checkVariants(ctx context.Context, t *tx) error {
	var counts []struct {
		Name   string `bun:"name"`
		Number int    `bun:"number"`
	}
	err := t.sql.NewSelect().TableExpr("config_variants AS cv").Join("JOIN global_services AS gs ON gs.uid = cv.global_uid").
		ColumnExpr("gs.name AS name, COUNT(*) AS number").Where("cv.ended_at = 0").Group("gs.name").Scan(ctx, &counts)
	if err != nil {
		return translate("count variants", err)
	}
	total := 0
	for _, c := range counts {
		total += c.Number
		if c.Number > maxVariantsOfGlobal {
			return &tooManyError{fmt.Sprintf("services of the global service %s would refer to back ends in more than %d different ways; "+
				"use labels with fewer values in its references", c.Name, maxVariantsOfGlobal)}
		}
	}
	if total > maxVariants {
		return &tooManyError{fmt.Sprintf("services of all global services would refer to back ends in more than %d different ways; "+
			"use labels with fewer values in references", maxVariants)}
	}
	return nil
}

// inherit gives new variants what others of their global service were given by the same references, as a
// service keeps these when its document changes.
func inherit(ctx context.Context, t *tx, rows []*variantRow) error {
	byGlobal := map[string][]map[string]configs.Value{}
	for _, row := range rows {
		if _, known := byGlobal[row.GlobalUID]; !known {
			var others []*variantRow
			err := t.sql.NewSelect().Model(&others).Where("global_uid = ? AND ended_at = 0", row.GlobalUID).Order("revision DESC", "id").
				Limit(maxInherited).Scan(ctx)
			if err != nil {
				return translate("read variants", err)
			}
			byGlobal[row.GlobalUID] = nil
			for _, other := range others {
				given, err := openValues(t.store, variantValues, other.ID, other.Sealed)
				if err != nil {
					return err
				}
				byGlobal[row.GlobalUID] = append(byGlobal[row.GlobalUID], given)
			}
		}
		given := map[string]configs.Value{}
		for key, text := range row.References.v {
			for _, other := range byGlobal[row.GlobalUID] {
				if value, ok := other[key]; ok && value.Reference == text {
					given[key] = value
					break
				}
			}
		}
		if len(given) == 0 {
			continue
		}
		var err error
		if row.Sealed, err = sealValues(t.store, variantValues, row.ID, given); err != nil {
			return err
		}
	}
	return nil
}

// Forget implements catalog.Variants. A row stays for some time, so that every replica notices its end.
func (v Variants) Forget(ctx context.Context, ids []string) error {
	for chunk := range slices.Chunk(ids, settleChunk) {
		err := v.Store.editWith(ctx, numbered, func(ctx context.Context, t *tx) error {
			result, err := t.sql.NewUpdate().Table("config_variants").Set("ended_at = ?, sealed = NULL, digest = '', revision = ?", micros(catalog.Now()), t.revision).
				Where("id IN (?) AND ended_at = 0", bun.List(chunk)).Exec(ctx)
			if err != nil {
				return translate("end variants", err)
			}
			n, err := result.RowsAffected()
			if err != nil || n == 0 {
				return translate("count rows", err)
			}
			t.dirty = true
			if _, err := t.sql.NewDelete().Table("variant_references").Where("variant_id IN (?)", bun.List(chunk)).Exec(ctx); err != nil {
				return translate("end variants", err)
			}
			_, err = t.sql.NewDelete().Table("config_variants").
				Where("ended_at > 0 AND ended_at < ?", micros(time.Now().Add(-tombstoneLife))).Exec(ctx)
			return translate("forget ended variants", err)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// variantsOf returns the ids of the variants that refer to the selected entries.
func variantsOf(ctx context.Context, db bun.IDB, where string, args ...any) (ids []string, err error) {
	err = db.NewSelect().TableExpr("variant_references AS vr").ColumnExpr("DISTINCT vr.variant_id").
		Join("JOIN config_entries AS ce ON ce.id = vr.entry_id").Where(where, args...).OrderExpr("vr.variant_id").Scan(ctx, &ids)
	return ids, translate("list variants of entry", err)
}

// settleReaders is settle for everything that refers to the selected entries.
func settleReaders(ctx context.Context, t *tx, n numbering, where string, args ...any) (isChanged bool, err error) {
	readers, err := readersOf(ctx, t.sql, where, args...)
	if err != nil {
		return false, err
	}
	variants, err := variantsOf(ctx, t.sql, where, args...)
	if err != nil {
		return false, err
	}
	isChanged, err = settle(ctx, t, readers, n)
	if err != nil {
		return false, err
	}
	hasChanged, err := settleVariants(ctx, t, variants, n)
	return isChanged || hasChanged, err
}

// settleVariants is settle for variants.
func settleVariants(ctx context.Context, t *tx, ids []string, n numbering) (isChanged bool, err error) {
	c := newComposer(t)
	for chunk := range slices.Chunk(ids, settleChunk) {
		changed, err := c.settleVariants(ctx, chunk, n)
		if err != nil {
			return false, err
		}
		isChanged = isChanged || changed
	}
	return isChanged, nil
}

func (c *composer) settleVariants(ctx context.Context, ids []string, n numbering) (isChanged bool, err error) {
	var rows []*variantRow
	if err := c.t.sql.NewSelect().Model(&rows).Where("id IN (?) AND ended_at = 0", bun.List(ids)).Scan(ctx); err != nil {
		return false, translate("read variants", err)
	}
	if err := c.linkVariants(ctx, rows, ids, n); err != nil {
		return false, err
	}
	var next []*variantRow
	for _, row := range rows {
		isSame, err := c.decideVariant(ctx, row)
		if err != nil {
			return false, err
		}
		if !isSame {
			next = append(next, row)
		}
	}
	switch {
	case len(next) == 0:
		return false, nil
	case n == quietly:
		return false, errUnnumbered
	}
	c.t.dirty = true
	return true, translate("write variants", replaceAll(ctx, c.t, next, "id", "digest", "problem", "waits", "sealed", "revision"))
}

// decideVariant decides about the values of a variant. It reports whether they equal the stored
// ones.
func (c *composer) decideVariant(ctx context.Context, row *variantRow) (isSame bool, err error) {
	given, err := openValues(c.t.store, variantValues, row.ID, row.Sealed)
	if err != nil {
		return false, err
	}
	out, err := c.resolve(ctx, request{references: row.References.v, project: row.Project, given: given})
	if err != nil {
		return false, err
	}
	digest := c.t.store.keys.digests.Load().Fingerprint(canonical(row.GlobalUID, withGiven(&catalog.Config{}, out.Values)))
	if last := row.Problem.v; out.Problem != nil && last != nil {
		out.Problem.Since = last.Since
	}
	isSame = row.Digest == digest && (row.Waits == 1) == out.Waits && reflect.DeepEqual(row.Problem.v, out.Problem) && maps.Equal(given, out.Values)
	if isSame {
		return true, nil
	}
	if out.Problem != nil && out.Problem.Since.IsZero() {
		out.Problem.Since = catalog.Now()
	}
	if row.Sealed = nil; len(out.Values) > 0 {
		if row.Sealed, err = sealValues(c.t.store, variantValues, row.ID, out.Values); err != nil {
			return false, err
		}
	}
	if row.Waits = 0; out.Waits {
		row.Waits = 1
	}
	row.Digest, row.Problem, row.Revision = digest, columnOf(out.Problem), c.t.revision
	return false, nil
}

// linkVariants stores which entries the variants refer to, and loads these.
func (c *composer) linkVariants(ctx context.Context, rows []*variantRow, ids []string, n numbering) error {
	var stored []*variantLink
	if err := c.t.sql.NewSelect().Model(&stored).Where("variant_id IN (?)", bun.List(ids)).Scan(ctx); err != nil {
		return translate("read references of variants", err)
	}
	had := map[string][]string{}
	for _, link := range stored {
		had[link.VariantID] = append(had[link.VariantID], link.EntryID)
	}
	entries, changed, projects := map[string]configs.Place{}, []string{}, map[string]struct{}{}
	var links []*variantLink
	for _, row := range rows {
		places, err := c.placesOf(ctx, row.References.v)
		if err != nil {
			return err
		}
		maps.Copy(entries, places)
		ids := slices.Sorted(maps.Keys(places))
		if slices.Equal(ids, slices.Sorted(slices.Values(had[row.ID]))) {
			continue
		}
		changed, projects[row.Project] = append(changed, row.ID), struct{}{}
		for _, id := range ids {
			links = append(links, &variantLink{VariantID: row.ID, EntryID: id})
		}
	}
	if len(changed) > 0 {
		if n == quietly {
			return errUnnumbered
		}
		c.t.dirty = true
		if err := c.addEntries(ctx, entries); err != nil {
			return err
		}
		if _, err := c.t.sql.NewDelete().Table("variant_references").Where("variant_id IN (?)", bun.List(changed)).Exec(ctx); err != nil {
			return translate("write references of variants", err)
		}
		if err := insertAll(ctx, c.t, links); err != nil {
			return translate("write references of variants", err)
		}
		if err := checkProjects(ctx, c.t, projects); err != nil {
			return err
		}
	}
	return c.loadEntries(ctx, slices.Sorted(maps.Keys(entries)))
}
