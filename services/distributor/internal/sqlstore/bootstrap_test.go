// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/leatdev/leat/services/distributor/internal/access/admission"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/sqlstore"
)

// newcomer is the agent of the n-th Kubernetes cluster, with a key of its own.
func newcomer(hash string, n int) catalog.Newcomer {
	return catalog.Newcomer{
		Hash: []byte(hash), Key: bytes.Repeat([]byte{byte(n)}, ed25519.PublicKeySize), AgentVersion: "v1",
		KubernetesUID: fmt.Sprintf("%08x-0000-4000-8000-000000000000", n),
	}
}

// bootstrapToken makes a token for clusters edge-… of the project default.
func bootstrapToken(t *testing.T, s subject, hash string, change ...func(*catalog.BootstrapToken)) catalog.BootstrapToken {
	t.Helper()
	token := catalog.BootstrapToken{
		Project: "default", NamePrefix: "edge-", Labels: map[string]string{"stage": "prod"}, Description: "a token", MaxUses: 3,
		ExpiresAt: time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond),
	}
	for _, c := range change {
		c(&token)
	}
	made, err := sqlstore.BootstrapsOf(s.Store).CreateBootstrapToken(t.Context(), token, []byte(hash))
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// bootstrapped lists the ids of tokens and how often each was used.
func bootstrapped(t *testing.T, s subject) map[string]int {
	t.Helper()
	tokens, err := sqlstore.BootstrapsOf(s.Store).BootstrapTokens(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	uses := map[string]int{}
	for _, token := range tokens {
		uses[token.ID] = token.Uses
	}
	return uses
}

func refusal(err error) catalog.Refusal {
	if e, ok := errors.AsType[*catalog.BootstrapError](err); ok {
		return e.Why
	}
	return 0
}

func testBootstrap(t *testing.T, s subject) {
	editor, tokens := catalog.NewEditor(s), sqlstore.BootstrapsOf(s.Store)
	apply(t, s, cluster("edge-taken"))
	before := changes(t, s, 0).Revision
	made := bootstrapToken(t, s, "hash one")
	if made.ID != admission.TokenID([]byte("hash one")) || made.Uses != 0 || !made.LastUsedAt.IsZero() || made.CreatedBy == "" || made.CreatedAt.IsZero() {
		t.Errorf("got %+v, want a new token", made)
	}
	enrol := func(n catalog.Newcomer) (*catalog.Cluster, error) { return editor.Bootstrap(t.Context(), tokens, n) }
	if _, err := enrol(newcomer("unknown", 1)); !errors.Is(err, catalog.ErrJoinTokenInvalid) {
		t.Errorf("got %v, want invalid", err)
	}
	var uid string
	for range 2 { // the second is the agent that did not get the first answer
		c, err := enrol(newcomer("hash one", 1))
		if err != nil {
			t.Fatal(err)
		}
		if c.Name != "edge-0000000100" || !maps.Equal(c.Labels, map[string]string{"stage": "prod"}) || c.Agent.KeyGeneration != 1 ||
			!c.Agent.PublicKey.Equal(newcomer("", 1).Key) || c.Agent.Report.AgentVersion != "v1" || uid != "" && c.UID != uid {
			t.Errorf("got %+v, want a new cluster with the key in generation 1", c)
		}
		uid = c.UID
	}
	if got := changes(t, s, before).Clusters; len(got) != 1 || got[0].UID != uid || !got[0].Agent.Enrolled() || got[0].Reason != "bootstrap token "+made.ID {
		t.Errorf("got %+v in the log of changes, want the enrolled cluster, and by which token", got)
	}
	// A refused attempt leaves no trace and counts no use.
	taken := newcomer("hash one", 2)
	taken.Name = "edge-taken"
	if _, err := enrol(taken); refusal(err) != catalog.RefusedTaken {
		t.Errorf("got %v, want the name taken", err)
	}
	foreign := newcomer("hash one", 2)
	foreign.Name = "prod-1"
	if _, err := enrol(foreign); refusal(err) != catalog.RefusedName {
		t.Errorf("got %v, want the name refused", err)
	}
	again := newcomer("hash one", 1)
	again.Key = newcomer("", 9).Key
	if _, err := enrol(again); refusal(err) != catalog.RefusedEnrolled {
		t.Errorf("got %v, want another key of the same Kubernetes cluster refused", err)
	}
	if uses := bootstrapped(t, s); uses[made.ID] != 1 {
		t.Errorf("got %v uses, want 1", uses)
	}
	if got := changes(t, s, before).Clusters; len(got) != 1 {
		t.Errorf("got %+v, want no further cluster", got)
	}
	// After a revocation the token does not bring the cluster back, and after its deletion makes another one.
	if err := s.Enrolments().Revoke(t.Context(), "edge-0000000100"); err != nil {
		t.Fatal(err)
	}
	for _, n := range []catalog.Newcomer{newcomer("hash one", 1), again} {
		if _, err := enrol(n); refusal(err) != catalog.RefusedEnrolled {
			t.Errorf("got %v, want a revoked cluster to stay revoked", err)
		}
	}
	if _, err := editor.Delete(t.Context(), catalog.Key{Kind: catalog.KindCluster, Name: "edge-0000000100"}); err != nil {
		t.Fatal(err)
	}
	if c, err := enrol(again); err != nil || c.UID == uid {
		t.Errorf("got %+v, %v, want another cluster", c, err)
	}
	last := newcomer("hash one", 3)
	last.Name = "edge-berlin"
	if c, err := enrol(last); err != nil || c.Name != "edge-berlin" {
		t.Errorf("got %+v, %v, want edge-berlin", c, err)
	}
	if _, err := enrol(newcomer("hash one", 4)); refusal(err) != catalog.RefusedSpent {
		t.Errorf("got %v, want the token spent", err)
	}
	if c, err := enrol(last); err != nil || c.Name != "edge-berlin" {
		t.Errorf("got %+v, %v, want the last agent's retry answered", c, err)
	}
	listed, err := tokens.BootstrapTokens(t.Context())
	if err != nil || len(listed) != 1 {
		t.Fatalf("got %+v, %v, want one token", listed, err)
	}
	if got := listed[0]; got.Uses != 3 || got.MaxUses != 3 || got.LastCluster != "edge-berlin" || got.LastUsedAt.IsZero() || got.NamePrefix != "edge-" ||
		got.Description != "a token" || !got.ExpiresAt.Equal(made.ExpiresAt) {
		t.Errorf("got %+v", got)
	}
}

// testBootstrapRace has more agents come at once than a token has uses: each use makes one cluster.
func testBootstrapRace(t *testing.T, s subject) {
	editor, tokens := catalog.NewEditor(s), sqlstore.BootstrapsOf(s.Store)
	made := bootstrapToken(t, s, "few")
	var names sync.Map
	var agents sync.WaitGroup
	for i := range 12 {
		agents.Go(func() {
			// Two at a time are of one Kubernetes cluster, with one key.
			switch c, err := editor.Bootstrap(t.Context(), tokens, newcomer("few", 1+i/2)); {
			case err == nil:
				names.Store(c.Name, true)
			case refusal(err) != catalog.RefusedSpent:
				t.Errorf("got %v, want the token spent", err)
			}
		})
	}
	agents.Wait()
	n := 0
	names.Range(func(any, any) bool { n++; return true })
	if clusters := changes(t, s, 0).Clusters; n != 3 || len(clusters) != 3 || bootstrapped(t, s)[made.ID] != 3 {
		t.Errorf("got %d clusters and %d answers by %d uses, want 3", len(clusters), n, bootstrapped(t, s)[made.ID])
	}
}

// testBootstrapsEnd ends tokens in each way that there is.
func testBootstrapsEnd(t *testing.T, s subject) {
	ctx := t.Context()
	editor, tokens := catalog.NewEditor(s), sqlstore.BootstrapsOf(s.Store)
	apply(t, s, user("ada"), &catalog.Project{Metadata: catalog.Metadata{Name: "shop"}})
	limited, err := s.Tokens().CreateToken(ctx, catalog.NewToken{User: "ada", Label: "ci", Hash: []byte("hash of an API token"), ExpiresAt: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	ada, err := get(ctx, s, catalog.Key{Kind: catalog.KindUser, Name: "ada"})
	if err != nil {
		t.Fatal(err)
	}
	revoked := bootstrapToken(t, s, "revoked")
	inShop := bootstrapToken(t, s, "in a project", func(b *catalog.BootstrapToken) { b.Project = "shop" })
	madeWith := bootstrapToken(t, s, "made with another", func(b *catalog.BootstrapToken) { b.MadeWith = limited.ID })
	ended := bootstrapToken(t, s, "ended", func(b *catalog.BootstrapToken) { b.ExpiresAt = time.Now().Add(-time.Second) })
	byAda, err := tokens.CreateBootstrapToken(catalog.WithOrigin(ctx, catalog.Origin{Subject: "user:ada", SubjectUID: ada.Meta().UID}),
		catalog.BootstrapToken{Project: "default", NamePrefix: "a", MaxUses: 1, ExpiresAt: time.Now().Add(time.Hour)}, []byte("of ada"))
	if err != nil || byAda.CreatedBy != "user:ada" {
		t.Fatal(byAda, err)
	}
	kept := bootstrapToken(t, s, "kept")
	if _, err := tokens.CreateBootstrapToken(ctx, catalog.BootstrapToken{Project: "default", NamePrefix: "a", MaxUses: 1, MadeWith: "00"}, []byte("x")); !errors.Is(err, catalog.ErrNotFound) {
		t.Errorf("got %v for a maker that does not exist, want not found", err)
	}
	usable := map[string]bool{}
	listed, err := s.Enrolments().JoinTokens(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range listed {
		usable[string(token.Hash)] = token.IsBootstrap
	}
	if want := map[string]bool{"revoked": true, "in a project": true, "made with another": true, "of ada": true, "kept": true}; !maps.Equal(usable, want) {
		t.Errorf("got %v, want those that have not ended", usable)
	}
	deleting := func(key catalog.Key) func() error {
		return func() error {
			_, err := editor.Delete(ctx, key)
			return err
		}
	}
	for _, end := range []struct {
		how, hash string
		do        func() error
		token     catalog.BootstrapToken
	}{
		{"revoked", "revoked", func() error { return tokens.RevokeBootstrapToken(ctx, revoked.ID) }, revoked},
		{"its project deleted", "in a project", deleting(catalog.Key{Kind: catalog.KindProject, Name: "shop"}), inShop},
		{"its API token deleted", "made with another", func() error { return s.Tokens().DeleteToken(ctx, limited.ID) }, madeWith},
		{"its maker deleted", "of ada", deleting(ada.Key()), byAda},
	} {
		if err := end.do(); err != nil {
			t.Errorf("%s: %v", end.how, err)
		}
		if _, isThere := bootstrapped(t, s)[end.token.ID]; isThere {
			t.Errorf("%s: the token is still there", end.how)
		}
		if _, err := editor.Bootstrap(ctx, tokens, newcomer(end.hash, 1)); !errors.Is(err, catalog.ErrJoinTokenInvalid) {
			t.Errorf("%s: got %v, want invalid", end.how, err)
		}
	}
	if err := tokens.RevokeBootstrapToken(ctx, revoked.ID); !errors.Is(err, catalog.ErrNotFound) {
		t.Errorf("got %v, want not found", err)
	}
	if _, err := editor.Bootstrap(ctx, tokens, newcomer("ended", 1)); !errors.Is(err, catalog.ErrJoinTokenInvalid) {
		t.Errorf("got %v of a token that has ended, want invalid", err)
	}
	if got, want := bootstrapped(t, s), map[string]int{ended.ID: 0, kept.ID: 0}; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// testBootstrapsEndWithARestore restores a backup of a hub that had a token: it may have been revoked,
// and was perhaps used, since.
func testBootstrapsEndWithARestore(t *testing.T, s subject) {
	bootstrapToken(t, s, "in the backup")
	if _, err := catalog.NewEditor(s).Bootstrap(t.Context(), sqlstore.BootstrapsOf(s.Store), newcomer("in the backup", 1)); err != nil {
		t.Fatal(err)
	}
	url := newSQLiteURL(t)
	target, err := sqlstore.OpenTarget(t.Context(), url, keysOfTest(t))
	if err != nil {
		t.Fatal(err)
	}
	_, err = target.Restore(t.Context(), openBackup(t, bytes.NewReader(backUp(t, s.url))), nil, sqlstore.RestoreOptions{KeepTokens: true})
	if err := errors.Join(err, target.Close()); err != nil {
		t.Fatal(err)
	}
	restored := subject{Store: open(t, url), url: url}
	if got := bootstrapped(t, restored); len(got) != 0 || len(changes(t, restored, 0).Clusters) != 1 {
		t.Errorf("got %v, want the cluster without the token", got)
	}
}

func get(ctx context.Context, s subject, key catalog.Key) (object catalog.Object, err error) {
	err = s.Edit(ctx, func(ctx context.Context, tx catalog.Tx) (err error) {
		object, err = tx.Get(ctx, key)
		return err
	})
	return object, err
}
