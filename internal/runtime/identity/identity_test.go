// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/testkit/offline"
)

func TestMain(m *testing.M) { os.Exit(offline.Run(m)) }

// privateKey returns a key that depends only on the seed.
func privateKey(seed byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(slices.Repeat([]byte{seed}, ed25519.SeedSize))
}

func publicKey(seed byte) ed25519.PublicKey {
	public, _ := privateKey(seed).Public().(ed25519.PublicKey)
	return public
}

func user() identity.Identity {
	return identity.Identity{Kind: identity.KindUser, Name: "ada", UID: "u-1", Groups: []string{"dev", "ops"}}
}

func cluster() identity.Identity {
	return identity.Identity{Kind: identity.KindCluster, Name: "demo", UID: "c-1"}
}

// verifierFunc is a verifier made of a function.
type verifierFunc func(ctx context.Context, token string) (identity.Identity, error)

func (f verifierFunc) Verify(ctx context.Context, token string) (identity.Identity, error) {
	return f(ctx, token)
}

func accept(id identity.Identity) identity.Verifier {
	return verifierFunc(func(context.Context, string) (identity.Identity, error) { return id, nil })
}

func refuse(err error) identity.Verifier {
	return verifierFunc(func(context.Context, string) (identity.Identity, error) { return identity.Identity{}, err })
}

func TestParseSubject(t *testing.T) {
	t.Parallel()
	for _, id := range []identity.Identity{user(), cluster(), {Kind: identity.KindService, Name: "gitcache"}} {
		kind, name, err := identity.ParseSubject(id.Subject())
		if err != nil || kind != id.Kind || name != id.Name {
			t.Errorf("%s: got %s, %s, %v", id.Subject(), kind, name, err)
		}
	}
	if kind, name, err := identity.ParseSubject("user:a:b"); err != nil || kind != identity.KindUser || name != "a:b" {
		t.Errorf("a name with a colon: got %s, %q, %v", kind, name, err)
	}
	for _, subject := range []string{"", "user", "user:", ":demo", "robot:demo", "User:ada"} {
		if _, _, err := identity.ParseSubject(subject); !errors.Is(err, identity.ErrTokenInvalid) {
			t.Errorf("%q: got %v, want %v", subject, err, identity.ErrTokenInvalid)
		}
	}
	if got := (identity.Identity{}).Subject(); got != "" {
		t.Errorf("subject of the zero identity: got %q, want none", got)
	}
}

func TestContext(t *testing.T) {
	t.Parallel()
	if _, found := identity.FromContext(t.Context()); found {
		t.Error("got an identity from a context without one")
	}
	got, found := identity.FromContext(identity.NewContext(t.Context(), user()))
	if !found || got.Subject() != "user:ada" || got.IsZero() {
		t.Errorf("got %v, %t, want the user", got, found)
	}
}

func TestChain(t *testing.T) {
	t.Parallel()
	errDefect := errors.New("disk on fire")
	invalid, unavailable := refuse(identity.ErrTokenInvalid), refuse(identity.ErrUnavailable)
	tests := map[string]struct {
		chain identity.Verifier
		want  error
	}{
		"first accepts":              {identity.Chain(accept(user()), invalid), nil},
		"last accepts":               {identity.Chain(invalid, unavailable, refuse(errDefect), accept(user())), nil},
		"all refuse":                 {identity.Chain(invalid, invalid), identity.ErrTokenInvalid},
		"one cannot decide":          {identity.Chain(invalid, unavailable, invalid), identity.ErrUnavailable},
		"first of those that cannot": {identity.Chain(refuse(errDefect), unavailable), errDefect},
		"nobody":                     {identity.Chain(), identity.ErrTokenInvalid},
	}
	for name, tt := range tests {
		id, err := tt.chain.Verify(t.Context(), "token")
		if !errors.Is(err, tt.want) || (err == nil) == id.IsZero() {
			t.Errorf("%s: got %v, %v, want error %v", name, id, err, tt.want)
		}
	}
}

func TestLoggedTellsDefectsAlone(t *testing.T) {
	t.Parallel()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	errDefect := errors.New("disk on fire")
	tests := map[string]struct {
		ctx  context.Context
		err  error
		want bool
	}{
		"accepted":    {t.Context(), nil, false},
		"invalid":     {t.Context(), identity.ErrTokenInvalid, false},
		"unavailable": {t.Context(), identity.ErrUnavailable, false},
		"caller gone": {gone, errDefect, false},
		"defect":      {t.Context(), errDefect, true},
	}
	for name, tt := range tests {
		var log strings.Builder
		logged := identity.Logged(refuse(tt.err), slog.New(slog.NewTextHandler(&log, nil)))
		if _, err := logged.Verify(tt.ctx, "token"); !errors.Is(err, tt.err) {
			t.Errorf("%s: got %v, want %v", name, err, tt.err)
		}
		if got := strings.Contains(log.String(), "disk on fire"); got != tt.want {
			t.Errorf("%s: got log %q, want the cause in it: %t", name, log.String(), tt.want)
		}
	}
}

func TestStaticToken(t *testing.T) {
	t.Parallel()
	if got, err := identity.StaticToken("abc").Token(t.Context()); got != "abc" || err != nil {
		t.Errorf("got %q, %v, want abc", got, err)
	}
}
