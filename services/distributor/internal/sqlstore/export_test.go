// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"fmt"
	"strings"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// SealedColumns returns the names of the columns that a rotation seals again.
func SealedColumns() (names []string) {
	for _, c := range sealedColumns(newTables()) {
		names = append(names, c.table+"."+c.column)
	}
	return names
}

// Kinds returns the kinds that have a table, in the order of the tables.
func Kinds() (kinds []catalog.Kind) {
	for _, table := range newTables() {
		kinds = append(kinds, table.kind)
	}
	return kinds
}

// ObjectTables returns the names of the tables of objects.
func ObjectTables() []string { return objectTables }

// Setting returns a setting of a connection to PostgreSQL.
func Setting(ctx context.Context, s *Store, name string) (value string, err error) {
	err = s.db.NewRaw("SELECT current_setting(?)", name).Scan(ctx, &value)
	return value, err
}

// DamageReports replaces every stored report by a text that no version has written.
func DamageReports(ctx context.Context, s *Store) error {
	for _, table := range []string{"derived_services", "service_reports"} {
		if _, err := s.db.NewRaw("UPDATE ? SET report = '{'", bun.Ident(table)).Exec(ctx); err != nil {
			return err
		}
	}
	return nil
}

// RequestedPlan returns the steps by which SQLite finds the derived services of which people asked something.
func RequestedPlan(ctx context.Context, s *Store) (string, error) {
	query := withPlaces(s.db.NewSelect().Model((*derivedRow)(nil))).Where(isRequested)
	var steps []struct {
		ID, Parent, Notused int
		Detail              string
	}
	err := s.db.NewRaw("EXPLAIN QUERY PLAN "+query.String()).Scan(ctx, &steps)
	lines := make([]string, len(steps))
	for i, step := range steps {
		lines[i] = step.Detail
	}
	return strings.Join(lines, "\n"), err
}

// SealedPlaces describes the columns of sealed values, with the binding of a key's column.
func SealedPlaces(key string) (all []string) {
	for _, c := range sealedColumns(newTables()) {
		all = append(all, fmt.Sprintf("%s.%s by %s: %s, %s", c.table, c.column, c.key, c.purpose, c.bound(key)))
	}
	return all
}
