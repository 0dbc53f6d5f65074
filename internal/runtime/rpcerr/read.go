// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package rpcerr

import (
	"context"
	"errors"
	"maps"
	"os"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	"github.com/leatdev/leat/internal/kit/backoff"
)

const reasonPrefix = "REASON_"

// ReasonOf returns why a call failed. An error without a reason, because the client itself or an
// intermediary made it, gets the reason that its code implies, or REASON_INTERNAL if the code
// implies none. A nil error has REASON_UNSPECIFIED.
func ReasonOf(err error) errorsv1.Reason {
	if err == nil {
		return errorsv1.Reason_REASON_UNSPECIFIED
	}
	if info := infoOf(err); info != nil {
		return parseReason(info.GetReason())
	}
	return reasonOfCode(codeOf(err))
}

// HasReason reports whether the error itself carries a reason, as opposed to one guessed from its
// code.
func HasReason(err error) bool {
	return infoOf(err) != nil
}

// IsRefusedToken reports whether the error of a call of this service is that the other service refuses this one's own
// token. The caller of this service can do nothing about it, and its own token is good.
func IsRefusedToken(err error) bool {
	refusal, ok := errors.AsType[*connect.Error](err)
	return ok && refusal.Code() == connect.CodeUnauthenticated && connect.IsWireError(refusal)
}

// RefusedToken returns the sentence for people about the error of a call for which [IsRefusedToken] is true. peer is the
// service that was called, and caller this one, both as people call them.
func RefusedToken(peer, caller string, err error) string {
	why := "the clocks of their machines differ, or one does not know the other's key"
	if HasReason(err) {
		why = Message(err)
	}
	return peer + " refuses the token of " + caller + ": " + why
}

// Metadata returns a copy of the reason's metadata, empty when the error carries none.
func Metadata(err error) map[string]string {
	if info := infoOf(err); info != nil && info.GetMetadata() != nil {
		return maps.Clone(info.GetMetadata())
	}
	return map[string]string{}
}

// RetryDelay returns how long the server asks to wait before the next try, and false if it does not
// ask.
func RetryDelay(err error) (time.Duration, bool) {
	info := findDetail[*errdetails.RetryInfo](err, func(*errdetails.RetryInfo) bool { return true })
	if info.GetRetryDelay() == nil {
		return 0, false
	}
	return info.GetRetryDelay().AsDuration(), true
}

// Paced returns err in a form that [backoff.Policy.After] and [backoff.Retry] obey: with the delay
// that the server asks for, if any.
func Paced(err error) error {
	if delay, ok := RetryDelay(err); ok {
		return backoff.RetryAfter(err, delay)
	}
	return err
}

// Message returns the sentence for people: the message without the code that Error puts before it.
func Message(err error) string {
	if err == nil {
		return ""
	}
	if connectErr, found := errors.AsType[*connect.Error](err); found {
		return connectErr.Message()
	}
	return err.Error()
}

func infoOf(err error) *errdetails.ErrorInfo {
	return findDetail(err, func(info *errdetails.ErrorInfo) bool { return info.GetDomain() == Domain })
}

func findDetail[T any](err error, accept func(T) bool) (found T) {
	var connectErr *connect.Error
	if !errors.As(err, &connectErr) {
		return found
	}
	for _, detail := range connectErr.Details() {
		value, err := detail.Value()
		if err != nil {
			continue // a type that this binary does not know cannot be the one it looks for
		}
		if typed, ok := value.(T); ok && accept(typed) {
			return typed
		}
	}
	return found
}

func reasonText(reason errorsv1.Reason) string {
	return strings.TrimPrefix(reason.String(), reasonPrefix)
}

// parseReason returns INTERNAL for a reason that a newer peer knows and this binary does not.
func parseReason(text string) errorsv1.Reason {
	if value, known := errorsv1.Reason_value[reasonPrefix+text]; known && value != 0 {
		return errorsv1.Reason(value)
	}
	return errorsv1.Reason_REASON_INTERNAL
}

func codeOf(err error) connect.Code {
	var connectErr *connect.Error
	switch {
	case errors.As(err, &connectErr):
		return connectErr.Code()
	case errors.Is(err, context.Canceled):
		return connect.CodeCanceled
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return connect.CodeDeadlineExceeded
	}
	return connect.CodeUnknown
}

func reasonOfCode(code connect.Code) errorsv1.Reason {
	switch code {
	case connect.CodeCanceled:
		return errorsv1.Reason_REASON_CANCELED
	case connect.CodeDeadlineExceeded:
		return errorsv1.Reason_REASON_DEADLINE_EXCEEDED
	case connect.CodeInvalidArgument:
		return errorsv1.Reason_REASON_FIELD_INVALID
	case connect.CodeUnauthenticated:
		return errorsv1.Reason_REASON_TOKEN_INVALID
	case connect.CodePermissionDenied:
		return errorsv1.Reason_REASON_ACCESS_DENIED
	case connect.CodeResourceExhausted:
		return errorsv1.Reason_REASON_MESSAGE_TOO_LARGE // connect's own size limit is the only source without a reason
	case connect.CodeUnavailable:
		return errorsv1.Reason_REASON_DEPENDENCY_UNAVAILABLE
	case connect.CodeUnimplemented:
		return errorsv1.Reason_REASON_UNIMPLEMENTED
	case connect.CodeUnknown, connect.CodeNotFound, connect.CodeAlreadyExists, connect.CodeFailedPrecondition,
		connect.CodeAborted, connect.CodeOutOfRange, connect.CodeInternal, connect.CodeDataLoss:
	}
	return errorsv1.Reason_REASON_INTERNAL
}
