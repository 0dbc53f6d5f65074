// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/internal/testkit/chaos"
	"github.com/leatdev/leat/services/tunnel/internal/agenttest"
)

// lineRate is how much the lines of these tests carry in a second.
const lineRate = 16 << 20

// line is one to the hub, which has no end of bandwidth yet. In a bubble no goroutine may wait for
// time while others wait for a lock that it holds; so a line gets its rate when what goes over it
// has begun.
func (h *hub) line() (*chaos.Proxy, func(context.Context) (net.Conn, error)) {
	h.tb.Helper()
	line := chaos.New(chaos.Params{Dial: h.connect})
	h.tb.Cleanup(line.Close)
	return line, func(context.Context) (net.Conn, error) { return line.Pipe(), nil }
}

// TestF04WatchBesideDownloadsInTime has events happen while downloads take all that a line of 16
// MiB/s can carry: the agent's, or the line of a caller who has everything on one connection. Each
// event comes within 50 ms, which is the time of 800 KiB: of a frame of 64 KiB for each of the
// eight downloads, and of the bytes on the line already. Time is virtual, and only the line takes
// any.
func TestF04WatchBesideDownloadsInTime(t *testing.T) {
	t.Parallel()
	// The calls of the third transport hold locks while they send, which a bubble does not bear.
	for _, tc := range []struct{ slow, transport string }{{"agent", "upgrade"}, {"agent", "websocket"}, {"caller", "upgrade"}} {
		t.Run(tc.slow+"'s line, "+tc.transport, func(t *testing.T) {
			t.Parallel()
			virtually(t, nil, func(t *testing.T, h *hub) {
				h.access.grant("ada", "demo")
				line, overLine := h.line()
				api := newPaced()
				opts, caller := agenttest.Options{ID: "c", Transport: tc.transport, Handler: api}, h.client(true)
				if tc.slow == "agent" {
					opts.Dial = overLine
				} else {
					caller.Transport.(*http.Transport).DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return overLine(ctx) }
				}
				agent := h.agentWith(opts, "demo")
				ctx, cancel := contextWithCancel(t)
				open := func(path string) io.ReadCloser { return h.open(ctx, caller, "demo", path) }
				watch := open("/api/v1/pods?watch=1")
				var reading sync.WaitGroup
				var moved atomic.Int64
				for range 8 {
					download := open("/large")
					reading.Go(func() { count(download, &moved) })
				}
				synctest.Wait()
				line.Cap(lineRate)
				close(api.begin)
				began := time.Now()
				api.wantEvents(t, watch, 30, 50*time.Millisecond)
				took := time.Since(began)
				if got, full := moved.Load(), int64(lineRate*took/time.Second); got < full*9/10 {
					t.Errorf("got %d KiB downloaded in %v, want the line full: %d KiB", got>>10, took, full>>10)
				}
				_ = watch.Close()
				cancel()
				reading.Wait()
				agent.Close()
			})
		})
	}
}

// TestF07OtherClustersAnswerAsFast has clusters each at a line of its own. Of one all streams are
// taken: half by downloads that together fill its line, half by readers that stand still. No
// request to the other one, and no download from it over a line that takes larger windows than the
// first ones, takes a fifth longer than it did before. Time is virtual, and only the lines take
// any.
func TestF07OtherClustersAnswerAsFast(t *testing.T) {
	t.Parallel()
	virtually(t, nil, func(t *testing.T, h *hub) {
		const streams, size, roundTrip = 100, 32 << 20, 30 * time.Millisecond
		api := newPaced()
		lines, agents := map[string]*chaos.Proxy{}, map[string]*agenttest.Agent{}
		for _, cluster := range []string{"full", "other"} {
			h.access.grant("ada", cluster)
			line, overLine := h.line()
			lines[cluster] = line
			agents[cluster] = h.agentWith(agenttest.Options{ID: cluster, MaxStreams: streams, Handler: api, Dial: overLine}, cluster)
		}
		ctx, cancel := contextWithCancel(t)
		var moved atomic.Int64
		var reading sync.WaitGroup
		for i := range streams {
			download := h.open(ctx, h.client(false), "full", "/large")
			defer func() { _ = download.Close() }()
			if i%2 == 0 {
				reading.Go(func() { count(download, &moved) })
			}
		}
		for _, line := range lines {
			line.Delay(roundTrip)
		}
		lines["full"].Cap(lineRate)
		lines["other"].Cap(8 * lineRate)
		<-time.After(2 * time.Second) // what was measured of the lines when they were short is old
		idle := h.speed("other", size)
		close(api.begin)
		<-time.After(3 * time.Second)
		before, began := moved.Load(), time.Now()
		busy := h.speed("other", size)
		full := int64(lineRate * time.Since(began) / time.Second)
		if got := moved.Load() - before; got < full*9/10 {
			t.Errorf("got %d KiB from the full cluster, want its line full: %d KiB", got>>10, full>>10)
		}
		for name, pair := range map[string][2]time.Duration{
			"median": {idle.median, busy.median}, "99th percentile": {idle.p99, busy.p99}, "download": {idle.download, busy.download},
		} {
			if pair[0] < roundTrip || pair[1] > pair[0]*6/5 {
				t.Errorf("%s: got %v beside a full cluster and %v before, want at most a fifth more", name, pair[1], pair[0])
			}
		}
		if status, body := h.get(h.client(false), "ada", "full", "/small"); status != http.StatusTooManyRequests {
			t.Errorf("got %d %s from the full cluster, want 429", status, body)
		}
		cancel()
		reading.Wait()
		for _, agent := range agents {
			agent.Close()
		}
	})
}

