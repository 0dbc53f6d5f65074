// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package bench_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/leatdev/leat/bench/internal/edge"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
)

const (
	// tabs is how many pages of the web UI are open, and differentTabs how many different lists they
	// show. People of a team look at the same few lists.
	tabs, differentTabs = 100, 10
	// tabWindow is the number of rows that a page asks for.
	tabWindow = 200
	// tabLooks is how often each page asks for its window again, to measure how long that takes.
	tabLooks = 10
)

// measureTabs reports what the hub uses while pages of the web UI show lists of an idle fleet: each has asked for its
// window once, and follows it by a stream. It also reports how long a window takes with all of them open.
func (h *hub) measureTabs(b *testing.B) {
	ctx, stop := context.WithCancel(b.Context())
	var open errgroup.Group
	defer func() {
		stop()
		_ = open.Wait() // they end as the context does
	}()
	clients := make([]fleetv1connect.QueryServiceClient, tabs)
	for i := range tabs {
		to := edge.Connect(b, h.distributor.url, edge.AdminToken)
		clients[i] = fleetv1connect.NewQueryServiceClient(to.HTTP, to.BaseURL, to.Options...)
	}
	none, _ := h.distributor.Memory(b)
	h.look(b, clients[:1]) // the first question makes the index of the fleet, which all later ones share
	before, _ := h.distributor.Memory(b)
	var shown sync.WaitGroup
	for i := range tabs {
		shown.Add(1)
		open.Go(func() error { return follow(ctx, clients[i], listOf(i), shown.Done) })
	}
	shown.Wait()
	took := h.look(b, clients)
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-window-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-window-ms")
	h.measureIdle(b)
	after, _ := h.distributor.Memory(b)
	b.ReportMetric(float64((before-none)>>20), "index-MiB")
	b.ReportMetric(float64((after-before)>>10)/tabs, "KiB/tab")
}

// listOf returns the list that a page shows.
func listOf(tab int) *fleetv1.FleetQuery {
	return &fleetv1.FleetQuery{
		Kind: "Service", Filter: fmt.Sprintf("cluster=cluster-*%d", tab%differentTabs), Order: "-since", Size: tabWindow,
		GroupBy: []string{"phase"},
	}
}

// follow follows a list until the context ends, and calls shown when it has the window.
func follow(
	ctx context.Context, client fleetv1connect.QueryServiceClient, query *fleetv1.FleetQuery, shown func(),
) error {
	once := sync.OnceFunc(shown)
	defer once() // a stream that fails must not hang the benchmark: the windows that follow then fail
	stream, err := client.WatchQuery(ctx, &fleetv1.WatchQueryRequest{Query: query})
	if err != nil {
		return err
	}
	defer stream.Close()
	for stream.Receive() {
		once()
	}
	return stream.Err()
}

// look has each page ask for its window again, one page after the other, and returns how long each answer took.
func (h *hub) look(b *testing.B, clients []fleetv1connect.QueryServiceClient) []time.Duration {
	b.Helper()
	var took []time.Duration
	for range tabLooks {
		for i, client := range clients {
			begun := time.Now()
			answer, err := client.QueryFleet(b.Context(), &fleetv1.QueryFleetRequest{Query: listOf(i)})
			if err != nil || len(answer.GetRows()) == 0 {
				b.Fatalf("window of page %d: got %d rows, %v", i, len(answer.GetRows()), err)
			}
			took = append(took, time.Since(begun))
		}
	}
	return took
}
