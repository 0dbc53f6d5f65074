// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package rpcerr

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"time"

	"connectrpc.com/connect"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
)

const (
	// retryUnavailable is how long callers are asked to wait when a dependency suggested no delay.
	retryUnavailable = time.Second
	// retryRefused is how long they are asked to wait while parts of the hub refuse each other's tokens.
	retryRefused = 5 * time.Second
)

// internalMessage is everything that a caller learns of a defect, besides the error id.
const internalMessage = "internal error; the server's log has the cause under this error_id"

// Redact returns the error that may leave the server for err, the outcome of a call with the
// context ctx. Errors that carry a reason pass unchanged, even if wrapped. The caller's own
// cancellation and deadline get their reasons, as do Connect's own errors about sizes, codes and
// connections. Another service's refusal of this one's token becomes HUB_TOKEN_REFUSED. A 304, which
// Connect has handlers return as an error, passes, too. Everything else becomes INTERNAL with a fixed text and an error id; its cause is logged here, once, under that
// id.
func Redact(ctx context.Context, logger *slog.Logger, err error) *connect.Error {
	if err == nil {
		return nil
	}
	if typed := typedOf(err); typed != nil {
		return typed
	}
	if answer := notModified(err); answer != nil {
		return answer
	}
	if IsRefusedToken(err) {
		return hubTokenRefused(ctx, logger, err)
	}
	switch code := codeOf(err); {
	case code == connect.CodeCanceled && ctx.Err() != nil, code == connect.CodeDeadlineExceeded && isLate(ctx):
		return callersOwn(ctx)
	case code == connect.CodeInvalidArgument:
		return New(code, errorsv1.Reason_REASON_FIELD_INVALID, "the request is malformed")
	case code == connect.CodeResourceExhausted:
		return New(code, errorsv1.Reason_REASON_MESSAGE_TOO_LARGE, "the request or its answer is larger than allowed")
	case code == connect.CodeUnimplemented:
		return New(code, errorsv1.Reason_REASON_UNIMPLEMENTED, "this server does not offer the call")
	case code == connect.CodeUnavailable, code == connect.CodeDeadlineExceeded:
		return dependencyUnavailable(ctx, logger, err)
	}
	return Internal(ctx, logger, err)
}

// notModified returns the handler's own answer to a conditional GET, or nil if err is something
// else.
func notModified(err error) *connect.Error {
	answer, ok := errors.AsType[*connect.Error](err)
	if !ok || !connect.IsNotModifiedError(answer) || connect.IsWireError(answer) {
		return nil
	}
	return answer
}

// isLate reports whether the deadline has passed. This also holds in the moment between the
// deadline and the context's timer, when a connection with the same deadline has timed out already.
func isLate(ctx context.Context) bool {
	deadline, found := ctx.Deadline()
	return found && !time.Now().Before(deadline)
}

// callersOwn returns the error for a context that the caller has ended, or nil.
func callersOwn(ctx context.Context) *connect.Error {
	if isLate(ctx) {
		return New(connect.CodeDeadlineExceeded, errorsv1.Reason_REASON_DEADLINE_EXCEEDED,
			"the deadline passed before the work was done; retry with more time")
	}
	return New(connect.CodeCanceled, errorsv1.Reason_REASON_CANCELED, "the caller gave up")
}

// dependencyUnavailable returns the error for a failed connection, or for a time limit of our own
// that passed while the caller was still waiting. The cause names addresses, so it stays in the
// log.
func dependencyUnavailable(ctx context.Context, logger *slog.Logger, cause error) *connect.Error {
	logger.WarnContext(ctx, "dependency unavailable", slog.Any("error", cause))
	return New(connect.CodeUnavailable, errorsv1.Reason_REASON_DEPENDENCY_UNAVAILABLE,
		"a service that this one depends on does not answer; retry", RetryAfter(retryUnavailable))
}

// hubTokenRefused returns the error for a call of another service that has refused this one's token. It
// is logged as an error, because a person has to repair it.
func hubTokenRefused(ctx context.Context, logger *slog.Logger, cause error) *connect.Error {
	logger.ErrorContext(ctx, "another part of the hub refuses this one's token", slog.Any("error", cause))
	return New(connect.CodeUnavailable, errorsv1.Reason_REASON_HUB_TOKEN_REFUSED,
		RefusedToken("a part of the hub", "another one", cause)+"; an operator of the hub has to repair this; retry", RetryAfter(retryRefused))
}

// Internal returns the INTERNAL error for a defect and logs its cause with attrs, once, under a new
// error id.
func Internal(ctx context.Context, logger *slog.Logger, cause error, attrs ...slog.Attr) *connect.Error {
	id := rand.Text()
	attrs = append([]slog.Attr{slog.String(MetadataErrorID, id), slog.Any("error", cause)}, attrs...)
	logger.LogAttrs(ctx, slog.LevelError, "call failed with an internal error", attrs...)
	return New(connect.CodeInternal, errorsv1.Reason_REASON_INTERNAL, internalMessage, With(MetadataErrorID, id))
}

// typedOf returns the error with a reason in err's chain, or nil if no such error may pass to the
// caller.
//
// A refused token that came over the wire does not pass: the next service refused this service's
// own token, and the caller would be told to renew a valid token.
func typedOf(err error) *connect.Error {
	var connectErr *connect.Error
	if !errors.As(err, &connectErr) || !HasReason(connectErr) {
		return nil
	}
	if connect.IsWireError(connectErr) {
		return relay(connectErr)
	}
	return connectErr
}

// relay copies a reply of another service without its HTTP metadata, which belongs to that hop.
func relay(err *connect.Error) *connect.Error {
	if err.Code() == connect.CodeUnauthenticated {
		return nil
	}
	copied := connect.NewError(err.Code(), errors.New(err.Message()))
	for _, detail := range err.Details() {
		copied.AddDetail(detail)
	}
	return copied
}
