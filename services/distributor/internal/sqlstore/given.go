// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/internal/contract/configref"
	"github.com/leatdev/leat/services/distributor/internal/config/compose"
	"github.com/leatdev/leat/services/distributor/internal/config/configs"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// givenRow holds the values of a service for its references, sealed and bound to its uid.
type givenRow struct {
	bun.BaseModel `bun:"table:service_given,alias:sg"`
	ServiceUID    string `bun:"service_uid,pk"`
	Sealed        []byte `bun:"sealed"`
}

var givenValues = sealedColumn{"service_given", "service_uid", "sealed", purposeEntries, "given *"}

// heldGivenRow holds the values of a service for the references of the configuration that it is held
// at.
type heldGivenRow struct {
	bun.BaseModel `bun:"table:held_given,alias:hg"`
	ServiceUID    string `bun:"service_uid,pk"`
	Sealed        []byte `bun:"sealed"`
}

var heldGivenValues = sealedColumn{"held_given", "service_uid", "sealed", purposeEntries, "given while held *"}

type referenceRow struct {
	bun.BaseModel `bun:"table:config_references,alias:cr"`
	ServiceUID    string `bun:"service_uid,pk"`
	EntryID       string `bun:"entry_id,pk"`
}

// useRow records that a service looked for a set.
type useRow struct {
	bun.BaseModel `bun:"table:config_uses,alias:cu"`
	ServiceUID    string `bun:"service_uid,pk"`
	SetName       string `bun:"set_name,pk"`
	IsOpen        int    `bun:"is_open"`
}

// Link implements compose.Store.
func (c *composing) Link(ctx context.Context, changed compose.Linking) (added int, err error) {
	if err := c.t.number(ctx); err != nil {
		return 0, err
	}
	var uses []*useRow
	for _, uid := range slices.Sorted(maps.Keys(changed.Sets)) {
		for _, name := range slices.Sorted(maps.Keys(changed.Sets[uid])) {
			row := &useRow{ServiceUID: uid, SetName: name}
			if changed.Sets[uid][name] {
				row.IsOpen = 1
			}
			uses = append(uses, row)
		}
	}
	if err := replaceLinks(ctx, c.t.sql, "service_uid", changed.Sets, uses); err != nil {
		return 0, translate("write uses of sets", err)
	}
	entries := map[compose.EntryKey]struct{}{}
	var references []*referenceRow
	for _, uid := range slices.Sorted(maps.Keys(changed.Services)) {
		for _, key := range changed.Services[uid] {
			references, entries[key] = append(references, &referenceRow{ServiceUID: uid, EntryID: idOf(key)}), struct{}{}
		}
	}
	var variants []*variantLink
	for _, id := range slices.Sorted(maps.Keys(changed.Variants)) {
		for _, key := range changed.Variants[id] {
			variants, entries[key] = append(variants, &variantLink{VariantID: id, EntryID: idOf(key)}), struct{}{}
		}
	}
	if added, err = addEntries(ctx, c.t.sql, slices.SortedFunc(maps.Keys(entries), compose.EntryKey.Compare)); err != nil {
		return 0, err
	}
	if err := replaceLinks(ctx, c.t.sql, "service_uid", changed.Services, references); err != nil {
		return 0, translate("write references of services", err)
	}
	return added, translate("write references of variants", replaceLinks(ctx, c.t.sql, "variant_id", changed.Variants, variants))
}

// replaceLinks writes rows in the place of those whose column has one of the owners.
func replaceLinks[Row, V any](ctx context.Context, db bun.IDB, column string, owners map[string]V, rows []*Row) error {
	if len(owners) == 0 {
		return nil
	}
	_, err := db.NewDelete().Model((*Row)(nil)).
		Where("? IN (?)", bun.Ident(column), bun.List(slices.Sorted(maps.Keys(owners)))).Exec(ctx)
	if err != nil {
		return err
	}
	return insertAll(ctx, db, rows)
}

