// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package recorder tells the journal where changes come from. Its interceptor stands between the
// authentication of a caller and the handlers of the fleet API: every call that is not a read
// carries its origin from there on, and leaves a record if it is refused. A call without an
// identity, such as one that signs a person in, leaves none: strangers could fill the records.
package recorder

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"connectrpc.com/connect"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/proto"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	"github.com/leatdev/leat/internal/audit"
	"github.com/leatdev/leat/internal/identity"
	"github.com/leatdev/leat/internal/reason"
	"github.com/leatdev/leat/internal/rpcerr"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
)

const (
	// HeaderReason holds why the caller makes a change, percent-encoded.
	HeaderReason = "Leat-Reason"
	// maxReason bounds the reason in bytes, after it is decoded.
	maxReason = 500
)

// Journal records what changes do not record themselves; journal.Journal implements it.
type Journal interface {
	// Refuse records a call that was refused.
	Refuse(ctx context.Context, origin catalog.Origin, why reason.Reason)
	// SignIn records that an API token was exchanged for an access token.
	SignIn(ctx context.Context, origin catalog.Origin, audience string)
}

// Interceptor returns the interceptor. It needs the caller's identity in the context. A call whose
// reason is malformed is refused before its handler runs.
func Interceptor(journal Journal) connect.Interceptor {
	return connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
			spec := request.Spec()
			if _, isKnown := identity.FromContext(ctx); !isKnown || spec.IdempotencyLevel == connect.IdempotencyNoSideEffects {
				return next(ctx, request)
			}
			message, _ := request.Any().(proto.Message)
			origin := originOf(ctx, spec, request.Peer(), request.Header())
			origin.Asked = targetOf(spec.Procedure, message)
			var response connect.AnyResponse
			var err error
			if origin.Reason, err = reasonOf(request.Header().Values(HeaderReason)); err == nil {
				response, err = next(catalog.WithOrigin(ctx, origin), request)
			}
			if err != nil {
				origin.Asked = refusedTarget(origin.Asked, message, err)
				journal.Refuse(ctx, origin, reason.FromNumber(int32(rpcerr.ReasonOf(err))))
				return nil, err
			}
			if spec.Procedure == fleetv1connect.FleetServiceCreateAccessTokenProcedure {
				asked, _ := message.(*fleetv1.CreateAccessTokenRequest)
				journal.SignIn(ctx, origin, cmp.Or(asked.GetAudience(), identity.ServiceDistributor))
			}
			return response, nil
		}
	})
}

// Anonymous returns a context whose changes come from the call of the context, for a handler whose
// callers have no identity yet. The changes are the hub's own.
func Anonymous(ctx context.Context) context.Context {
	call, ok := connect.CallInfoForHandlerContext(ctx)
	if !ok {
		return ctx
	}
	return catalog.WithOrigin(ctx, originOf(ctx, call.Spec(), call.Peer(), call.RequestHeader()))
}

// originOf returns where a call comes from, without the reason.
func originOf(ctx context.Context, spec connect.Spec, peer connect.Peer, header http.Header) catalog.Origin {
	id, _ := identity.FromContext(ctx)
	origin := catalog.Origin{
		Subject: id.Subject(), SubjectUID: id.UID, TokenID: id.TokenID, Credential: cmp.Or(id.Credential, id.TokenID), Claims: id.Claims,
		SourceAddress: peer.Addr, UserAgent: header.Get("User-Agent"), Procedure: spec.Procedure,
		RequestID: audit.NewID(),
	}
	origin.TraceID = origin.RequestID
	if span := trace.SpanContextFromContext(ctx); span.HasTraceID() {
		origin.TraceID = span.TraceID().String()
	}
	return origin
}

// reasonOf reads the header. A caller may send it once, with at most maxReason printable bytes. It
// looks at no more than three times as many.
func reasonOf(values []string) (string, error) {
	switch {
	case len(values) == 0 || len(values) == 1 && values[0] == "":
		return "", nil
	case len(values) > 1:
		return "", rpcerr.Field(HeaderReason, "was sent several times")
	case len(values[0]) > 3*maxReason:
		return "", rpcerr.Field(HeaderReason, tooLong)
	}
	text, err := url.PathUnescape(values[0])
	switch {
	case err != nil:
		return "", rpcerr.Field(HeaderReason, "is not percent-encoded; write a percent sign as %25")
	case len(text) > maxReason:
		return "", rpcerr.Field(HeaderReason, tooLong)
	case !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }):
		return "", rpcerr.Field(HeaderReason, "holds characters that cannot be printed; write one line of UTF-8")
	}
	return strings.TrimSpace(text), nil
}

const tooLong = "is longer than 500 bytes; name a ticket that holds the rest"
