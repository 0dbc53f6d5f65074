// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/leatdev/leat/services/distributor/internal/catalog"
	"github.com/leatdev/leat/services/distributor/internal/sqlstore"
)

// TestEveryKindHasATable fails for a kind that nobody has said how to store.
func TestEveryKindHasATable(t *testing.T) {
	t.Parallel()
	if got, want := sqlstore.Kinds(), catalog.Kinds(); !slices.Equal(got, want) {
		t.Errorf("tables: got those of %v, want those of %v, in this order", got, want)
	}
}

// testEmptySet has a set of nothing beside one that is deleted.
func testEmptySet(t *testing.T, s subject) {
	apply(t, s, configSet("nothing", nil), configSet("base", &catalog.Config{Values: values{"K": "v"}}))
	if _, err := catalog.NewEditor(s).Delete(t.Context(), catalog.Key{Kind: catalog.KindConfigSet, Name: "base"}); err != nil {
		t.Error(err)
	}
	all := changes(t, s, 0).ConfigSets
	if len(all) != 1 || !all[0].Spec.Config.Empty() {
		t.Errorf("got %d sets, want the one of nothing", len(all))
	}
}

// testQuestionsOfEveryKind asks every kind what an edit asks of an object.
func testQuestionsOfEveryKind(t *testing.T, s subject) {
	for _, kind := range append(catalog.Kinds(), catalog.KindToken) {
		key := catalog.Key{Kind: kind, Name: "absent"}
		err := s.Edit(t.Context(), func(ctx context.Context, tx catalog.Tx) error {
			if _, err := tx.Get(ctx, key); !errors.Is(err, catalog.ErrNotFound) {
				t.Errorf("get %s: got %v, want it not to be found", key, err)
			}
			if users, err := tx.Dependents(ctx, key); err != nil || len(users) > 0 {
				t.Errorf("dependents of %s: got %v, %v, want none", key, users, err)
			}
			if !kind.InProject() {
				return nil
			}
			if n, err := tx.Count(ctx, "absent", kind); err != nil || n != 0 {
				t.Errorf("count of %s: got %d, %v, want 0", kind, n, err)
			}
			return nil
		})
		if err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
}
