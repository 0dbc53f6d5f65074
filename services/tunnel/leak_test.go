// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/chaos"
	"github.com/leatdev/leat/services/tunnel"
	"github.com/leatdev/leat/services/tunnel/internal/agenttest"
)

// held counts the resources of a process that can leak while its hub lives; all tests check the
// rest when the hub has ended.
type held struct{ goroutines, files int }

func holds(tb testing.TB) held {
	tb.Helper()
	return held{goroutines: runtime.NumGoroutine(), files: openFiles(tb)}
}

// awaitNoMoreThan waits until no more is held than before, except for a little that is under way at
// any time.
func (h *hub) awaitNoMoreThan(before held) {
	h.tb.Helper()
	const slack = 10
	defer func() {
		if h.tb.Failed() {
			h.tb.Logf("held before: %+v, now: %+v", before, holds(h.tb))
		}
	}()
	await.True(h.tb, "goroutines and files to be given back", func() bool {
		h.streams() // takes its time, as every question
		now := holds(h.tb)
		return now.goroutines <= before.goroutines+slack && now.files <= before.files+slack
	})
}

// streams returns the number of requests under way on the hub.
func (h *hub) streams() int {
	h.tb.Helper()
	res, err := h.service().ListSessions(h.tb.Context(), nil)
	if err != nil {
		h.tb.Fatalf("ListSessions: %v", err)
	}
	active := 0
	for _, s := range res.GetSessions() {
		active += int(s.GetActiveStreams())
	}
	return active
}

// TestF09CanceledRequestsLeaveNothingBehind cancels requests at random points, and as many when
// they have an endless answer.
func TestF09CanceledRequestsLeaveNothingBehind(t *testing.T) {
	requests := 2000
	if os.Getenv("LEAT_FAULT_LONG") == "1" {
		requests = 10_000
	}
	h := startHub(t, func(cfg *tunnel.Config) { cfg.MaxStreamsPerUser = 1000 })
	h.access.grant("ada", "demo")
	var running atomic.Int64
	h.agent("demo", func(w http.ResponseWriter, r *http.Request) {
		running.Add(1)
		defer running.Add(-1)
		_, _ = io.WriteString(w, "begun")
		_ = http.NewResponseController(w).Flush()
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	})
	clients := []*http.Client{client(t, false), client(t, true)}
	cancelMany := func(requests int) {
		var callers sync.WaitGroup
		slots := make(chan struct{}, 50)
		like := h.request(t.Context(), http.MethodGet, "ada", "demo", "/api/v1/namespaces/a/pods", nil)
		for i := range requests {
			slots <- struct{}{}
			callers.Go(func() {
				defer func() { <-slots }()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if i/8%2 == 0 {
					defer time.AfterFunc(rand.N(20*time.Millisecond), cancel).Stop()
				}
				req := like.Clone(ctx)
				switch i % 4 {
				case 1:
					req.URL.RawQuery = "watch=true"
				case 2:
					req.URL.Path += "/p/log"
					req.URL.RawQuery = "follow=true"
				case 3:
					req.Method, req.Body = http.MethodPost, io.NopCloser(&unended{rest: 1024, done: ctx.Done()})
				}
				res, err := clients[i/4%2].Do(req)
				if err != nil {
					return
				}
				_, _ = io.ReadFull(res.Body, make([]byte, len("begun")))
				cancel()
				_ = res.Body.Close()
			})
		}
		callers.Wait()
		for _, c := range clients {
			c.CloseIdleConnections()
		}
		await.True(t, "the agent's handlers to end", func() bool { return h.streams() == 0 && running.Load() == 0 })
	}
	cancelMany(100)
	before := holds(t)
	cancelMany(requests)
	h.awaitNoMoreThan(before)
	await.True(t, "an outcome for each decision to carry a request out", func() bool {
		h.streams()
		carried := slices.DeleteFunc(h.audit.records(t), func(record map[string]any) bool {
			return record["phase"] != "decision" || record["allowed"] != true // one that was canceled before is refused, and has no outcome
		})
		return len(carried) == h.audited("outcome", "")
	})
}

// unended is a body of which the end never comes.
type unended struct {
	rest int
	done <-chan struct{}
}

// Read implements io.Reader.
func (u *unended) Read(p []byte) (int, error) {
	if u.rest == 0 {
		<-u.done
		return 0, context.Canceled
	}
	n := min(u.rest, len(p))
	u.rest -= n
	return n, nil
}

// TestF10ReconnectsLeaveNothing opens and loses many connections, some of them by reset.
func TestF10ReconnectsLeaveNothing(t *testing.T) {
	const reconnects = 1000
	h := startHub(t, nil)
	proxy := chaos.Start(t, chaos.Params{Target: h.addr})
	var tokens []string // of many clusters, since one cluster's agent may not connect more often
	for i := range 100 {
		tokens = append(tokens, h.cluster("demo"+strconv.Itoa(i)))
	}
	through := func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", proxy.Addr())
	}
	reconnect := func(i int) {
		agent := h.agentWith(agenttest.Options{
			ID: "c" + strconv.Itoa(i), Dial: through, Token: tokens[i%len(tokens)], Handler: http.NotFoundHandler(), Transport: transports[i%3],
		}, "")
		if i%2 == 0 {
			proxy.Reset()
			<-agent.Done()
		}
		agent.Close()
	}
	gone := func() bool { return len(h.sessions()) == 0 && proxy.Open() == 0 }
	for i := range 10 {
		reconnect(i)
	}
	await.True(t, "the first connections to be gone", gone)
	before := holds(t)
	for i := range reconnects {
		reconnect(i)
	}
	await.True(t, "the connections to be gone", gone)
	h.awaitNoMoreThan(before)
}
