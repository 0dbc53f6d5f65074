// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/leatdev/leat/bench/internal/parts"
)

const (
	// stallBuffer is what the kernel keeps for a reader that stands still.
	stallBuffer = 64 << 10
	// joining is how many connections are opened at once.
	joining = 32
	// filling is how long stalled downloads may take to fill every buffer on the way: a hub may end
	// them some time later.
	filling = 12 * time.Second
)

// BenchmarkStalled asks for a small object while others have begun large downloads over the same
// agent and do not read on. It tells by how much the slowest hundredth is slower than with nobody
// stalled, and what hub and agent hold for them. How long it measures is bounded: a hub may end
// downloads that stand still for long. Run it with -benchtime 1x.
func BenchmarkStalled(b *testing.B) {
	sides := newBench(b).sides(b, 0)
	for _, s := range sides {
		s.ask(b, s.client(b), *each) // what a process does at first only is not to be in the figures without stalled downloads
	}
	for range *rounds {
		idle := map[*side]time.Duration{}
		for _, stalled := range []int{0, 1, 60, 300} {
			for _, s := range sides {
				if s.getsOnly || (s.agent == nil && s.hub == nil) {
					continue
				}
				b.Run("stalled="+strconv.Itoa(stalled)+"/"+s.name, func(b *testing.B) {
					p99 := s.measureBeside(b, stalled)
					if stalled == 0 {
						idle[s] = p99
					} else if idle[s] > 0 {
						b.ReportMetric(float64(p99)/float64(idle[s]), "p99/idle")
					}
				})
			}
		}
	}
}

// measureBeside returns the latency of the slowest hundredth.
func (s *side) measureBeside(b *testing.B, stalled int) time.Duration {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	hub, _ := s.hub.Memory(b)
	agent, _ := s.agent.Memory(b)
	s.stall(ctx, b, stalled)
	if stalled > 0 {
		s.settle(b)
	}
	latencies := s.ask(b, s.client(b), *each)
	p99 := quantile(latencies, 0.99)
	hubAfter, _ := s.hub.Memory(b)
	agentAfter, _ := s.agent.Memory(b)
	b.ReportMetric(float64(quantile(latencies, 0.5)), "ns/op")
	b.ReportMetric(micro(quantile(latencies, 0.5)), "p50-µs")
	b.ReportMetric(micro(p99), "p99-µs")
	b.ReportMetric(float64(hubAfter)/MiB, "hub-MiB")
	b.ReportMetric(float64(hubAfter-hub)/MiB, "hub-grew-MiB")
	b.ReportMetric(float64(agentAfter-agent)/MiB, "agent-grew-MiB")
	return p99
}

// stall begins downloads that nobody reads. Each has a connection of its own; all belong to a
// person who asks for nothing else, since persons have limits. They end with ctx.
func (s *side) stall(ctx context.Context, b *testing.B, n int) {
	b.Helper()
	token := s.token
	if s.others != nil {
		token = s.others(b)
	}
	var group errgroup.Group
	group.SetLimit(joining)
	for range n {
		group.Go(func() error {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+parts.PathBulk+"?bytes="+strconv.Itoa(endless), http.NoBody)
			if err != nil {
				return err
			}
			authorize(request, token)
			transport := s.narrow()
			context.AfterFunc(ctx, transport.CloseIdleConnections)
			response, err := transport.RoundTrip(request)
			if err != nil {
				return err
			}
			return unexpected(response.StatusCode, nil)
		})
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
}

// settle returns when hub and agent have next to nothing to do, because every buffer is full.
func (s *side) settle(b *testing.B) {
	b.Helper()
	const look, quiet = 500 * time.Millisecond, 30 * time.Millisecond
	for began := time.Now(); time.Since(began) < filling; {
		hub, agent := s.cpu(b)
		<-time.After(look)
		hubAfter, agentAfter := s.cpu(b)
		if hubAfter-hub+agentAfter-agent <= quiet {
			return
		}
	}
	b.Logf("%s has not come to rest within %v", s.name, filling)
}

// narrow makes connections that take little of what is not read, by HTTP/1.1, which has no windows
// of its own.
func (s *side) narrow() *http.Transport {
	return &http.Transport{
		TLSClientConfig: s.trusted.Clone(), DisableCompression: true, MaxResponseHeaderBytes: 64 << 10,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			tcp, ok := conn.(*net.TCPConn)
			if !ok {
				return conn, nil
			}
			return tcp, tcp.SetReadBuffer(stallBuffer)
		},
	}
}
