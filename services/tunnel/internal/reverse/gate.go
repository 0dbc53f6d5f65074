// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reverse

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"connectrpc.com/connect"
	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
)

const (
	// maxQueue is how long a connection waits for its turn. Connections that would have to wait longer
	// are sent away, for a while that differs from one to the next.
	maxQueue  = 3 * time.Second
	maxReturn = 10 * time.Second
	// clusterRate and clusterBurst bound the connections that one cluster's agent opens. They are
	// far above what an agent needs, and low enough that no agent uses up the turns of the others.
	clusterRate, clusterBurst = 4, 128
	// maxClusters bounds the clusters whose connections are counted. The least recently connected
	// is evicted first.
	maxClusters = 20_000
)

// Gate bounds how many connections agents may open in a second, all together and each. When a
// replica dies, all of its agents connect at once, and each connection costs a look-up of its route
// and a handshake. Only authenticated agents pass the gate, so that no other caller uses up a turn.
// It is safe for concurrent use.
type Gate struct {
	limiter *rate.Limiter

	mu       sync.Mutex
	clusters *lru.Cache[string, *rate.Limiter]
}

// NewGate returns a gate for so many connections a second, a tenth of which may come at once: in no
// second are there more than a tenth too many.
func NewGate(perSecond int) (*Gate, error) {
	clusters, err := lru.New[string, *rate.Limiter](maxClusters)
	if err != nil {
		return nil, fmt.Errorf("count connections of clusters: %w", err)
	}
	return &Gate{limiter: rate.NewLimiter(rate.Limit(perSecond), max(1, perSecond/10)), clusters: clusters}, nil
}

// pass blocks until it is the turn of a cluster's agent. It fails with RATE_LIMITED if the wait
// would be too long.
func (g *Gate) pass(ctx context.Context, cluster string) error {
	if !g.of(cluster).Allow() {
		return rateLimited("this cluster's agent connects too often; connect again later")
	}
	turn := g.limiter.Reserve()
	delay := turn.Delay()
	if delay > maxQueue {
		turn.Cancel()
		return rateLimited("too many agents connect at once; connect again later")
	}
	if backoff.Wait(ctx, delay) != nil {
		turn.Cancel()
		return ctx.Err()
	}
	return nil
}

// of returns the limiter for one cluster.
func (g *Gate) of(cluster string) *rate.Limiter {
	g.mu.Lock()
	defer g.mu.Unlock()
	limiter, ok := g.clusters.Get(cluster)
	if !ok {
		limiter = rate.NewLimiter(clusterRate, clusterBurst)
		g.clusters.Add(cluster, limiter)
	}
	return limiter
}

// rateLimited returns an error that asks the caller to retry after a random time.
func rateLimited(message string) error {
	return rpcerr.New(connect.CodeResourceExhausted, errorsv1.Reason_REASON_RATE_LIMITED, message,
		rpcerr.RetryAfter(time.Second+rand.N(maxReturn)))
}
