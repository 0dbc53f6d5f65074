// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package costs measures what single clusters cost this replica, without a time series for each of them: it counts for
// each cluster during a window, and then adds one value for each to histograms over all clusters. A cluster that costs far
// more than others shows in the highest buckets; the spans of its calls, and the metrics of its own agent, name it.
package costs

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/leatdev/leat/internal/runtime/instrument"
)

// Window is for how long the costs of a cluster are added up.
const Window = 10 * time.Minute

// Costs counts requests and bytes by cluster. A nil one counts nothing. It is safe for concurrent use.
type Costs struct {
	requests, sent metric.Float64Histogram

	mu sync.Mutex
	// byCluster has the clusters that have cost anything in the window. The callers have proven who they are, so there are
	// no more than the catalog has.
	byCluster map[string]cost
}

type cost struct{ requests, sent int64 }

// New returns Costs without any cluster. Run measures them.
func New(meter metric.Meter) (*Costs, error) {
	set := instrument.New(meter)
	c := &Costs{
		requests: set.Float64Histogram("leat.cluster.requests", "{request}",
			"Calls and downloads by the agent of one cluster at this replica in ten minutes; one value for each cluster that made any.",
			1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000),
		sent: set.Float64Histogram("leat.cluster.sent", "By",
			"Bytes of bundles and deltas that this replica sent to one cluster in ten minutes; one value for each cluster that made any request.",
			0, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10),
		byCluster: map[string]cost{},
	}
	return c, set.Err()
}

// Asked counts a request of a cluster.
func (c *Costs) Asked(cluster string) { c.add(cluster, cost{requests: 1}) }

// Sent counts bytes that a cluster was sent.
func (c *Costs) Sent(cluster string, bytes int64) { c.add(cluster, cost{sent: bytes}) }

func (c *Costs) add(cluster string, more cost) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.byCluster[cluster]
	c.byCluster[cluster] = cost{requests: now.requests + more.requests, sent: now.sent + more.sent}
}

// Run records the costs at the end of each window until ctx is done, and returns its cause. The window that ctx ends is not
// recorded, because it is shorter.
func (c *Costs) Run(ctx context.Context) error {
	ticker := time.NewTicker(Window)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
			c.record(ctx)
		}
	}
}

func (c *Costs) record(ctx context.Context) {
	c.mu.Lock()
	all := c.byCluster
	c.byCluster = map[string]cost{}
	c.mu.Unlock()
	for _, one := range all {
		c.requests.Record(ctx, float64(one.requests))
		c.sent.Record(ctx, float64(one.sent))
	}
}
