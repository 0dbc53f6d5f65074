// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package rpc is the only way in which Leat's services use Connect: the interceptors of every
// handler, and the constructor of every client.
package rpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync/atomic"

	"connectrpc.com/connect"

	"github.com/leatdev/leat/internal/contract/permission"
	"github.com/leatdev/leat/internal/kit/timeouts"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/internal/runtime/telemetry"
)

const (
	// MaxMessageBytes is the largest message that a handler reads or writes, after decompression.
	// Larger content is streamed in chunks, or paged.
	MaxMessageBytes = 8 << 20

	// compressFromBytes is the smallest message that is compressed. gzip hardly shrinks smaller
	// ones.
	compressFromBytes = 1 << 10
)

// ServerParams are the parameters of [NewServer].
type ServerParams struct {
	Telemetry *telemetry.Telemetry
	Logger    *slog.Logger
	// Verifier verifies the callers' bearer tokens.
	Verifier identity.Verifier
	// Public lists the procedures that need no token, such as
	// "/leat.distributor.v1.DistributorService/Enroll". A token in such a call is ignored.
	Public []string
	// Trusted means that every request was authenticated before it reaches the handlers. Procedures
	// then need no token, and all have the limits of authenticated callers.
	Trusted bool
}

// Server holds the state that the Connect handlers of one service share. Every handler is made with
// [Server.Options] and mounted behind [Server.Guard]:
//
//	path, handler := gitcachev1connect.NewGitCacheServiceHandler(service, server.Options()...)
//	mux.Handle(path, server.Guard(handler))
type Server struct {
	params     ServerParams
	public     map[string]bool
	procedures map[string]requests
	observer   *observer
	errors     *connect.ErrorWriter
	reading    atomic.Int64 // bytes of bodies that are being read
	// bodyTimeouts are the timeouts of bodies that are being read.
	bodyTimeouts *timeouts.Queue
}

// NewServer returns a server.
//
// The error names an RPC of Leat's without the option of its callers, if one is linked into this
// program.
func NewServer(params ServerParams) (*Server, error) {
	if _, err := permission.Procedures(); err != nil {
		return nil, err
	}
	observer, err := newObserver(params.Telemetry, params.Trusted)
	if err != nil {
		return nil, err
	}
	s := &Server{
		params: params, public: map[string]bool{}, procedures: procedures(), observer: observer, errors: connect.NewErrorWriter(),
		bodyTimeouts: timeouts.NewQueue(bodyTimeout),
	}
	for _, procedure := range params.Public {
		s.public[procedure] = true
	}
	return s, nil
}

// Options returns the options for every Connect handler of a service.
//
// The interceptors do this, outermost first, with the reason for the order. The first three are one
// interceptor:
//
//  1. telemetry: observes each call as the caller does, with the final code; all others run inside its span, so that
//     their logs carry its trace id;
//  2. deadline: above errors, which must distinguish the caller's deadline from one of our own limits;
//  3. errors: maps every error from below, so that no unmapped error reaches the caller;
//  4. panics: directly below errors, so that a panic in any interceptor below is mapped and logged like other defects;
//  5. identity: here too, so that a handler never runs without it, even where [Server.Guard] is missing;
//  6. observers: they know the caller, and see every call that is refused from here on;
//  7. kind: refuses callers of a kind that the option leat.options.v1.access of the RPC does not name.
//
// Connect enforces the message limits before any interceptor, and inflating stops at them.
func (s *Server) Options(observers ...connect.Interceptor) []connect.HandlerOption {
	options := []connect.HandlerOption{
		connect.WithReadMaxBytes(MaxMessageBytes),
		connect.WithSendMaxBytes(MaxMessageBytes),
		connect.WithCompression("gzip", newBoundedGzip, newGzipWriter),
		connect.WithCompressMinBytes(compressFromBytes),
		connect.WithConditionalHandlerOptions(s.publicOptions),
		connect.WithInterceptors(&outerInterceptor{observer: s.observer, logger: s.params.Logger}),
		connect.WithRecover(recovered),
	}
	if s.params.Trusted {
		return options
	}
	return append(options,
		connect.WithInterceptors(authenticate(s.params.Verifier, s.public)),
		connect.WithInterceptors(observers...),
		connect.WithInterceptors(admit(s.public)),
	)
}

// SmallMessages returns the options of a handler outside of a [Server], for callers that trust each
// other and send little: messages of at most 64 KiB, uncompressed.
func SmallMessages() connect.HandlerOption {
	return connect.WithHandlerOptions(connect.WithReadMaxBytes(MaxPublicBytes), connect.WithCompression("gzip", nil, nil))
}

// publicOptions returns stricter options for public procedures.
func (s *Server) publicOptions(spec connect.Spec) []connect.HandlerOption {
	if !s.public[spec.Procedure] {
		return nil
	}
	return []connect.HandlerOption{SmallMessages()}
}

// outerInterceptor is around all others. See [Server.Options] for the order of what it does.
type outerInterceptor struct {
	observer *observer
	logger   *slog.Logger
}

func (i *outerInterceptor) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
		ctx, end := i.begin(ctx, request.Spec(), request.Peer(), request.Header())
		response, err := next(ctx, request)
		if err = end(err); err != nil {
			return nil, err
		}
		return response, nil
	}
}

func (*outerInterceptor) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

func (i *outerInterceptor) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		ctx, end := i.beginStream(ctx, conn)
		return end(next(ctx, conn))
	}
}

// beginStream is begin for a stream. It is a function of its own because the stream may last for days, and would keep
// this much of its stack.
func (i *outerInterceptor) beginStream(ctx context.Context, conn connect.StreamingHandlerConn) (context.Context, func(error) error) {
	return i.begin(ctx, conn.Spec(), conn.Peer(), conn.RequestHeader())
}

// begin returns the context for the inner handler, and a function that ends the call with the error
// from there and returns the error for the caller.
func (i *outerInterceptor) begin(
	ctx context.Context, spec connect.Spec, peer connect.Peer, header http.Header,
) (context.Context, func(error) error) {
	ctx, observed := i.observer.begin(ctx, callOf(spec, peer), header)
	ctx, cancel := shave(ctx)
	return ctx, func(err error) error {
		defer cancel()
		if err != nil {
			err = redact(ctx, i.logger, spec, err)
		}
		observed(err)
		return err
	}
}

// redact returns the error that callers may see.
func redact(ctx context.Context, logger *slog.Logger, spec connect.Spec, err error) error {
	logger = logger.With(slog.String("procedure", spec.Procedure))
	if panicked, ok := errors.AsType[*panicError](err); ok {
		return rpcerr.Internal(ctx, logger, panicked, slog.String("stack", panicked.stack))
	}
	return rpcerr.Redact(ctx, logger, err)
}

// panicError is a panic on its way to the error interceptor.
type panicError struct {
	value any
	stack string
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

func recovered(_ context.Context, _ connect.Spec, _ http.Header, value any) error {
	return &panicError{value: value, stack: string(debug.Stack())}
}
