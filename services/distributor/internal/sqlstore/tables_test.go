// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/sqlstore"
)

// TestEveryKindHasATable compares the tables with the kinds of objects.
func TestEveryKindHasATable(t *testing.T) {
	t.Parallel()
	if got, want := sqlstore.Kinds(), catalog.Kinds(); !slices.Equal(got, want) {
		t.Errorf("tables: got those of %v, want those of %v, in this order", got, want)
	}
}

// TestSecSealedValuesStayBound pins what each sealed value is bound to. With another purpose or place, the values of
// databases that exist do not open any more, and two equal ones would let a value be moved from one row to another.
func TestSecSealedValuesStayBound(t *testing.T) {
	t.Parallel()
	want := []string{
		"repositories.credential by uid: repository credential, K",
		"repositories.webhook_secret by uid: repository webhook secret, K",
		"repositories.proxy_sealed by uid: repository credential, K/proxy_url",
		"config_backends.credential by uid: configuration back end credential, K",
		"config_backends.webhook_secret by uid: configuration back end credential, K/webhook_secret",
		"config_sets.sealed by uid: configuration set secrets, K",
		"identity_providers.client_secret by uid: identity provider secret, K",
		"notifiers.secrets by uid: notifier secrets, K",
		"global_services.secrets by uid: service secrets, global K",
		"service_secrets.sealed by service_uid: service secrets, K",
		"sessions.refresh by id: session refresh token, K",
		"config_entries.sealed by id: configuration entries, K",
		"service_given.sealed by service_uid: configuration entries, given K",
		"held_given.sealed by service_uid: configuration entries, given while held K",
		"held_configs.sealed by name: service secrets, held configuration K",
		"config_variants.sealed by id: configuration entries, given K",
		"signing_keys.sealed by id: issuer key, issuer key/K",
	}
	if got := sqlstore.SealedPlaces("K"); !slices.Equal(got, want) {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
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
