// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/services/distributor/internal/access/session"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// pendingSession is a session of a command line that waits for its code.
func pendingSession(id, providerUID string) session.New {
	at := catalog.Now()
	return session.New{
		Session: catalog.Session{
			ID: id, Person: "corp.ada", Groups: []string{"corp:dev"}, ProviderUID: providerUID, Subject: "ada",
			Client: catalog.ClientCLI, CreatedAt: at, EndsAt: at.Add(time.Hour), Pending: true,
		},
		Proof: []byte("proof of " + id), Challenge: []byte("challenge"), ProofEndsAt: at.Add(time.Minute), RenewAt: at.Add(15 * time.Minute),
		Refresh: "the refresh token of " + secret.Text(id),
	}
}

func testSessions(t *testing.T, s subject) {
	ctx := t.Context()
	signIns := s.SignIns()
	stored, err := create(ctx, catalog.NewEditor(s), &catalog.IdentityProvider{
		Metadata: catalog.Metadata{Name: "corp"},
		Spec: catalog.IdentityProviderSpec{
			Issuer: "https://login.example", ClientID: "leat", ClientSecret: "a secret of the client", Scopes: []string{"groups"},
			Groups: map[string]string{"root": "leat:admins"}, GroupPrefix: new(""), Require: []catalog.ClaimRequirement{{Claim: "hd", Values: []string{"a"}}},
			Session: time.Hour, Renew: 5 * time.Minute, UsernameClaim: "email",
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	uid := stored.Meta().UID
	all := changes(t, s, 0)
	shown, ok := stored.(*catalog.IdentityProvider)
	if !ok || len(all.Providers) != 1 || cmp.Diff(shown.Public(), all.Providers[0]) != "" {
		t.Errorf("got %+v, want %+v without its secret", all.Providers, stored)
	}
	if got, err := signIns.ProviderSecret(ctx, uid); err != nil || got != "a secret of the client" {
		t.Errorf("got %q, %v", got.Reveal(), err)
	}
	if _, err := signIns.ProviderSecret(ctx, "other"); !errors.Is(err, catalog.ErrNotFound) {
		t.Errorf("got %v, want not found", err)
	}

	made := pendingSession("one", uid)
	if err := signIns.CreateSession(ctx, made); err != nil {
		t.Fatal(err)
	}
	again := pendingSession("two", uid)
	again.Proof = made.Proof
	if err := signIns.CreateSession(ctx, again); !errors.Is(err, session.ErrProof) {
		t.Errorf("got %v, want the proof of another session refused", err)
	}
	if got := changes(t, s, 0).Sessions; len(got) != 1 || !got[0].Pending || got[0].Provider != "corp" || !got[0].EndsAt.Equal(made.ProofEndsAt) {
		t.Errorf("got %+v, want one that waits", got)
	}
	at := catalog.Now()
	if _, err := signIns.UseToken(ctx, session.Use{ID: "one", Token: made.Proof, Next: []byte("next"), At: at}); !errors.Is(err, session.ErrEnded) {
		t.Errorf("got %v, want a pending session to sign nobody in", err)
	}
	if _, err := signIns.RedeemProof(ctx, session.Redemption{ID: "one", Proof: made.Proof, Verifier: made.Challenge, First: []byte("a"), At: at.Add(2 * time.Minute)}); !errors.Is(err, session.ErrProof) {
		t.Errorf("got %v, want a late code refused", err)
	}
	held, err := signIns.RedeemProof(ctx, session.Redemption{ID: "one", Proof: made.Proof, Verifier: made.Challenge, First: []byte("a"), At: at})
	if err != nil || held.Pending || !held.EndsAt.Equal(made.EndsAt) || !held.RenewAt.Equal(made.RenewAt) || !slices.Equal(held.Groups, made.Groups) {
		t.Fatalf("got %+v, %v", held, err)
	}

	before := changes(t, s, 0).Revision
	testTokenChain(t, signIns, at)
	testRenewals(t, signIns, at)
	if after := changes(t, s, 0).Revision; after > before+1 {
		t.Errorf("got revision %d after %d, want use to take none, and a change of groups one", after, before)
	}
	if listed, err := signIns.ListSessions(ctx, "corp.ada"); err != nil || len(listed) != 1 || listed[0].LastUsedAt.IsZero() || listed[0].Groups[0] != "corp:ops" {
		t.Errorf("got %+v, %v", listed, err)
	}
	if _, err := signIns.UseToken(ctx, session.Use{ID: "one", Token: []byte("a"), Next: []byte("thief"), At: at}); !errors.Is(err, session.ErrReused) {
		t.Errorf("got %v, want a stolen token to end the session", err)
	}
	gone := changes(t, s, before)
	if len(gone.Deleted) != 1 || gone.Deleted[0].Key != (catalog.Key{Kind: catalog.KindSession, Name: "one"}) {
		t.Errorf("got %+v, want a tombstone", gone.Deleted)
	}

	for _, id := range []string{"three", "four"} {
		if err := signIns.CreateSession(ctx, pendingSession(id, uid)); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := signIns.EndSessions(ctx, "", "corp.ada"); err != nil || n != 2 {
		t.Errorf("got %d, %v, want two", n, err)
	}
	if n, err := signIns.EndSessions(ctx, "three", ""); err != nil || n != 0 {
		t.Errorf("got %d, %v, want none", n, err)
	}
	if err := signIns.CreateSession(ctx, pendingSession("five", uid)); err != nil {
		t.Fatal(err)
	}
	if _, err := catalog.NewEditor(s).Delete(ctx, stored.Key()); err != nil {
		t.Fatal(err)
	}
	if got := changes(t, s, 0); len(got.Sessions)+len(got.Providers) != 0 {
		t.Errorf("got %+v, want the sessions gone with their provider", got.Sessions)
	}
}

// testTokenChain replaces tokens, repeats it, and lets many callers present one token at once.
func testTokenChain(t *testing.T, s session.Store, at time.Time) {
	t.Helper()
	use := func(token, next string) error {
		_, err := s.UseToken(t.Context(), session.Use{ID: "one", Token: []byte(token), Next: []byte(next), At: at})
		return err
	}
	for range 2 {
		if err := use("a", "b"); err != nil {
			t.Fatal(err)
		}
	}
	for _, unknown := range []string{"x", "proof of two"} {
		if err := use(unknown, "y"); !errors.Is(err, session.ErrEnded) {
			t.Errorf("%s: got %v, want it unknown", unknown, err)
		}
	}
	if _, err := s.UseToken(t.Context(), session.Use{ID: "one", Token: []byte("b"), At: at}); !errors.Is(err, session.ErrEnded) {
		t.Errorf("got %v, want a command line's token not to stay", err)
	}
	if err := use("b", "a"); !errors.Is(err, session.ErrEnded) {
		t.Errorf("got %v, want a token that there was refused as a successor", err)
	}
	var group sync.WaitGroup
	results := make([]error, 8)
	for i := range results {
		group.Go(func() { results[i] = use("b", "c") })
	}
	group.Wait()
	if err := errors.Join(results...); err != nil {
		t.Errorf("got %v, want repetitions to be alike", err)
	}
	if err := use("c", "d"); err != nil {
		t.Error(err)
	}
}

// testRenewals claims the renewal of a session by many callers at once.
func testRenewals(t *testing.T, s session.Store, at time.Time) {
	t.Helper()
	ctx := t.Context()
	var mu sync.Mutex
	var group sync.WaitGroup
	var won []secret.Text
	for range 8 {
		group.Go(func() {
			refresh, ok, err := s.ClaimRenewal(ctx, "one", at, at.Add(time.Minute))
			if err != nil {
				t.Error(err)
			}
			if ok {
				mu.Lock()
				defer mu.Unlock()
				won = append(won, refresh)
			}
		})
	}
	group.Wait()
	if len(won) != 1 || won[0] != "the refresh token of one" {
		t.Fatalf("got %d with the renewal, want one", len(won))
	}
	if _, ok, err := s.ClaimRenewal(ctx, "one", at.Add(time.Minute), at.Add(2*time.Minute)); err != nil || !ok {
		t.Errorf("got %t, %v, want a renewal that was not finished to be free again", ok, err)
	}
	if err := s.SaveRenewal(ctx, "one", []string{"corp:ops"}, "another refresh token", at.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if refresh, ok, err := s.ClaimRenewal(ctx, "one", at, at.Add(time.Minute)); err != nil || !ok || refresh != "another refresh token" {
		t.Errorf("got %t, %v, want the new refresh token", ok, err)
	}
	if err := s.SaveRenewal(ctx, "none", nil, "", at); err != nil {
		t.Errorf("got %v, want a session that is gone to be no error", err)
	}
	if _, ok, err := s.ClaimRenewal(ctx, "none", at, at); err != nil || ok {
		t.Errorf("got %t, %v", ok, err)
	}
}

// TestSecSessionsAtRest looks for secrets in the files of a database that has a session.
func TestSecSessionsAtRest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store := open(t, "sqlite://"+filepath.Join(dir, "leat.db"))
	stored, err := create(t.Context(), catalog.NewEditor(store), &catalog.IdentityProvider{
		Metadata: catalog.Metadata{Name: "corp"},
		Spec:     catalog.IdentityProviderSpec{Issuer: "https://login.example", ClientID: "leat", ClientSecret: "a secret of the client"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.SignIns().CreateSession(t.Context(), pendingSession("one", stored.Meta().UID)); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	var content []byte
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		part, err := os.ReadFile(filepath.Join(dir, file.Name()))
		if err != nil {
			t.Fatal(err)
		}
		content = append(content, part...)
	}
	if !bytes.Contains(content, []byte("corp.ada")) {
		t.Error("the files hold no session: fix this test")
	}
	for _, secret := range []string{"the refresh token of one", "a secret of the client"} {
		if bytes.Contains(content, []byte(secret)) {
			t.Errorf("%q is readable in the database", secret)
		}
	}
}
