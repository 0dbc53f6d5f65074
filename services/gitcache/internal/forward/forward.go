// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package forward has what replicas of gitcache agree on when one passes a call on to another: the
// header that marks such a call, and which errors are no answer to it.
package forward

import (
	"context"

	"connectrpc.com/connect"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// header marks a forwarded call with the text of a [mirror.Via].
const header = "Leat-Forwarded"

// Mark returns a context whose calls of another replica are marked as forwarded.
func Mark(ctx context.Context, via mirror.Via) context.Context {
	ctx, info := connect.NewClientContext(ctx)
	info.RequestHeader().Set(header, string(via))
	return ctx
}

// Via returns how the call that ctx belongs to came to this replica.
func Via(ctx context.Context) mirror.Via {
	info, ok := connect.CallInfoForHandlerContext(ctx)
	if !ok {
		return mirror.ViaCaller
	}
	return mirror.Via(info.RequestHeader().Get(header))
}

// IsNoAnswer reports whether an error means that the replica could not be reached, does not own the
// repository any more or failed on its own, as opposed to an answer that happens to be an error.
func IsNoAnswer(err error) bool {
	if err == nil {
		return false
	}
	switch rpcerr.ReasonOf(err) {
	case errorsv1.Reason_REASON_OWNERSHIP_LOST, errorsv1.Reason_REASON_SHUTTING_DOWN, errorsv1.Reason_REASON_INTERNAL,
		errorsv1.Reason_REASON_DEADLINE_EXCEEDED, errorsv1.Reason_REASON_CANCELED: // the replica's own limits, not the caller's
		return true
	default:
		code := connect.CodeOf(err)
		return !rpcerr.HasReason(err) &&
			(code == connect.CodeUnavailable || code == connect.CodeDeadlineExceeded || code == connect.CodeUnknown)
	}
}
