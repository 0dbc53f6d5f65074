// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"flag"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/testkit/redistest"
)

var stormAgents = flag.Int("tunnel.storm", 5_000, "agents on the replica that dies in BenchmarkStorm")

// BenchmarkStorm kills one of two replicas, and reports when all of its agents are connected to the
// other, how many connections that one accepted in each second, and how many attempts it refused.
// "Per operation" is the time until all are back. Run it with -benchtime 1x.
func BenchmarkStorm(b *testing.B) {
	shared := newBench(b)
	d := startDistributor(b)
	first, second := shared.pair(b, d)
	back := &arrivals{}
	var both atomic.Bool // until then agents use only the first replica
	answers := lightHandler()
	connectAll(b, *stormAgents, func(i int) *light {
		return &light{
			cluster: clusterName(i), token: d.token(b, clusterIdentity(clusterName(i))),
			replicas: func() []string {
				if both.Load() {
					return []string{first.address, second.address}
				}
				return []string{first.address}
			},
			tls: shared.agentTLS(), handler: answers, connected: back.arrive, refused: back.turnAway,
		}
	})
	<-time.After(*settling)
	spent := second.CPU(b)
	both.Store(true)
	back.begin()
	first.Kill()
	all := back.await(b, *stormAgents)
	since := func(q float64) float64 { return quantile(all, q).Seconds() }
	b.ReportMetric(float64(all[len(all)-1]), "ns/op")
	b.ReportMetric(since(0.5), "50%-back-s")
	b.ReportMetric(since(0.99), "99%-back-s")
	b.ReportMetric(since(1), "all-back-s")
	b.ReportMetric(float64(perSecond(all)), "peak-conn/s")
	b.ReportMetric(float64(len(all))/all[len(all)-1].Seconds(), "mean-conn/s")
	b.ReportMetric(float64(back.turnedAway()), "turned-away")
	b.ReportMetric((second.CPU(b) - spent).Seconds(), "hub-cpu-s")
}

// pair starts two replicas that share routes.
func (s *bench) pair(b *testing.B, d *distributor) (first, second *replica) {
	b.Helper()
	redis := redistest.Start(b).URL()
	return s.hub(b, d, true, redis), s.hub(b, d, true, redis)
}

// arrivals records when agents are back.
type arrivals struct {
	mu      sync.Mutex
	begun   time.Time
	since   []time.Duration
	refused int
}

func (a *arrivals) begin() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.begun, a.since, a.refused = time.Now(), nil, 0
}

func (a *arrivals) arrive() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.since = append(a.since, time.Since(a.begun))
}

func (a *arrivals) turnAway() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refused++
}

func (a *arrivals) turnedAway() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.refused
}

// stormPatience is longer than any storm should last.
const stormPatience = 10 * time.Minute

// await returns when n agents are back, with the sorted times since the beginning.
func (a *arrivals) await(b *testing.B, n int) []time.Duration {
	b.Helper()
	for deadline := time.Now().Add(stormPatience); time.Now().Before(deadline); <-time.After(100 * time.Millisecond) {
		a.mu.Lock()
		back := slices.Clone(a.since)
		a.mu.Unlock()
		if len(back) >= n {
			slices.Sort(back)
			return back[:n]
		}
	}
	b.Fatalf("not all agents were back after %v", stormPatience)
	return nil
}

// perSecond returns the largest number in any one second.
func perSecond(sorted []time.Duration) int {
	most, first := 0, 0
	for last, at := range sorted {
		for at-sorted[first] >= time.Second {
			first++
		}
		most = max(most, last-first+1)
	}
	return most
}