// TestUploadsFromAfar uploads a file over a link with a round trip of 50 ms. With a window of 512
// KiB at the hub it would take six and a half seconds. Time is virtual: only the link takes any.
func TestUploadsFromAfar(t *testing.T) {
	t.Parallel()
	virtually(t, nil, func(t *testing.T, h *hub) {
		const size, roundTrip = 64 << 20, 50 * time.Millisecond
		h.access.grant("ada", "demo")
		agent := h.agentWith(agenttest.Options{ID: "c", Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			n, err := io.Copy(io.Discard, r.Body)
			_, _ = fmt.Fprintf(w, "%d %v", n, err)
		})}, "demo")
		defer agent.Close()
		line, overLine := h.line()
		line.Delay(roundTrip)
		caller := h.client(true)
		caller.Transport.(*http.Transport).DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return overLine(ctx) }
		began := time.Now()
		res, body := h.do(caller, h.request(t.Context(), http.MethodPost, "ada", "demo", "/api", io.LimitReader(zeros{}, size)))
		took := time.Since(began)
		if want := fmt.Sprintf("%d %v", size, nil); res.StatusCode != http.StatusOK || body != want || took > 2*time.Second {
			t.Errorf("got %d %s after %v, want %s within 2 s", res.StatusCode, body, took, want)
		}
	})
}

// speed is how long requests take.
type speed struct{ median, p99, download time.Duration }

// speed makes requests to a cluster, one after the other, and then a download.
func (h *hub) speed(cluster string, size int64) speed {
	h.tb.Helper()
	took, c := make([]time.Duration, 100), h.client(false)
	for i := range took {
		began := time.Now()
		if status, body := h.get(c, "ada", cluster, "/small"); status != http.StatusOK {
			h.tb.Fatalf("got %d %s", status, body)
		}
		took[i] = time.Since(began)
	}
	slices.Sort(took)
	began := time.Now()
	download := h.open(h.tb.Context(), c, cluster, "/large?size="+strconv.FormatInt(size, 10))
	if n, err := io.Copy(io.Discard, download); n != size || err != nil {
		h.tb.Fatalf("got %d bytes, %v, want %d", n, err, size)
	}
	_ = download.Close()
	return speed{median: took[len(took)/2], p99: took[len(took)*99/100], download: time.Since(began)}
}

// open returns the body of an endless answer.
func (h *hub) open(ctx context.Context, c *http.Client, cluster, path string) io.ReadCloser {
	h.tb.Helper()
	res, err := c.Do(h.request(ctx, http.MethodGet, "ada", cluster, path, nil))
	if err != nil {
		h.tb.Fatal(err)
	}
	if res.StatusCode != http.StatusOK {
		h.tb.Fatalf("got status %d for %s", res.StatusCode, path)
	}
	return res.Body
}

// paced is a cluster with downloads, in large pieces, and a watch whose events are the times at
// which they happen. Endless answers continue when begin is closed.
type paced struct {
	piece []byte
	begin chan struct{}
}

func newPaced() *paced { return &paced{piece: make([]byte, 1<<20), begin: make(chan struct{})} }

// ServeHTTP implements http.Handler.
func (p *paced) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/small" {
		_, _ = io.WriteString(w, "small")
		return
	}
	if size, err := strconv.Atoi(r.URL.Query().Get("size")); err == nil {
		for ; size > 0; size -= len(p.piece) {
			_, _ = w.Write(p.piece)
		}
		return
	}
	_ = http.NewResponseController(w).Flush()
	select {
	case <-p.begin:
	case <-r.Context().Done():
	}
	for i := 0; r.Context().Err() == nil; i++ {
		if !r.URL.Query().Has("watch") {
			_, _ = w.Write(p.piece)
			continue
		}
		// Each time at another point of the downloads' turns.
		_ = backoff.Wait(r.Context(), 50*time.Millisecond+time.Duration(i)*time.Millisecond)
		_, _ = fmt.Fprintf(w, "%19d\n", time.Now().UnixNano())
		_ = http.NewResponseController(w).Flush()
	}
}

// wantEvents fails the test unless so many events come, each in time.
func (*paced) wantEvents(t *testing.T, watch io.Reader, events int, inTime time.Duration) {
	t.Helper()
	latest := time.Duration(0)
	for range events {
		var happened int64
		line := make([]byte, 20)
		if _, err := io.ReadFull(watch, line); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Sscan(string(line), &happened); err != nil {
			t.Fatalf("got event %q: %v", line, err)
		}
		latest = max(latest, time.Since(time.Unix(0, happened)))
	}
	if latest > inTime {
		t.Errorf("got an event %v after it happened, want each within %v", latest, inTime)
	}
}

// count reads to the end.
func count(body io.ReadCloser, moved *atomic.Int64) {
	defer func() { _ = body.Close() }()
	buffer := make([]byte, 64<<10)
	for {
		n, err := body.Read(buffer)
		moved.Add(int64(n))
		if err != nil {
			return
		}
	}
}
