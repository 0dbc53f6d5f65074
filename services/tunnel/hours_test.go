// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/testkit/chaos"
	"github.com/leatdev/leat/services/tunnel"
	"github.com/leatdev/leat/services/tunnel/internal/agenttest"
)

// TestF27TenMinutesBehindALoadBalancer has a load balancer in between that lets no PING frame pass
// and ends connections that are silent for 30 s. Neither the agent's connection nor a silent watch
// ends within ten minutes.
func TestF27TenMinutesBehindALoadBalancer(t *testing.T) {
	t.Parallel()
	for _, transport := range transports {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			virtually(t, nil, func(t *testing.T, h *hub) {
				proxy := chaos.New(chaos.Params{Dial: h.connect})
				t.Cleanup(proxy.Close)
				proxy.EatPings()
				proxy.IdleCut(30 * time.Second)
				h.access.grant("ada", "demo")
				agent := h.agentWith(agenttest.Options{
					ID: "idle", Transport: transport, Handler: every(5 * time.Minute),
					Dial: func(context.Context) (net.Conn, error) { return proxy.Pipe(), nil },
				}, "demo")
				began := time.Now()
				watch, err := h.client(false).Do(h.request(t.Context(), http.MethodGet, "ada", "demo", "/api/v1/pods?watch=1", nil))
				if err != nil {
					t.Fatal(err)
				}
				defer watch.Body.Close()
				wantEvents(t, watch.Body, began, 5*time.Minute, 2)
				if isDone(agent) || proxy.Accepted() != 1 {
					t.Errorf("got %d connections, the first one ended: %v; want it alone, and alive", proxy.Accepted(), isDone(agent))
				}
				agent.Close()
			})
		})
	}
}

// every is a cluster in which something happens again and again.
func every(interval time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		for i := 1; ; i++ {
			select {
			case <-time.After(interval):
			case <-r.Context().Done():
				return
			}
			_, _ = fmt.Fprintf(w, "event %d\n", i)
			_ = http.NewResponseController(w).Flush()
		}
	}
}

// wantEvents reads what every writes, which has to come when it happens.
func wantEvents(t *testing.T, r io.Reader, began time.Time, interval time.Duration, n int) {
	t.Helper()
	lines := bufio.NewReader(r)
	for i := 1; i <= n; i++ {
		line, err := lines.ReadString('\n')
		if err != nil || line != fmt.Sprintf("event %d\n", i) {
			t.Fatalf("after %v: got %q, %v, want event %d", time.Since(began), line, err, i)
		}
		if at := time.Since(began).Round(time.Second); at != time.Duration(i)*interval {
			t.Errorf("got event %d after %v, want %v", i, at, time.Duration(i)*interval)
		}
	}
}

// TestF32StreamsOfHalfAnHourThroughTheTunnel has watches, one of them with Connection: close, a log
// and an exec on which something happens every ten minutes.
func TestF32StreamsOfHalfAnHourThroughTheTunnel(t *testing.T) {
	t.Parallel()
	const interval = 10 * time.Minute
	for name, stream := range map[string]struct {
		path  string
		http2 bool
		close bool
	}{
		"watch over HTTP/1.1":          {path: "/api/v1/pods?watch=1"},
		"watch over HTTP/2":            {path: "/api/v1/pods?watch=1", http2: true},
		"watch with Connection: close": {path: "/api/v1/pods?watch=1", close: true},
		"log that is followed":         {path: "/api/v1/namespaces/a/pods/b/log?follow=true"},
		"answer of unknown length":     {path: "/api/v1/namespaces/a/pods/b/proxy/", http2: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			virtually(t, nil, func(t *testing.T, h *hub) {
				h.access.grant("ada", "demo")
				agent := h.agent("demo", every(interval))
				began := time.Now()
				req := h.request(t.Context(), http.MethodGet, "ada", "demo", stream.path, nil)
				req.Close = stream.close
				res, err := h.client(stream.http2).Do(req)
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				wantEvents(t, res.Body, began, interval, 3)
				agent.Close()
			})
		})
	}
	for _, protocol := range []string{"SPDY/3.1", "websocket"} {
		t.Run("exec by "+protocol, func(t *testing.T) {
			t.Parallel()
			virtually(t, nil, func(t *testing.T, h *hub) {
				h.access.grant("ada", "demo")
				agent := h.agent("demo", switching(func(s *stream) {
					for i := 1; i <= 3; i++ {
						said := make([]byte, len("say it"))
						if _, err := io.ReadFull(s, said); err != nil || string(said) != "say it" {
							t.Errorf("got %q, %v from the caller, want what it says", said, err)
						}
						_, _ = fmt.Fprintf(s, "event %d\n", i)
					}
				}))
				began := time.Now()
				c := h.upgraded(protocol, "ada", "demo")
				go func() {
					for range 3 {
						<-time.After(interval)
						_, _ = io.WriteString(c, "say it")
					}
				}()
				wantEvents(t, c, began, interval, 3)
				agent.Close()
			})
		})
	}
}

