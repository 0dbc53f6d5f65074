// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/leatdev/leat/internal/contract/accessrule"
	"github.com/leatdev/leat/services/distributor/internal/access/admission"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

func user(name string, groups ...string) *catalog.User {
	return &catalog.User{Metadata: catalog.Metadata{Name: name}, Spec: catalog.UserSpec{Description: "somebody's \\ text", Groups: groups}}
}

// full is a binding in which every field is set.
func full(name string) *catalog.AccessBinding {
	return &catalog.AccessBinding{
		Metadata: catalog.Metadata{Name: name, Labels: map[string]string{"team": "a"}},
		Spec: catalog.AccessBindingSpec{
			Description: "why", Users: []string{"ada", "bob@example.com"}, Groups: []string{"dev"},
			Clusters: catalog.ClusterSelection{Names: []string{"one"}, Labels: &catalog.LabelSelector{
				MatchLabels:      map[string]string{"env": "prod"},
				MatchExpressions: []catalog.LabelRequirement{{Key: "tier", Operator: catalog.LabelIn, Values: []string{"", "gold"}}},
			}},
			Role: catalog.RoleOperator, ClusterGroups: []string{"team-a"}, ExpiresAt: time.Date(2031, 1, 2, 3, 4, 5, 6000, time.UTC),
			Rules: []accessrule.Rule{{
				Verbs: []string{"get"}, APIGroups: []string{"", "apps"}, Resources: []string{"pods/log"}, Namespaces: []string{"shop"}, Paths: []string{"/metrics"},
			}},
		},
	}
}

