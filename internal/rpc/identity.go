// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"context"
	"net/http"

	"connectrpc.com/connect"

	"github.com/leatdev/leat/internal/identity"
)

// Before is an interceptor of handlers that is called before every call. It returns the context for
// what is inside. Its error ends the call.
type Before func(ctx context.Context, spec connect.Spec, header http.Header) (context.Context, error)

// WrapUnary implements connect.Interceptor.
func (b Before) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
		ctx, err := b(ctx, request.Spec(), request.Header())
		if err != nil {
			return nil, err
		}
		return next(ctx, request)
	}
}

// WrapStreamingClient implements connect.Interceptor.
func (Before) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler implements connect.Interceptor.
func (b Before) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		ctx, err := b(ctx, conn.Spec(), conn.RequestHeader())
		if err != nil {
			return err
		}
		return next(ctx, conn)
	}
}

// authenticate refuses calls without a valid token, but for those of public procedures, and puts the
// caller into the context of the others. It does neither if [Server.Guard] has already done so.
func authenticate(verifier identity.Verifier, public map[string]bool) Before {
	return func(ctx context.Context, spec connect.Spec, header http.Header) (context.Context, error) {
		if _, known := identity.FromContext(ctx); known || public[spec.Procedure] {
			return ctx, nil
		}
		id, err := identity.FromHeader(ctx, verifier, header)
		if err != nil {
			return nil, err
		}
		return identity.NewContext(ctx, id), nil
	}
}