// TestF14DeadAgentIsNoticedInTime has an agent from and to which all bytes vanish, with the
// settings of production: within two heartbeats its requests have ended, and new ones are answered.
func TestF14DeadAgentIsNoticedInTime(t *testing.T) {
	t.Parallel()
	for _, transport := range transports {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			virtually(t, nil, func(t *testing.T, h *hub) {
				h.access.grant("ada", "demo")
				proxy := chaos.New(chaos.Params{Dial: h.connect})
				t.Cleanup(proxy.Close)
				agent := h.agentWith(agenttest.Options{
					ID: "c", Transport: transport, Handler: every(time.Hour),
					Dial: func(context.Context) (net.Conn, error) { return proxy.Pipe(), nil },
				}, "demo")
				<-time.After(time.Minute)
				proxy.HalfOpen()
				began := time.Now()
				status, body := h.get(h.client(false), "ada", "demo", "/api/v1/pods")
				if took := time.Since(began); took > 30*time.Second || status != http.StatusServiceUnavailable && status != http.StatusBadGateway {
					t.Errorf("got %d %s after %v, want 502 or 503 within 30 s", status, body, took)
				}
				began = time.Now()
				status, body = h.get(h.client(false), "ada", "demo", "/api/v1/pods")
				if took := time.Since(began); took > 5*time.Second || status != http.StatusServiceUnavailable || !strings.Contains(body, "demo") {
					t.Errorf("got %d %s after %v from an agent that is gone, want 503 at once", status, body, took)
				}
				agent.Close()
			})
		})
	}
}

// TestF41IdleStreamsDoNotHoldADrainUp drains a replica whose connections carry nothing, and one
// with silent watches.
func TestF41IdleStreamsDoNotHoldADrainUp(t *testing.T) {
	t.Parallel()
	for _, transport := range transports {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			virtually(t, func(cfg *tunnel.Config) { cfg.Serve.DrainTimeout = time.Hour }, func(t *testing.T, h *hub) {
				h.access.grant("ada", "demo")
				agent := h.agentWith(agenttest.Options{ID: "c", Transport: transport, Handler: every(24 * time.Hour)}, "demo")
				res, err := h.client(false).Do(h.request(t.Context(), http.MethodGet, "ada", "demo", "/api/v1/pods?watch=1", nil))
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				began := time.Now()
				h.stop()
				if _, err := io.Copy(io.Discard, res.Body); err != nil {
					t.Errorf("the watch ended with %v, want it to end as API servers end watches", err)
				}
				<-agent.Done()
				if took := time.Since(began); took >= time.Second {
					t.Errorf("got the watch's and the connection's end after %v, want them within 1 s", took)
				}
				if err := <-h.done; err != nil {
					t.Error(err)
				}
				h.done <- nil
				if took := time.Since(began); took >= 2*time.Second {
					t.Errorf("got a drain of %v, want no more than the second that callers over HTTP/2 have to hang up", took)
				}
			})
		})
	}
}

// TestF47StallTimeoutIsKept has callers that take nothing from some time on: they are ended after 2
// min, and no sooner.
func TestF47StallTimeoutIsKept(t *testing.T) {
	t.Parallel()
	for _, http2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("HTTP/2 %v", http2), func(t *testing.T) {
			t.Parallel()
			virtually(t, nil, func(t *testing.T, h *hub) {
				h.access.grant("ada", "demo")
				ended := make(chan time.Time, 1)
				agent := h.agent("demo", func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(w, zeros{})
					<-r.Context().Done()
					ended <- time.Now()
				})
				res, err := h.client(http2).Do(h.request(t.Context(), http.MethodGet, "ada", "demo", "/large", nil))
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				for range 10 { // slow, and no slower than may be
					if _, err := io.CopyN(io.Discard, res.Body, 16<<20); err != nil {
						t.Fatal(err)
					}
					<-time.After(110 * time.Second)
				}
				if _, err := io.CopyN(io.Discard, res.Body, 16<<20); err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				if took := (<-ended).Sub(began); took != 2*time.Minute {
					t.Errorf("got the end of the request %v after the caller took the last byte, want 2 min", took)
				}
				agent.Close()
			})
		})
	}
}
