// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/services/distributor/internal/access/admission"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// kept is a store of one API token. It counts how often the time of the token's use is stored.
type kept struct {
	catalog.People

	token   catalog.Token
	hash    []byte
	isGone  bool
	isAway  bool
	touches int
}

func (k *kept) UserByToken(_ context.Context, hash []byte) (catalog.SignIn, error) {
	switch {
	case k.isAway:
		return catalog.SignIn{}, catalog.ErrUnavailable
	case k.isGone, string(hash) != string(k.hash), k.token.Expired(time.Now()):
		return catalog.SignIn{}, catalog.ErrNotFound
	}
	return catalog.SignIn{User: &catalog.User{Metadata: catalog.Metadata{Name: "ada", UID: "uid"}}, Token: k.token}, nil
}

func (k *kept) TouchTokens(_ context.Context, uses []catalog.TokenUse) error {
	for _, use := range uses {
		if use.ID == k.token.ID && use.At.After(k.token.LastUsedAt) {
			k.token.LastUsedAt = use.At
			k.touches++
		}
	}
	return nil
}

func (k *kept) DeleteToken(_ context.Context, id string) error {
	if k.isGone || id != k.token.ID {
		return &catalog.NotFoundError{}
	}
	k.isGone = true
	return nil
}

// browserToken returns a token that a browser keeps, and its store.
func browserToken() (string, *kept) {
	secret := admission.NewAPIToken()
	hash := admission.Hash(secret)
	return secret, &kept{hash: hash, token: catalog.Token{
		ID: admission.TokenID(hash), Label: admission.BrowserLabel, MadeWith: "another", CreatedAt: catalog.Now(), ExpiresAt: catalog.Now().Add(12 * time.Hour),
	}}
}

// TestIdleBrowserEnds uses the token of a browser at two replicas and after a restart, and leaves it
// alone for an hour.
func TestIdleBrowserEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		secret, store := browserToken()
		one, two := admission.NewAPITokens(store), admission.NewAPITokens(store)
		use := func(replica *admission.APITokens, after time.Duration) error {
			<-time.After(after) // virtual
			id, err := replica.UseInBrowser(t.Context(), secret)
			if err == nil && id.Name != "ada" {
				t.Errorf("got %+v, want ada", id)
			}
			return err
		}
		for _, step := range []struct {
			replica *admission.APITokens
			after   time.Duration
			touches int // in all
		}{
			{one, 0, 0},
			{one, 59 * time.Minute, 1},
			{one, 10 * time.Second, 1},
			{two, 40 * time.Second, 1},
			{two, 59 * time.Minute, 2},
			{one, 59 * time.Minute, 3},
			{admission.NewAPITokens(store), time.Hour, 4},
		} {
			if err := use(step.replica, step.after); err != nil || store.touches != step.touches {
				t.Errorf("after %v: got %v and %d stored uses, want %d", step.after, err, store.touches, step.touches)
			}
		}
		if err := use(one, time.Hour+time.Second); !errors.Is(err, identity.ErrTokenInvalid) || !store.isGone {
			t.Errorf("got %v, deleted: %v, want the idle token to end", err, store.isGone)
		}
		if err := use(two, 0); !errors.Is(err, identity.ErrTokenInvalid) {
			t.Errorf("got %v at another replica, want %v", err, identity.ErrTokenInvalid)
		}
	})
}

// TestBrowserOutlivesAnOutage uses the token of a browser while the store is away, and for the first
// time in a while when it is away.
func TestBrowserOutlivesAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		secret, store := browserToken()
		tokens := admission.NewAPITokens(store)
		if _, err := tokens.UseInBrowser(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
		store.isAway = true
		<-time.After(9 * time.Minute) // virtual
		if _, err := tokens.UseInBrowser(t.Context(), secret); err != nil {
			t.Errorf("got %v, want a browser of nine minutes ago to be remembered", err)
		}
		<-time.After(2 * time.Hour) // virtual
		if _, err := tokens.UseInBrowser(t.Context(), secret); !errors.Is(err, identity.ErrUnavailable) || store.isGone {
			t.Errorf("got %v, deleted: %v, want %v", err, store.isGone, identity.ErrUnavailable)
		}
		store.isAway = false
		if _, err := tokens.UseInBrowser(t.Context(), secret); !errors.Is(err, identity.ErrTokenInvalid) || !store.isGone {
			t.Errorf("got %v, deleted: %v, want the idle token to end", err, store.isGone)
		}
	})
}

// TestSecOnlyBrowsersTokensAreIdle presents tokens that the hub did not make for a browser as if a
// browser kept them.
func TestSecOnlyBrowsersTokensAreIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, change := range map[string]func(*catalog.Token){
			"with another label": func(token *catalog.Token) { token.Label = "laptop" },
			"of a user":          func(token *catalog.Token) { token.MadeWith = "" },
		} {
			secret, store := browserToken()
			change(&store.token)
			tokens := admission.NewAPITokens(store)
			<-time.After(2 * time.Hour) // virtual
			if _, err := tokens.UseInBrowser(t.Context(), secret); !errors.Is(err, identity.ErrTokenInvalid) {
				t.Errorf("%s: got %v, want %v", name, err, identity.ErrTokenInvalid)
			}
			if _, err := tokens.Verify(t.Context(), secret); err != nil || store.isGone || store.touches > 0 {
				t.Errorf("%s: got %v, deleted: %v, %d uses, want it to stay as it was", name, err, store.isGone, store.touches)
			}
		}
	})
}