func testPeople(t *testing.T, s subject) {
	ctx := t.Context()
	admin := *user("admin", "leat:admins")
	for _, hash := range []string{"first-token", "second-token", "second-token", "first-token", "second-token"} {
		if err := s.Tokens().EnsureToken(ctx, admin, "bootstrap", []byte(hash), time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Tokens().UserByToken(ctx, []byte("first-token")); !errors.Is(err, catalog.ErrNotFound) {
		t.Errorf("got %v, want not found: the token was replaced", err)
	}
	got, err := s.Tokens().UserByToken(ctx, []byte("second-token"))
	if err != nil || got.User.Name != "admin" || got.User.UID == "" || cmp.Diff(got.User.Spec.Groups, admin.Spec.Groups) != "" || got.Token.Label != "bootstrap" {
		t.Errorf("got %+v, %v, want the admin", got, err)
	}
	before := changes(t, s, 0)
	if err := s.Tokens().EnsureToken(ctx, admin, "bootstrap", []byte("second-token"), time.Time{}); err != nil {
		t.Fatal(err)
	}
	if after := changes(t, s, 0); after.Revision != before.Revision {
		t.Errorf("got revision %d, want %d as before: nothing changed", after.Revision, before.Revision)
	}
	if len(before.Users) != 1 || len(before.Tokens) != 1 || before.Tokens[0].ID != admission.TokenID([]byte("second-token")) {
		t.Errorf("got %+v and %+v, want the admin with the second token", before.Users, before.Tokens)
	}
	admin.Spec.Groups = []string{"leat:admins", "more"}
	if err := s.Tokens().EnsureToken(ctx, admin, "bootstrap", []byte("second-token"), time.Time{}); err != nil {
		t.Fatal(err)
	}
	if c := changes(t, s, before.Revision); len(c.Users) != 1 || c.Users[0].Generation != 2 || len(c.Users[0].Spec.Groups) != 2 || c.Users[0].UID != got.User.UID {
		t.Errorf("got %+v, want the admin with two groups", c.Users)
	}
}

func testUsers(t *testing.T, s subject) {
	editor := catalog.NewEditor(s)
	apply(t, s, user("ada", "dev", "a", "dev"), user("bob"))
	c := changes(t, s, 0)
	if len(c.Users) != 2 {
		t.Fatalf("got %d users, want 2", len(c.Users))
	}
	want := user("ada", "a", "dev")
	if diff := cmp.Diff(want.Spec, c.Users[0].Spec); diff != "" && cmp.Diff(want.Spec, c.Users[1].Spec) != "" {
		t.Error(diff)
	}
	if outcomes := apply(t, s, user("ada", "dev", "a")); outcomes[0].Action != catalog.ActionUnchanged {
		t.Errorf("got %v, want unchanged: the order of groups means nothing", outcomes[0].Action)
	}
	if _, err := s.Tokens().CreateToken(t.Context(), catalog.NewToken{User: "ada", Label: "laptop", Hash: []byte("hash of ada's")}); err != nil {
		t.Fatal(err)
	}
	since := changes(t, s, 0).Revision
	if _, err := editor.Delete(t.Context(), catalog.Key{Kind: catalog.KindUser, Name: "ada"}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Tokens().UserByToken(t.Context(), []byte("hash of ada's")); !errors.Is(err, catalog.ErrNotFound) {
		t.Errorf("got %v, want the token to have gone with its user", err)
	}
	if c := changes(t, s, since); len(c.Deleted) != 1 || c.Deleted[0].Key != (catalog.Key{Kind: catalog.KindUser, Name: "ada"}) {
		t.Errorf("got %+v, want ada's tombstone", c.Deleted)
	}
}

func testRoles(t *testing.T, s subject) {
	editor := catalog.NewEditor(s)
	role := func(verbs ...string) *catalog.Role {
		return &catalog.Role{Metadata: catalog.Metadata{Name: "on-call"}, Spec: catalog.RoleSpec{
			Description: "it's \\ theirs", Permissions: []catalog.Permissible{{Verbs: verbs, Resources: []string{"services"}}}, ClusterRole: catalog.RoleViewer,
		}}
	}
	binding := full("team")
	binding.Spec.Role, binding.Spec.Services, binding.Spec.Repositories = "on-call", []string{"shop"}, []string{"deploy"}
	missing, ok := errors.AsType[*catalog.ReferenceError](func() error { _, err := create(t.Context(), editor, binding); return err }())
	if !ok || missing.Path != "documents[0].spec.role" || missing.Key != role().Key() {
		t.Errorf("got %v, want a missing role", missing)
	}
	apply(t, s, binding, role("sync", "get", "sync"))
	c := changes(t, s, 0)
	if roles := catalog.PlainOf[*catalog.Role](c.Plain); len(roles) != 1 || cmp.Diff(role("get", "sync").Spec, roles[0].Spec) != "" {
		t.Fatalf("got %+v, want the role with its verbs in order", roles)
	}
	if len(c.Bindings) != 1 || cmp.Diff(binding.Spec, c.Bindings[0].Spec) != "" {
		t.Errorf("got %+v, want the binding as it was given", c.Bindings)
	}
	_, err := editor.Delete(t.Context(), role().Key())
	if used, ok := errors.AsType[*catalog.InUseError](err); !ok || cmp.Diff(used.Names(), []string{"team"}) != "" {
		t.Errorf("got %v, want the role to be in use by the binding", err)
	}
	for _, key := range []catalog.Key{binding.Key(), role().Key()} {
		if _, err := editor.Delete(t.Context(), key); err != nil {
			t.Error(err)
		}
	}
	if got := changes(t, s, c.Revision); len(got.Deleted) != 2 || got.Deleted[1].Key != role().Key() {
		t.Errorf("got %+v, want tombstones of the binding and the role", got.Deleted)
	}
}

func testTokens(t *testing.T, s subject) {
	ctx := t.Context()
	apply(t, s, user("ada"), user("bob"))
	if _, err := s.Tokens().CreateToken(ctx, catalog.NewToken{User: "nobody", Label: "x", Hash: []byte("hash nobody")}); !errors.Is(err, catalog.ErrNotFound) {
		t.Errorf("got %v, want not found", err)
	}
	ends := time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond)
	made, err := s.Tokens().CreateToken(ctx, catalog.NewToken{User: "ada", Label: "laptop", Hash: []byte("hash one"), ExpiresAt: ends})
	if err != nil || made.User != "ada" || made.ID != admission.TokenID([]byte("hash one")) || !made.ExpiresAt.Equal(ends) {
		t.Fatalf("got %+v, %v, want ada's token", made, err)
	}
	if _, err := s.Tokens().CreateToken(ctx, catalog.NewToken{User: "bob", Label: "ci", Hash: []byte("hash two"), ExpiresAt: time.Now().Add(-time.Second)}); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Tokens().UserByToken(ctx, []byte("hash one")); err != nil || got.User.Name != "ada" || !got.Token.LastUsedAt.IsZero() {
		t.Errorf("got %+v, %v, want ada with a token that was never used", got, err)
	}
	if _, err := s.Tokens().UserByToken(ctx, []byte("hash two")); !errors.Is(err, catalog.ErrNotFound) {
		t.Errorf("got %v, want not found: the token has ended", err)
	}
	used := time.Now().UTC().Truncate(time.Microsecond)
	uses := []catalog.TokenUse{
		{ID: made.ID, At: used, From: "192.0.2.1:1"},
		{ID: made.ID, At: used.Add(-time.Second), From: "192.0.2.2:1"},
		{ID: made.ID, At: used},
		{ID: "00", At: used},
		{ID: "ff", At: used},
		{ID: "x", At: used},
		{At: used},
	}
	if err := s.Tokens().TouchTokens(ctx, uses); err != nil {
		t.Fatal(err)
	}
	all, err := s.Tokens().ListTokens(ctx, "")
	if err != nil || len(all) != 2 || all[0].User != "ada" || !all[0].LastUsedAt.Equal(used) || all[0].LastUsedFrom != "192.0.2.1:1" || all[1].Label != "ci" || !all[1].LastUsedAt.IsZero() {
		t.Errorf("got %+v, %v, want both, ada's first", all, err)
	}
	if own, err := s.Tokens().ListTokens(ctx, "bob"); err != nil || len(own) != 1 || own[0].User != "bob" {
		t.Errorf("got %+v, %v, want bob's", own, err)
	}
	since := changes(t, s, 0)
	if len(since.Tokens) != 2 {
		t.Errorf("got %+v, want both tokens in the log of changes", since.Tokens)
	}
	// A token can come back and go again, with tombstones of its own.
	for range 2 {
		if err := s.Tokens().DeleteToken(ctx, made.ID); err != nil {
			t.Fatal(err)
		}
		if err := s.Tokens().DeleteToken(ctx, made.ID); !errors.Is(err, catalog.ErrNotFound) {
			t.Errorf("got %v, want not found", err)
		}
		if c := changes(t, s, since.Revision); len(c.Deleted) == 0 || c.Deleted[len(c.Deleted)-1].Key != (catalog.Key{Kind: catalog.KindToken, Name: made.ID}) {
			t.Errorf("got %+v, want the token's tombstone", c.Deleted)
		}
		if _, err := s.Tokens().CreateToken(ctx, catalog.NewToken{User: "ada", Label: "laptop", Hash: []byte("hash one")}); err != nil {
			t.Fatal(err)
		}
	}
}

func testBindings(t *testing.T, s subject) {
	editor := catalog.NewEditor(s)
	apply(t, s, full("b"))
	stored := changes(t, s, 0).Bindings
	if len(stored) != 1 {
		t.Fatalf("got %d bindings, want 1", len(stored))
	}
	if diff := cmp.Diff(full("b").Spec, stored[0].Spec, cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
	if outcomes := apply(t, s, full("b")); outcomes[0].Action != catalog.ActionUnchanged {
		t.Errorf("got %v, want unchanged", outcomes[0].Action)
	}
	next := full("b")
	next.Spec.Users = []string{"ada"}
	updated, err := update(t.Context(), editor, next)
	if err != nil || updated.Meta().Generation != 2 {
		t.Fatalf("got %+v, %v, want generation 2", updated, err)
	}
	since := changes(t, s, 0).Revision
	if _, err := editor.Delete(t.Context(), next.Key()); err != nil {
		t.Fatal(err)
	}
	if c := changes(t, s, since); len(c.Deleted) != 1 || c.Deleted[0].UID != updated.Meta().UID || len(c.Bindings) != 0 {
		t.Errorf("got %+v, want the binding's tombstone alone", c)
	}
}
