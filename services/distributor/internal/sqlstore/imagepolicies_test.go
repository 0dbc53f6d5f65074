// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/services/distributor/internal/fleetgit/imagesync"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/election/electiontest"
	"github.com/leatdev/leat/services/distributor/internal/sqlstore"
)

// applyImagePolicy stores a policy with its repositories, and returns it as stored.
func applyImagePolicy(t *testing.T, s subject) *catalog.ImagePolicy {
	t.Helper()
	images := repository("images")
	images.Spec.Type, images.Spec.URL = upstream.TypeOCI, "oci://registry.example/images"
	apply(t, s, images, repository("config"), &catalog.ImagePolicy{Metadata: catalog.Metadata{Name: "web"}, Spec: catalog.ImagePolicySpec{
		Repository: "images", Write: &catalog.ImageWrite{Repository: "config", Branch: "main"},
	}})
	return catalog.PlainOf[*catalog.ImagePolicy](changes(t, s, 0).Plain)[0]
}

// testImagePolicyFence has leaders write in and after their terms.
func testImagePolicyFence(t *testing.T, s subject) {
	policy, store := applyImagePolicy(t, s), sqlstore.ImagePoliciesOf(s.Store)
	made := int64(0)
	next := func() imagesync.State {
		made++
		return imagesync.State{Tag: fmt.Sprint(made), LookedAt: time.Unix(made, 0).UTC()}
	}
	electiontest.Check(t, electiontest.Fenced{Store: store, Rows: s.rows(t), Writes: map[string]func(context.Context, int64) error{
		"state": func(ctx context.Context, term int64) error { return store.Save(ctx, term, policy.UID, next(), nil) },
		"push": func(ctx context.Context, term int64) error {
			return store.Save(ctx, term, policy.UID, next(), &imagesync.Push{Policy: policy, Reason: "1 → 2"})
		},
		"state of a policy that is gone": func(ctx context.Context, term int64) error { return store.Save(ctx, term, "gone", next(), nil) },
		"hold":                           store.Hold,
	}})
}

// testImagePolicyStates keeps what a look found beside what people asked, and forgets both with the policy.
func testImagePolicyStates(t *testing.T, s subject) {
	policy, store := applyImagePolicy(t, s), sqlstore.ImagePoliciesOf(s.Store)
	for want := range int64(2) {
		if asked, err := store.Ask(t.Context(), policy.UID); err != nil || asked != want+1 {
			t.Fatalf("got %d, %v, want request %d", asked, err, want+1)
		}
	}
	term := electiontest.Claim(t, store, "a")
	state := imagesync.State{Image: "registry.example/images", Tag: "1.2.3", Commit: "c", Proposed: "p", Marks: 3, Asked: 2, LookedAt: time.Unix(1, 0).UTC()}
	if err := store.Save(t.Context(), term, policy.UID, state, nil); err != nil {
		t.Fatal(err)
	}
	states, err := store.States(t.Context(), []string{policy.UID, "unknown"})
	if diff := cmp.Diff(map[string]imagesync.State{policy.UID: state}, states); err != nil || diff != "" {
		t.Errorf("%v, states differ (-want +got):\n%s", err, diff)
	}
	if orders, err := store.Orders(t.Context()); err != nil || orders[policy.UID] != 2 {
		t.Errorf("got %v, %v, want the second request kept", orders, err)
	}
	editor := catalog.NewEditor(s)
	for _, name := range []string{"images", "config"} {
		var used *catalog.InUseError
		if _, err := editor.Delete(t.Context(), catalog.Key{Kind: catalog.KindRepository, Name: name}); !errors.As(err, &used) {
			t.Errorf("delete %s: got %v, want that it is in use", name, err)
		}
	}
	if _, err := editor.Delete(t.Context(), policy.Key()); err != nil {
		t.Fatal(err)
	}
	if states, err := store.States(t.Context(), []string{policy.UID}); err != nil || len(states) != 0 {
		t.Errorf("got %v, %v, want nothing of a policy that is gone", states, err)
	}
}
