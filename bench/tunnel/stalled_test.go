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
)

const (
	// stallBuffer is the size of the kernel's buffer for a stalled reader.
	stallBuffer = 64 << 10
	// joining is how many connections are opened at once.
	joining = 32
	// filling is how long stalled downloads may take to fill every buffer on the path. A hub may
	// end them some time later.
	filling = 12 * time.Second
)

// BenchmarkStalled requests a small object while others have begun large downloads over the same
// agent and do not read them. It reports by how much the slowest hundredth is slower than without
// stalled downloads, and how much memory hub and agent hold for them. The time of measurement is
// bounded, because a hub may end stalled downloads. Run it with -benchtime 1x.
func BenchmarkStalled(b *testing.B) {
	sides := newBench(b).sides(b, 0)
	for _, s := range sides {
		s.ask(b, s.client(b), *each) // warm up, so that the figures without stalled downloads do not include it
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

// stall begins downloads without reading them. Each has its own connection. All belong to a person
// who sends nothing else, because persons have limits. They end with ctx.
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
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+pathBulk+"?bytes="+strconv.Itoa(endless), http.NoBody)
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

// settle returns when hub and agent are almost idle, because every buffer is full.
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

// narrow returns a transport that buffers little of an unread answer, over HTTP/1.1, which has no
// windows of its own.
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
