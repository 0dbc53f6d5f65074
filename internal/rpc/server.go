// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package rpc is the one way in which Leat's services speak Connect: the interceptors that every handler has, and the
// constructor of every client.
package rpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"

	"connectrpc.com/connect"

	"github.com/leatdev/leat/internal/identity"
	"github.com/leatdev/leat/internal/rpcerr"
	"github.com/leatdev/leat/internal/telemetry"
)

const (
	// MaxMessageBytes is the largest message that a handler reads or writes, after decompression. What may be larger is
	// a stream of chunks, or in pages.
	MaxMessageBytes = 8 << 20

	// compressFromBytes leaves alone what gzip would make hardly smaller.
	compressFromBytes = 1 << 10
)

// ServerParams is what [HandlerOptions] needs.
type ServerParams struct {
	Telemetry *telemetry.Telemetry
	Logger    *slog.Logger
	// Verifier judges the callers' bearer tokens.
	Verifier identity.Verifier
	// Public lists the procedures that need no token, such as "/leat.distributor.v1.DistributorService/Enroll". A token
	// that comes with such a call is not looked at.
	Public []string
}

// HandlerOptions returns the options for every Connect handler of a service.
//
// The interceptors, outermost first, and why in this order:
//
//  1. telemetry: sees each call as the caller does, with the final code; all others run inside its span, so that what
//     they log carries its trace id;
//  2. deadline: above errors, which must know whether it was the caller's time that ran out or a limit of our own;
//  3. errors: maps what comes out of everything below, so that nothing unmapped can pass;
//  4. panics: right under it, so that a panic in any of those below is mapped and logged like other defects;
//  5. identity: last, so that a handler never runs without it.
//
// The message limits are enforced by Connect before any of them.
func HandlerOptions(params ServerParams) ([]connect.HandlerOption, error) {
	observer, err := newObserver(params.Telemetry)
	if err != nil {
		return nil, err
	}
	return []connect.HandlerOption{
		connect.WithReadMaxBytes(MaxMessageBytes),
		connect.WithSendMaxBytes(MaxMessageBytes),
		connect.WithCompressMinBytes(compressFromBytes),
		connect.WithInterceptors(observer, deadlineInterceptor{}, &errorInterceptor{logger: params.Logger}),
		connect.WithRecover(recovered),
		connect.WithInterceptors(newIdentityInterceptor(params.Verifier, params.Public)),
	}, nil
}

// errorInterceptor lets out only errors that are fit for callers.
type errorInterceptor struct {
	logger *slog.Logger
}

func (i *errorInterceptor) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
		response, err := next(ctx, request)
		if err != nil {
			return nil, i.redact(ctx, request.Spec(), err)
		}
		return response, nil
	}
}

func (*errorInterceptor) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

func (i *errorInterceptor) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		if err := next(ctx, conn); err != nil {
			return i.redact(ctx, conn.Spec(), err)
		}
		return nil
	}
}

func (i *errorInterceptor) redact(ctx context.Context, spec connect.Spec, err error) error {
	logger := i.logger.With(slog.String("procedure", spec.Procedure))
	if panicked, ok := asPanic(err); ok {
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

func asPanic(err error) (*panicError, bool) {
	return errors.AsType[*panicError](err)
}

func recovered(_ context.Context, _ connect.Spec, _ http.Header, value any) error {
	return &panicError{value: value, stack: string(debug.Stack())}
}
