// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package bundles

import (
	"context"
	"errors"

	"github.com/leatdev/leat/internal/cas"
	"github.com/leatdev/leat/internal/digest"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
	"github.com/leatdev/leat/services/distributor/internal/resolve"
)

// Reasons why a bundle cannot be had, beside those of the upstream.
const (
	ReasonMismatch catalog.Reason = "DIGEST_MISMATCH"
	ReasonFull     catalog.Reason = "STORAGE_FULL"
	ReasonTooLarge catalog.Reason = "BUNDLE_TOO_LARGE"
	// ReasonInternal is a defect of the hub. A token of the hub's own that is refused upstream is
	// one.
	ReasonInternal catalog.Reason = "INTERNAL"
)

// ReasonOf returns why a bundle cannot be had. The error is one of [Cache].
func ReasonOf(err error) catalog.Reason {
	switch {
	case errors.Is(err, digest.ErrMismatch), errors.Is(err, cas.ErrCorrupt):
		return ReasonMismatch
	case errors.Is(err, cas.ErrFull), errors.Is(err, cas.ErrNotFound):
		return ReasonFull
	case errors.Is(err, cas.ErrTooLarge):
		return ReasonTooLarge
	case errors.Is(err, context.DeadlineExceeded):
		return catalog.ReasonDependencyUnavailable
	}
	failure, ok := errors.AsType[*resolve.Failure](err)
	switch {
	case !ok || failure.Reason == "TOKEN_INVALID":
		return ReasonInternal
	case failure.Reason.Passing():
		return catalog.ReasonDependencyUnavailable
	}
	return failure.Reason
}
