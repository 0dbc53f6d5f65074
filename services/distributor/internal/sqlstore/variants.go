// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/services/distributor/internal/config/compose"
	"github.com/leatdev/leat/services/distributor/internal/config/configs"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
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

// Keep implements catalog.Variants.
func (v Variants) Keep(ctx context.Context, variants []catalog.ConfigVariant) (map[string]*catalog.Problem, error) {
	return compose.Keep(ctx, variants, func(ctx context.Context, some []catalog.ConfigVariant) error {
		return v.Store.editWith(ctx, numbered, func(ctx context.Context, t *tx) error {
			return compose.AddVariants(ctx, &composing{t: t}, catalog.Now(), some)
		})
	})
}

// Missing implements compose.VariantStore.
func (c *composing) Missing(ctx context.Context, wanted []catalog.ConfigVariant) (missing []catalog.ConfigVariant, err error) {
	ids, globals := make([]string, len(wanted)), make([]string, len(wanted))
	for i, variant := range wanted {
		ids[i], globals[i] = variant.ID, variant.GlobalUID
	}
	var live, known []string
	if err := c.t.sql.NewSelect().Table("config_variants").Column("id").Where("id IN (?) AND ended_at = 0", bun.List(ids)).Scan(ctx, &live); err != nil {
		return nil, translate("read variants", err)
	}
	if err := c.t.sql.NewSelect().Table("global_services").Column("uid").Where("uid IN (?)", bun.List(globals)).Scan(ctx, &known); err != nil {
		return nil, translate("read global services", err)
	}
	for _, variant := range wanted {
		if !slices.Contains(live, variant.ID) && slices.Contains(known, variant.GlobalUID) {
			missing = append(missing, variant)
		}
	}
	return missing, nil
}

// Given implements compose.VariantStore.
func (c *composing) Given(ctx context.Context, globalUID string, limit int) ([]map[string]configs.Value, error) {
	var rows []*variantRow
	err := c.t.sql.NewSelect().Model(&rows).Where("global_uid = ? AND ended_at = 0", globalUID).Order("revision DESC", "id").
		Limit(int64(limit)).Scan(ctx)
	if err != nil {
		return nil, translate("read variants", err)
	}
	all := make([]map[string]configs.Value, len(rows))
	for i, row := range rows {
		if all[i], err = openValues(c.t.store.keys, variantValues, row.ID, row.Sealed); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Add implements compose.VariantStore.
func (c *composing) Add(ctx context.Context, variants []*compose.Variant) error {
	if err := c.t.number(ctx); err != nil {
		return err
	}
	return c.putVariants(ctx, variants)
}

// putVariants writes variants, and begins those again that had ended.
func (c *composing) putVariants(ctx context.Context, variants []*compose.Variant) error {
	rows := make([]*variantRow, len(variants))
	for i, v := range variants {
		rows[i] = &variantRow{
			ID: v.ID, GlobalUID: v.GlobalUID, Project: v.Project, References: columnOf(v.References),
			Digest: v.Digest, Problem: columnOf(v.Problem), Revision: c.t.revision,
		}
		if v.Waits {
			rows[i].Waits = 1
		}
		if len(v.Given) == 0 {
			continue
		}
		var err error
		if rows[i].Sealed, err = sealValues(c.t.store.keys, variantValues, v.ID, v.Given); err != nil {
			return err
		}
	}
	return translate("write variants", replaceAll(ctx, c.t.sql, rows, "id", "digest", "problem", "waits", "sealed", "ended_at", "revision"))
}

// Numbers implements compose.VariantStore.
func (c *composing) Numbers(ctx context.Context) (map[string]int, error) {
	var counts []struct {
		Name   string `bun:"name"`
		Number int    `bun:"number"`
	}
	err := c.t.sql.NewSelect().TableExpr("config_variants AS cv").Join("JOIN global_services AS gs ON gs.uid = cv.global_uid").
		ColumnExpr("gs.name AS name, COUNT(*) AS number").Where("cv.ended_at = 0").Group("gs.name").Scan(ctx, &counts)
	numbers := make(map[string]int, len(counts))
	for _, count := range counts {
		numbers[count.Name] = count.Number
	}
	return numbers, translate("count variants", err)
}

// Variants implements compose.Store.
func (c *composing) Variants(ctx context.Context, ids []string) ([]*compose.Variant, error) {
	var rows []*variantRow
	if err := c.t.sql.NewSelect().Model(&rows).Where("id IN (?) AND ended_at = 0", bun.List(ids)).Scan(ctx); err != nil {
		return nil, translate("read variants", err)
	}
	var links []*variantLink
	if err := c.t.sql.NewSelect().Model(&links).Where("variant_id IN (?)", bun.List(ids)).Scan(ctx); err != nil {
		return nil, translate("read references of variants", err)
	}
	entries := map[string][]compose.EntryKey{}
	for _, link := range links {
		entries[link.VariantID] = append(entries[link.VariantID], keyOf(link.EntryID))
	}
	all := make([]*compose.Variant, len(rows))
	for i, row := range rows {
		given, err := openValues(c.t.store.keys, variantValues, row.ID, row.Sealed)
		if err != nil {
			return nil, err
		}
		slices.SortFunc(entries[row.ID], compose.EntryKey.Compare)
		all[i] = &compose.Variant{
			ConfigVariant: catalog.ConfigVariant{ID: row.ID, GlobalUID: row.GlobalUID, Project: row.Project, References: row.References.v},
			Entries:       entries[row.ID], Given: given, Digest: row.Digest, Problem: row.Problem.v, Waits: row.Waits == 1,
		}
	}
	return all, nil
}

// Forget implements catalog.Variants. A row stays for some time, so that every replica notices its end.
func (v Variants) Forget(ctx context.Context, ids []string) error {
	for chunk := range slices.Chunk(ids, compose.ChunkSize) {
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
