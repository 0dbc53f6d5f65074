// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/internal/runtime/identity"
)

// asked counts the calls of a verifier.
type asked struct {
	identity.Verifier
	times int
}

func (a *asked) Verify(ctx context.Context, token string) (identity.Identity, error) {
	a.times++
	return a.Verifier.Verify(ctx, token)
}

func TestRemember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		issuer := identity.NewIssuer(privateKey(1))
		verifier := &asked{Verifier: issuer.Verifier(identity.ServiceTunnel)}
		remembering, err := identity.Remember(verifier, 2)
		if err != nil {
			t.Fatal(err)
		}
		verify := func(token string, wantAsked int, wantGood bool) {
			t.Helper()
			id, err := remembering.Verify(t.Context(), token)
			if (err == nil) != wantGood || wantGood && id.Name != user().Name {
				t.Errorf("got %+v, %v, want it good: %t", id, err, wantGood)
			}
			if verifier.times != wantAsked {
				t.Errorf("got %d questions, want %d", verifier.times, wantAsked)
			}
		}
		issue := func(ttl time.Duration) string {
			t.Helper()
			token, _, err := issuer.Issue(user(), identity.ServiceTunnel, ttl)
			if err != nil {
				t.Fatal(err)
			}
			return token
		}
		token := issue(time.Hour)
		verify(token, 1, true)
		verify(token, 1, true)
		verify(token+"x", 2, false)
		verify(token+"x", 3, false) // a refusal is not cached
		time.Sleep(time.Minute)
		verify(token, 4, true) // not for longer than a minute

		short := issue(10 * time.Second)
		verify(short, 5, true)
		time.Sleep(10*time.Second + time.Minute) // past its end, and the leeway for clocks
		verify(short, 6, false)

		verify(token, 7, true)
		for range 2 { // two others evict it
			verify(issue(time.Hour), verifier.times+1, true)
		}
		verify(token, 10, true)
	})
	if _, err := identity.Remember(nil, 0); err == nil {
		t.Error("got no error for a memory of nothing")
	}
}
