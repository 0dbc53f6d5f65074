// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"context"
	"net/http"

	"connectrpc.com/connect"

	"github.com/leatdev/leat/internal/identity"
)

// identityInterceptor refuses calls without a valid token, and puts the caller into the context of
// the others. It does neither if [Server.Guard] has already done so.
type identityInterceptor struct {
	verifier identity.Verifier
	public   map[string]bool
	trusted  bool
}

func (i *identityInterceptor) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
		ctx, err := i.identify(ctx, request.Spec(), request.Header())
		if err != nil {
			return nil, err
		}
		return next(ctx, request)
	}
}

func (*identityInterceptor) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

func (i *identityInterceptor) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		ctx, err := i.identify(ctx, conn.Spec(), conn.RequestHeader())
		if err != nil {
			return err
		}
		return next(ctx, conn)
	}
}

func (i *identityInterceptor) identify(ctx context.Context, spec connect.Spec, header http.Header) (context.Context, error) {
	if _, known := identity.FromContext(ctx); known || i.trusted || i.public[spec.Procedure] {
		return ctx, nil
	}
	id, err := identity.FromHeader(ctx, i.verifier, header)
	if err != nil {
		return nil, err
	}
	return identity.NewContext(ctx, id), nil
}
