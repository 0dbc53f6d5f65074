// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/services/distributor/internal/rollout"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// testPlainTables takes the tables of plain kinds away, as a database has none of a kind that is new in a release: opening
// makes them again with the columns that migrations gave them, and they hold objects.
func testPlainTables(t *testing.T, s subject) {
	before := map[string][]string{}
	for _, kind := range catalog.Kinds() {
		table, _, isPlain := catalog.PlainTable(kind)
		if !isPlain {
			continue
		}
		before[table] = columnsOf(t, s, table)
		drop := "DROP TABLE " + table
		if strings.HasPrefix(s.url, "postgres") {
			drop += " CASCADE"
		}
		if _, err := s.raw(t).ExecContext(t.Context(), drop); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s.Store = open(t, s.url)
	for table, want := range before {
		if diff := cmp.Diff(want, columnsOf(t, s, table)); diff != "" {
			t.Errorf("%s (-migrated +made):\n%s", table, diff)
		}
	}
	apply(t, s, &catalog.Role{Metadata: catalog.Metadata{Name: "on-call"}, Spec: catalog.RoleSpec{Description: "watches", ClusterRole: catalog.RoleViewer}},
		&catalog.Project{Metadata: catalog.Metadata{Name: "shop"}},
		&catalog.RolloutPolicy{Metadata: catalog.Metadata{Name: "shop.waves", Labels: map[string]string{"a": "b"}}, Spec: catalog.RolloutPolicySpec{
			Description: "slow", Strategy: rollout.Strategy{Waves: []rollout.Wave{{Name: "canary", Percent: 10}}},
		}})
	all := changes(t, s, 0).Plain
	if len(all) != 2 || all[0].(*catalog.Role).Spec.Description != "watches" || all[1].(*catalog.RolloutPolicy).Spec.Description != "slow" ||
		all[1].Meta().Labels["a"] != "b" {
		t.Fatalf("got %+v, want what was written", all)
	}
	open(t, s.url) // once more, with tables that are there
	if got := changes(t, s, 0).Plain; len(got) != 2 {
		t.Errorf("got %d objects after another start, want both", len(got))
	}
}

// columnsOf returns the names of a table's columns, sorted.
func columnsOf(t *testing.T, s subject, table string) []string {
	t.Helper()
	rows, err := s.raw(t).QueryContext(t.Context(), "SELECT * FROM "+table+" LIMIT 0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	columns, err := rows.Columns()
	if err != nil || rows.Err() != nil {
		t.Fatal(err, rows.Err())
	}
	return slices.Sorted(slices.Values(columns))
}
