// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package bundles

import (
	"context"
	"errors"

	"github.com/leatdev/leat/internal/contract/cas"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/distributor/internal/delivery/resolve"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// ReasonOf returns why a bundle cannot be had. The error is one of [Cache]. Internal is a defect of
// the hub.
func ReasonOf(err error) reason.Reason {
	switch {
	case errors.Is(err, digest.ErrMismatch), errors.Is(err, cas.ErrCorrupt):
		return reason.DigestMismatch
	case errors.Is(err, cas.ErrFull), errors.Is(err, cas.ErrNotFound):
		return reason.StorageFull
	case errors.Is(err, cas.ErrTooLarge):
		return reason.BundleTooLarge
	case errors.Is(err, context.DeadlineExceeded):
		return reason.DependencyUnavailable
	}
	failure, ok := errors.AsType[*resolve.Failure](err)
	switch {
	case !ok:
		return reason.Internal
	case catalog.Passes(failure.Reason):
		return reason.DependencyUnavailable
	}
	return failure.Reason
}
