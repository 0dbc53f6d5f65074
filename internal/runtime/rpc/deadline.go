// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"context"
	"time"
)

const (
	// shaveShare is the divisor of the caller's time that is reserved for the way back: a twentieth
	// of it.
	shaveShare = 20
	maxShave   = 250 * time.Millisecond
)

// shave ends the handler's context shortly before the caller stops waiting, so that the caller
// receives a DEADLINE_EXCEEDED instead of nothing. Calls without a deadline still have none.
func shave(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, found := ctx.Deadline()
	if !found {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, deadline.Add(-min(time.Until(deadline)/shaveShare, maxShave)))
}
