// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"time"

	"connectrpc.com/connect"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	"github.com/leatdev/leat/internal/contract/cas"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/distributor/internal/delivery/bundles"
	"github.com/leatdev/leat/services/distributor/internal/delivery/resolve"
)

// bundleRetry is how long a caller waits for a bundle if the obstacle has no time.
const bundleRetry = 5 * time.Second

// BundleError returns the error to answer with for an error of the bundle cache. An error that has no
// answer of its own passes unchanged, as a defect.
func BundleError(err error) error {
	why := bundles.ReasonOf(err)
	switch {
	case why == reason.Internal:
		return err
	case why == reason.DigestMismatch:
		return refusal(connect.CodeDataLoss, why,
			"the bytes that were received are not what the digest says; they were dropped; try again")
	case errors.Is(err, cas.ErrFull):
		return refusal(connect.CodeResourceExhausted, why,
			"the bundle cache has no room: its disk is full, or its bound is taken up by what plans name; an operator must give it room")
	case why == reason.StorageFull:
		return refusal(connect.CodeUnavailable, why,
			"the bundle was evicted as soon as it was fetched; an operator must give the cache room", rpcerr.RetryAfter(bundleRetry))
	case why == reason.BundleTooLarge:
		return refusal(connect.CodeResourceExhausted, why,
			"the bundle is larger than the cache takes; split the folder, or raise the limit")
	}
	failure, isUpstreams := errors.AsType[*resolve.Failure](err)
	if why == reason.DependencyUnavailable {
		after := bundleRetry
		if isUpstreams {
			after = max(failure.RetryAfter, time.Second)
		}
		return refusal(connect.CodeUnavailable, why, "the repository cache does not answer",
			rpcerr.With("dependency", "gitcache"), rpcerr.RetryAfter(after))
	}
	if !isUpstreams || why == 0 {
		return err
	}
	if why == reason.HubTokenRefused {
		return refusal(connect.CodeUnavailable, why, failure.Message, rpcerr.With("dependency", "gitcache"),
			rpcerr.RetryAfter(max(failure.RetryAfter, bundleRetry)))
	}
	return refusal(connect.CodeFailedPrecondition, why, failure.Message)
}

func refusal(code connect.Code, why reason.Reason, message string, options ...rpcerr.Option) error {
	return rpcerr.New(code, errorsv1.Reason(why), message, options...)
}
