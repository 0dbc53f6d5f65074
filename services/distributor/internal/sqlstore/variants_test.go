// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"fmt"
	"testing"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/sqlstore"
)

// testVariants keeps variants of a global service up to the bound, and ends some: there is room for others
// then, and every replica is told.
func testVariants(t *testing.T, s subject) {
	apply(t, s, repository("demo"))
	global := &catalog.GlobalService{Metadata: catalog.Metadata{Name: "web"}, Spec: catalog.GlobalServiceSpec{
		Clusters: catalog.ClusterTarget{ClusterSelection: catalog.ClusterSelection{All: true}},
		Template: catalog.ServiceTemplate{Spec: catalog.ServiceSpec{Sources: []catalog.Source{{Repository: "demo", Path: "app"}}}},
	}}
	uid := apply(t, s, global)[0].Object.Meta().UID
	variant := func(i int) catalog.ConfigVariant {
		return catalog.ConfigVariant{
			ID: fmt.Sprint("v", i), GlobalUID: uid, Project: "default", References: map[string]string{"K": fmt.Sprintf("absent://a/%d#k", i)},
		}
	}
	var all []catalog.ConfigVariant
	for i := range 2001 {
		all = append(all, variant(i))
	}
	store := sqlstore.Variants{Store: s.Store}
	refused, err := store.Keep(t.Context(), all)
	if err != nil || len(refused) != 1 || refused["v2000"] == nil || refused["v2000"].Reason != reason.ConfigTooManyVariants {
		t.Fatalf("got %v, %v, want that the last one of 2,001 is refused", refused, err)
	}
	logged := changes(t, s, 0)
	if len(logged.Variants) != 2000 || !logged.Variants[0].Waits || logged.Variants[0].Problem == nil {
		t.Fatalf("got %d variants, want 2,000 that wait", len(logged.Variants))
	}
	again, err := store.Keep(t.Context(), all[:100])
	if err != nil || len(again) != 0 || changes(t, s, 0).Revision != logged.Revision {
		t.Errorf("got %v, %v: keeping a variant twice is a change", again, err)
	}
	if err := store.Forget(t.Context(), []string{"v7", "v8"}); err != nil {
		t.Fatal(err)
	}
	ended := changes(t, s, logged.Revision).Variants
	if len(ended) != 2 || !ended[0].IsEnded || !ended[1].IsEnded {
		t.Errorf("got %v, want the end of two variants", ended)
	}
	refused, err = store.Keep(t.Context(), []catalog.ConfigVariant{variant(2000), variant(7)})
	if err != nil || len(refused) != 0 {
		t.Errorf("got %v, %v, want room for two", refused, err)
	}
	if _, err := store.Keep(t.Context(), []catalog.ConfigVariant{{ID: "other", GlobalUID: "gone"}}); err != nil {
		t.Errorf("a variant of a global service that is gone: %v", err)
	}
	if _, err := catalog.NewEditor(s).Delete(t.Context(), global.Key()); err != nil {
		t.Fatal(err)
	}
	if got := changes(t, s, 0).Variants; len(got) != 0 {
		t.Errorf("got %d variants of a global service that is gone", len(got))
	}
}
