// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
)

// retryVerify is how long callers are asked to wait while tokens cannot be verified.
const retryVerify = 2 * time.Second

// BearerToken returns the token of an Authorization header, and false when there is none.
func BearerToken(header http.Header) (string, bool) {
	scheme, token, found := strings.Cut(header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	return token, found && strings.EqualFold(scheme, "Bearer") && token != ""
}

// FromHeader verifies the bearer token of a request, and calls [Verified] if the token is accepted.
// Its errors may be sent to the caller, except errors that a verifier should not return, which pass
// unmapped.
func FromHeader(ctx context.Context, verifier Verifier, header http.Header) (Identity, error) {
	token, found := BearerToken(header)
	if !found {
		return Identity{}, refused("the call carries no bearer token")
	}
	id, err := verifier.Verify(ctx, token)
	if err == nil {
		Verified(ctx)
	}
	return id, asRPC(err)
}

// asRPC maps a verifier's error to an RPC error without its text.
func asRPC(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrUnavailable):
		return rpcerr.New(connect.CodeUnavailable, errorsv1.Reason_REASON_DEPENDENCY_UNAVAILABLE,
			"the token cannot be verified now; retry",
			rpcerr.With("dependency", "distributor"), rpcerr.RetryAfter(retryVerify))
	case errors.Is(err, errServiceKey):
		return refused("the calling service's key is not known here; give all services of the hub the LEAT_SERVICE_KEYS that \"leat keys\" printed with their secrets")
	case errors.Is(err, errServiceClock):
		return refused("the clock of the calling service differs from the one here by more than half a minute; set both by NTP")
	case errors.Is(err, ErrTokenInvalid):
		return refused("the token is invalid, expired or for another audience; obtain a new one")
	}
	return err
}

func refused(message string) error {
	return rpcerr.New(connect.CodeUnauthenticated, errorsv1.Reason_REASON_TOKEN_INVALID, message)
}

// Authenticate passes only requests with a valid bearer token to next, with the caller's identity
// in the context. It is for plain HTTP endpoints; RPCs have an interceptor of their own. Errors
// that [Logged] logs are answered as INTERNAL.
func Authenticate(verifier Verifier, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, err := FromHeader(r.Context(), verifier, r.Header)
		if err != nil {
			rpcerr.WriteHTTP(w, r, err)
			return
		}
		next.ServeHTTP(w, r.WithContext(NewContext(r.Context(), id)))
	})
}
