// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
)

func TestBearerToken(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"Bearer abc": "abc", "bearer  abc ": "abc", "Basic abc": "", "Bearer": "", "Bearer ": "", "": "", "abc": "",
	} {
		got, found := identity.BearerToken(http.Header{"Authorization": {value}})
		if found != (want != "") || found && got != want {
			t.Errorf("%q: got %q, %t, want %q", value, got, found, want)
		}
	}
}

func TestAuthenticate(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		header   string
		verifier identity.Verifier
		status   int
		reason   errorsv1.Reason
	}{
		"valid":       {"Bearer x", accept(user()), http.StatusOK, errorsv1.Reason_REASON_UNSPECIFIED},
		"no token":    {"", accept(user()), http.StatusUnauthorized, errorsv1.Reason_REASON_TOKEN_INVALID},
		"invalid":     {"Bearer x", refuse(identity.ErrTokenInvalid), http.StatusUnauthorized, errorsv1.Reason_REASON_TOKEN_INVALID},
		"cannot tell": {"Bearer x", refuse(identity.ErrUnavailable), http.StatusServiceUnavailable, errorsv1.Reason_REASON_DEPENDENCY_UNAVAILABLE},
		"defect":      {"Bearer x", refuse(errors.New("disk on fire")), http.StatusInternalServerError, errorsv1.Reason_REASON_INTERNAL},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			handler := identity.Authenticate(tt.verifier, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				id, _ := identity.FromContext(r.Context())
				_, _ = io.WriteString(w, id.Subject())
			}))
			recorder := httptest.NewRecorder()
			request := httptest.NewRequest(http.MethodGet, "/", nil)
			request.Header.Set("Authorization", tt.header)
			handler.ServeHTTP(recorder, request)
			response := recorder.Result()
			if response.StatusCode != tt.status {
				t.Errorf("got status %d, want %d", response.StatusCode, tt.status)
			}
			if tt.status == http.StatusOK {
				if body := recorder.Body.String(); body != "user:ada" {
					t.Errorf("got %q, want the caller's subject", body)
				}
				return
			}
			err := rpcerr.FromHTTP(response)
			if got := rpcerr.ReasonOf(err); got != tt.reason {
				t.Errorf("got %v with %s, want %s", err, got, tt.reason)
			}
		})
	}
}

// TestAnotherKeyIsTold makes the most common mistake in setting up a hub. The message must contain
// the advice, even if a second verifier refuses the token for another reason.
func TestAnotherKeyIsTold(t *testing.T) {
	t.Parallel()
	token, err := serviceKey(t, strings.Repeat("b", 32), "tunnel").For("gitcache").Token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	verifier := identity.Chain(serviceKeys(t, serviceKey(t, strings.Repeat("a", 32), "tunnel")).Verifier([]string{"tunnel"}, "gitcache"), refuse(identity.ErrTokenInvalid))
	_, err = identity.FromHeader(t.Context(), verifier, http.Header{"Authorization": {"Bearer " + token}})
	if rpcerr.ReasonOf(err) != errorsv1.Reason_REASON_TOKEN_INVALID || !strings.Contains(err.Error(), "LEAT_SERVICE_KEYS") {
		t.Errorf("got %v, want TOKEN_INVALID that names LEAT_SERVICE_KEYS", err)
	}
}

// TestAnotherClockIsTold has a service call with a token of another time. The fake clock of a synctest bubble begins in the
// year 2000, so a token from outside it is far ahead.
func TestAnotherClockIsTold(t *testing.T) {
	t.Parallel()
	key := serviceKey(t, sharedSecret, "tunnel")
	verifier := serviceKeys(t, key).Verifier([]string{"tunnel"}, "gitcache")
	told := func(t *testing.T, name, token string) {
		t.Helper()
		_, err := identity.FromHeader(t.Context(), verifier, http.Header{"Authorization": {"Bearer " + token}})
		if rpcerr.ReasonOf(err) != errorsv1.Reason_REASON_TOKEN_INVALID || !strings.Contains(err.Error(), "clock") {
			t.Errorf("%s: got %v, want TOKEN_INVALID that names the clock", name, err)
		}
	}
	ahead, err := key.For("gitcache").Token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		told(t, "ahead", ahead)
		behind, err := serviceKey(t, sharedSecret, "tunnel").For("gitcache").Token(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(5*time.Minute + 31*time.Second)
		told(t, "behind", behind)
		// The clock of the first key was set back by decades: what it made before is refused, so it makes another token.
		again, err := key.For("gitcache").Token(t.Context())
		if err != nil || again == ahead {
			t.Fatalf("got the same token (%v), want another one", err)
		}
		if _, err := verifier.Verify(t.Context(), again); err != nil {
			t.Errorf("after the clock was set back: %v", err)
		}
	})
}
