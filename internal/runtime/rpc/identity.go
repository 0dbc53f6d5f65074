// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"context"
	"net/http"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/reflect/protoreflect"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	optionsv1 "github.com/leatdev/leat/gen/go/leat/options/v1"
	"github.com/leatdev/leat/internal/contract/permission"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
)

// Before is an interceptor of handlers that is called before every call. It returns the context for
// the inner handler. Its error ends the call.
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
		ctx, err := b.stream(ctx, conn)
		if err != nil {
			return err
		}
		return next(ctx, conn)
	}
}

// stream calls b for a stream. It is a function of its own because the stream may last for days, and would keep this
// much of its stack.
func (b Before) stream(ctx context.Context, conn connect.StreamingHandlerConn) (context.Context, error) {
	return b(ctx, conn.Spec(), conn.RequestHeader())
}

// authenticate refuses calls without a valid token, except calls of public procedures. It puts the
// caller into the context of the others, unless [Server.Guard] has already done so.
func authenticate(verifier identity.Verifier, public map[string]bool) Before {
	return func(ctx context.Context, spec connect.Spec, header http.Header) (context.Context, error) {
		if public[spec.Procedure] {
			return ctx, nil
		}
		if _, known := identity.FromContext(ctx); known {
			return ctx, nil
		}
		id, err := identity.FromHeader(ctx, verifier, header)
		if err != nil {
			return nil, err
		}
		return identity.NewContext(ctx, id), nil
	}
}

// admit refuses callers of a kind that the procedure's option does not name, except for public
// procedures.
func admit(public map[string]bool) Before {
	return func(ctx context.Context, spec connect.Spec, _ http.Header) (context.Context, error) {
		if public[spec.Procedure] {
			return ctx, nil
		}
		id, _ := identity.FromContext(ctx)
		return ctx, checkKind(id, spec)
	}
}

// checkKind returns an error unless the procedure is for callers of this kind. A method without the
// option admits no caller.
func checkKind(id identity.Identity, spec connect.Spec) error {
	method, _ := spec.Schema.(protoreflect.MethodDescriptor)
	if method == nil {
		return rpcerr.New(connect.CodePermissionDenied, errorsv1.Reason_REASON_ACCESS_DENIED, "nobody may make this call")
	}
	access, _ := permission.Of(method)
	if access.Admits(callerOf(id.Kind)) {
		return nil
	}
	return rpcerr.New(connect.CodePermissionDenied, errorsv1.Reason_REASON_ACCESS_DENIED,
		"this call is not for callers with such a token; docs/reference/rights.md lists who may make it")
}

// callerOf returns the kind of caller that an identity is.
func callerOf(kind identity.Kind) optionsv1.Caller {
	switch kind {
	case identity.KindUser:
		return optionsv1.Caller_CALLER_PERSON
	case identity.KindCluster:
		return optionsv1.Caller_CALLER_AGENT
	case identity.KindService:
		return optionsv1.Caller_CALLER_SERVICE
	}
	return optionsv1.Caller_CALLER_UNSPECIFIED
}