// addEntries makes entries known, and returns how many were not.
func addEntries(ctx context.Context, db bun.IDB, keys []compose.EntryKey) (added int, err error) {
	now := micros(catalog.Now())
	rows := make([]*entryRow, len(keys))
	for i, key := range keys {
		rows[i] = &entryRow{ID: idOf(key), BackendUID: key.BackendUID, Path: key.Path, DueAt: now}
	}
	for chunk := range slices.Chunk(rows, maxRows) {
		result, err := db.NewInsert().Model(&chunk).On("CONFLICT (id) DO NOTHING").Exec(ctx)
		if err != nil {
			return 0, translate("write entries", err)
		}
		n, err := result.RowsAffected()
		if err != nil {
			return 0, translate("count rows", err)
		}
		added += int(n)
	}
	return added, nil
}

// Save implements compose.Store.
func (c *composing) Save(ctx context.Context, next compose.Settlement) error {
	if err := c.t.number(ctx); err != nil {
		return err
	}
	given := func(s *compose.Service) map[string]configs.Value { return s.Given }
	newGiven := func(uid string, sealed []byte) *givenRow { return &givenRow{ServiceUID: uid, Sealed: sealed} }
	if err := saveGiven(ctx, c.t, givenValues, next.Given, given, newGiven); err != nil {
		return translate("write given values", err)
	}
	held := func(s *compose.Service) map[string]configs.Value { return s.HeldGiven }
	newHeld := func(uid string, sealed []byte) *heldGivenRow { return &heldGivenRow{ServiceUID: uid, Sealed: sealed} }
	if err := saveGiven(ctx, c.t, heldGivenValues, next.HeldGiven, held, newHeld); err != nil {
		return translate("write given values of held configurations", err)
	}
	rows := make([]*serviceRow, len(next.States))
	for i, service := range next.States {
		row, s := c.services[service.UID], service.State
		config := row.Config.v
		config.Digest, config.Name, config.Held, config.Problem, config.Waits = s.Digest, s.Name, s.Held, s.Problem, s.Waits
		row.Config, row.Revision = columnOf(config), c.t.revision
		rows[i] = row
	}
	if err := replaceAll(ctx, c.t.sql, rows, "uid", "config", "revision"); err != nil {
		return translate("write configurations of services", err)
	}
	return c.putVariants(ctx, next.Variants)
}

// saveGiven writes what services are given into the table of a column, and deletes the rows of those
// that are given nothing.
func saveGiven[Row any](
	ctx context.Context, t *tx, column sealedColumn, services []*compose.Service,
	given func(*compose.Service) map[string]configs.Value, newRow func(uid string, sealed []byte) *Row,
) error {
	var none []string
	var rows []*Row
	for _, service := range services {
		values := given(service)
		if len(values) == 0 {
			none = append(none, service.UID)
			continue
		}
		sealed, err := sealValues(t.store.keys, column, service.UID, values)
		if err != nil {
			return err
		}
		rows = append(rows, newRow(service.UID, sealed))
	}
	if len(none) > 0 {
		if _, err := t.sql.NewDelete().Model((*Row)(nil)).Where("service_uid IN (?)", bun.List(none)).Exec(ctx); err != nil {
			return err
		}
	}
	return replaceAll(ctx, t.sql, rows, "service_uid", "sealed")
}

// idOf returns the id of an entry, and keyOf is the reverse. A uid has no slash.
func idOf(key compose.EntryKey) string { return entryID(key.BackendUID, key.Path) }

func keyOf(id string) compose.EntryKey {
	uid, path, _ := strings.Cut(id, "/")
	return compose.EntryKey{BackendUID: uid, Path: path}
}

// givenValue is the stored form of a configs.Value, whose text would be redacted.
type givenValue = configref.Value[string]

// sealValues seals given values for a row of a column.
func sealValues(k *keyStore, column sealedColumn, key string, given map[string]configs.Value) ([]byte, error) {
	plain := make(map[string]givenValue, len(given))
	for key, value := range given {
		plain[key] = givenValue{Reference: value.Reference, Text: value.Text.Reveal(), IsPublic: value.IsPublic}
	}
	return column.sealJSON(k, key, plain)
}

// openValues is the reverse of sealValues.
func openValues(k *keyStore, column sealedColumn, key string, sealed []byte) (given map[string]configs.Value, err error) {
	if len(sealed) > 0 {
		err = column.openJSON(k, key, sealed, &given)
	}
	return given, err
}
