// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package bundles

import (
	"context"
	"errors"
	"time"

	"connectrpc.com/connect"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	"github.com/leatdev/leat/internal/cas"
	"github.com/leatdev/leat/internal/digest"
	"github.com/leatdev/leat/internal/rpcerr"
	"github.com/leatdev/leat/services/distributor/internal/resolve"
)

// retryAfter is how long to wait when whatever stands in the way does not say.
const retryAfter = 5 * time.Second

// problem is why a bundle cannot be handed out, as the caller is told.
type problem struct {
	code    connect.Code
	reason  errorsv1.Reason
	message string
	options []rpcerr.Option
}

// name returns the reason without its prefix, for metrics.
func (p problem) name() string { return p.reason.String()[len("REASON_"):] }

// rpc returns the error to answer with. What has no answer of its own passes unmapped, as a defect.
func (p problem) rpc(cause error) error {
	if p.reason == errorsv1.Reason_REASON_INTERNAL {
		return cause
	}
	return rpcerr.New(p.code, p.reason, p.message, p.options...)
}

func problemOf(err error) problem {
	switch {
	case errors.Is(err, digest.ErrMismatch), errors.Is(err, cas.ErrCorrupt):
		return problem{
			connect.CodeDataLoss, errorsv1.Reason_REASON_DIGEST_MISMATCH,
			"the bytes that were received are not what the digest says; they were dropped; try again", nil,
		}
	case errors.Is(err, cas.ErrFull):
		return problem{
			connect.CodeResourceExhausted, errorsv1.Reason_REASON_STORAGE_FULL,
			"the bundle cache has no room: its disk is full, or its bound is taken up by what plans name; an operator must give it room", nil,
		}
	case errors.Is(err, cas.ErrTooLarge):
		return problem{
			connect.CodeResourceExhausted, errorsv1.Reason_REASON_BUNDLE_TOO_LARGE,
			"the bundle is larger than the cache takes; split the folder, or raise the limit", nil,
		}
	case errors.Is(err, cas.ErrNotFound):
		return problem{
			connect.CodeUnavailable, errorsv1.Reason_REASON_STORAGE_FULL,
			"the bundle was evicted as soon as it was fetched; an operator must give the cache room",
			[]rpcerr.Option{rpcerr.RetryAfter(retryAfter)},
		}
	case errors.Is(err, context.DeadlineExceeded):
		return unavailable(retryAfter)
	}
	if failure, ok := errors.AsType[*resolve.Failure](err); ok {
		return upstreamProblem(failure)
	}
	return problem{reason: errorsv1.Reason_REASON_INTERNAL}
}

func upstreamProblem(f *resolve.Failure) problem {
	if f.Reason.Passing() {
		return unavailable(max(f.RetryAfter, time.Second))
	}
	reason, known := errorsv1.Reason_value["REASON_"+string(f.Reason)]
	if !known || reason == int32(errorsv1.Reason_REASON_INTERNAL) || reason == int32(errorsv1.Reason_REASON_TOKEN_INVALID) {
		return problem{reason: errorsv1.Reason_REASON_INTERNAL}
	}
	return problem{connect.CodeFailedPrecondition, errorsv1.Reason(reason), f.Message, nil}
}

func unavailable(after time.Duration) problem {
	return problem{
		connect.CodeUnavailable, errorsv1.Reason_REASON_DEPENDENCY_UNAVAILABLE,
		"the repository cache does not answer",
		[]rpcerr.Option{rpcerr.With("dependency", "gitcache"), rpcerr.RetryAfter(after)},
	}
}
