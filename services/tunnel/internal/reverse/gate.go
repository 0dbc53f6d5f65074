// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reverse

import (
	"context"
	"math/rand/v2"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/time/rate"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	"github.com/leatdev/leat/internal/rpcerr"
)

const (
	// maxQueue is how long a connection waits for its turn. Those that would have to wait for longer are sent away, for a while
	// that differs from one to the next.
	maxQueue  = 3 * time.Second
	maxReturn = 10 * time.Second
)

// Gate bounds how many connections agents may open in a second. When a replica has died, all of its agents come at once, and each
// costs a signature's check, a look-up of its route, and a handshake. It is safe for concurrent use.
type Gate struct {
	limiter *rate.Limiter
}

// NewGate returns a gate for so many connections a second, a tenth of which may come at once: in no second are there more than a
// tenth too many.
func NewGate(perSecond int) *Gate {
	return &Gate{limiter: rate.NewLimiter(rate.Limit(perSecond), max(1, perSecond/10))}
}

// pass waits for the caller's turn. It fails with RATE_LIMITED when that is too far away.
func (g *Gate) pass(ctx context.Context) error {
	turn := g.limiter.Reserve()
	delay := turn.Delay()
	if delay > maxQueue {
		turn.Cancel()
		return rpcerr.New(connect.CodeResourceExhausted, errorsv1.Reason_REASON_RATE_LIMITED,
			"too many agents connect at once; connect again later", rpcerr.RetryAfter(time.Second+rand.N(maxReturn)))
	}
	if delay == 0 {
		return nil
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		turn.Cancel()
		return ctx.Err()
	}
}
