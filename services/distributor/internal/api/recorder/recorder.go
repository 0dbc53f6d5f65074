// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package recorder tells the journal where changes come from. Its interceptor comes between the
// authentication of a caller and the handlers of the fleet API: every call that is not a read
// carries its origin from there on, and leaves a record if it is refused. A call without an
// identity, such as one that signs a person in, leaves none: strangers could fill the records.
//
// Of the user [catalog.BreakGlassUser], reads and streams leave records, too, before they are carried
// out, and each call is logged and counted.
package recorder

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"connectrpc.com/connect"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/proto"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/runtime/audit"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/instrument"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
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
	// Use records a read that is about to be carried out. The error matches catalog.ErrUnrecorded: it
	// must not be carried out then.
	Use(ctx context.Context, origin catalog.Origin) error
}

// Params are the arguments of [New], all required.
type Params struct {
	Journal Journal
	// Limits describes what an API token is limited to, by the credential of an identity.
	Limits Limits
	Logger *slog.Logger
	Meter  metric.Meter
}

// Limits describes what credentials are limited to; fleet.Accounts implements it.
type Limits interface {
	// LimitOf describes the limit of the API token that a credential stands for; empty: it has none, or
	// is not known.
	LimitOf(credential string) string
}

// Recorder is the interceptor. It needs the caller's identity in the context. A call whose reason is
// malformed is refused before its handler runs. It is safe for concurrent use.
type Recorder struct {
	p          Params
	breakGlass metric.Int64Counter
}

var _ connect.Interceptor = (*Recorder)(nil)

// New returns a Recorder.
func New(p Params) (*Recorder, error) {
	set := instrument.New(p.Meter)
	calls := set.Int64Counter("leat.distributor.break.glass.calls", "{call}", "Calls by the user break-glass, which is for emergencies.")
	instrument.Begin(calls)
	return &Recorder{p: p, breakGlass: calls}, set.Err()
}

// WrapUnary implements connect.Interceptor.
func (r *Recorder) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
		spec := request.Spec()
		id, isKnown := identity.FromContext(ctx)
		isRead := spec.IdempotencyLevel == connect.IdempotencyNoSideEffects
		if !isKnown || isRead && !isEmergency(id) {
			return next(ctx, request)
		}
		message, _ := request.Any().(proto.Message)
		origin := r.originOf(ctx, spec, request.Peer(), request.Header())
		origin.Asked = targetOf(spec.Procedure, message)
		var response connect.AnyResponse
		var err error
		if origin.Reason, err = reasonOf(request.Header().Values(HeaderReason)); err == nil {
			err = r.emergency(ctx, id, origin, isRead)
		}
		if err == nil {
			response, err = next(catalog.WithOrigin(ctx, origin), request)
		}
		if err != nil {
			origin.Asked = refusedTarget(origin.Asked, message, err)
			r.p.Journal.Refuse(ctx, origin, reason.FromNumber(int32(rpcerr.ReasonOf(err))))
			return nil, err
		}
		if spec.Procedure == fleetv1connect.FleetServiceCreateAccessTokenProcedure {
			asked, _ := message.(*fleetv1.CreateAccessTokenRequest)
			r.p.Journal.SignIn(ctx, origin, cmp.Or(asked.GetAudience(), identity.ServiceDistributor))
		}
		return response, nil
	}
}

// WrapStreamingClient implements connect.Interceptor.
func (*Recorder) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler implements connect.Interceptor. Streams are reads.
func (r *Recorder) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, stream connect.StreamingHandlerConn) error {
		if id, isKnown := identity.FromContext(ctx); isKnown && isEmergency(id) {
			origin := r.originOf(ctx, stream.Spec(), stream.Peer(), stream.RequestHeader())
			origin.Asked = targetOf(stream.Spec().Procedure, nil)
			if err := r.emergency(ctx, id, origin, true); err != nil {
				return err
			}
		}
		return next(ctx, stream)
	}
}

func isEmergency(id identity.Identity) bool {
	return id.Kind == identity.KindUser && id.Name == catalog.BreakGlassUser
}

// emergency logs and counts a call of the break-glass user. A read is put on record; any other call
// leaves records of what it changes. It does nothing for other callers.
func (r *Recorder) emergency(ctx context.Context, id identity.Identity, origin catalog.Origin, isRead bool) error {
	if !isEmergency(id) {
		return nil
	}
	r.breakGlass.Add(ctx, 1)
	r.p.Logger.WarnContext(ctx, "break-glass user calls the hub", slog.String("call", origin.Procedure),
		slog.String("source_address", origin.SourceAddress), slog.String("request_id", origin.RequestID))
	if !isRead {
		return nil
	}
	if err := r.p.Journal.Use(ctx, origin); err != nil {
		return wire.Error(err)
	}
	return nil
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
func (r *Recorder) originOf(ctx context.Context, spec connect.Spec, peer connect.Peer, header http.Header) catalog.Origin {
	origin := originOf(ctx, spec, peer, header)
	origin.TokenLimit = r.p.Limits.LimitOf(origin.Credential)
	return origin
}

// originOf returns where a call comes from, without the reason and the limit of the token.
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
// reads no more than three times as many.
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
