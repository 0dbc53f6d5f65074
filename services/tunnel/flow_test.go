// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/runtime/config"
	"github.com/leatdev/leat/services/tunnel"
	"github.com/leatdev/leat/services/tunnel/internal/agenttest"
)

// pattern is endless data of which each position is known. It repeats after a number of bytes that
// is prime, so that no loss of whole buffers goes unnoticed.
type pattern struct{ at int }

var patternBlock = func() []byte {
	block := make([]byte, 1<<20-3)
	_, _ = rand.NewChaCha8([32]byte{}).Read(block) // it does not fail
	return block
}()

// Read implements io.Reader.
func (p *pattern) Read(b []byte) (int, error) {
	for n := 0; n < len(b); {
		copied := copy(b[n:], patternBlock[p.at:])
		n, p.at = n+copied, (p.at+copied)%len(patternBlock)
	}
	return len(b), nil
}

// TestF02ReaderThatPauses lets a reader of a long answer stop until everything behind it has
// stopped as well, and continue.
func TestF02ReaderThatPauses(t *testing.T) {
	const size = 32 << 20
	var sent atomic.Int64
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/small" {
			return
		}
		source := &pattern{}
		buffer := make([]byte, 64<<10)
		for sent.Load() < size {
			_, _ = source.Read(buffer)
			if _, err := w.Write(buffer); err != nil {
				t.Errorf("agent: %v", err)
				return
			}
			sent.Add(int64(len(buffer)))
		}
	})
	overTransports(t, nil, agenttest.Options{Handler: handler}, func(t *testing.T, h *hub, _ *agenttest.Agent) {
		sent.Store(0)
		res, err := client(t, false).Do(h.request(t.Context(), http.MethodGet, "ada", "demo", "/large", nil))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		hash := sha256.New()
		if _, err := io.CopyN(hash, res.Body, 1<<20); err != nil {
			t.Fatal(err)
		}
		// It has stopped when requests pass and nothing of it has moved.
		c := client(t, true)
		for before := int64(-1); before != sent.Load(); {
			before = sent.Load()
			for range 50 {
				h.get(c, "ada", "demo", "/small")
			}
		}
		if got := sent.Load(); got >= size {
			t.Fatalf("all %d bytes were taken although nobody reads, want back-pressure", got)
		}
		if n, err := io.Copy(hash, res.Body); err != nil || n != size-1<<20 {
			t.Fatalf("after the pause: got %d bytes, %v", n, err)
		}
		want := sha256.New()
		_, _ = io.CopyN(want, &pattern{}, size)
		if string(hash.Sum(nil)) != string(want.Sum(nil)) {
			t.Error("what was read is not what was sent")
		}
	})
}

// TestF04WatchBesideDownloads has events arrive while downloads take all there is.
func TestF04WatchBesideDownloads(t *testing.T) {
	events := make(chan string)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") == "" {
			_, _ = io.Copy(w, zeros{})
			return
		}
		_ = http.NewResponseController(w).Flush()
		for event := range events {
			_, _ = io.WriteString(w, event)
			_ = http.NewResponseController(w).Flush()
		}
	})
	h := startHub(t, nil)
	h.access.grant("ada", "demo")
	h.agentWith(agenttest.Options{ID: "c", Handler: handler}, "demo")
	ctx, cancel := contextWithCancel(t)
	var downloads sync.WaitGroup
	var moved atomic.Int64
	for range 8 {
		res, err := client(t, false).Do(h.request(ctx, http.MethodGet, "ada", "demo", "/large", nil))
		if err != nil {
			t.Fatal(err)
		}
		downloads.Go(func() {
			defer func() { _ = res.Body.Close() }()
			buffer := make([]byte, 64<<10)
			for {
				n, err := res.Body.Read(buffer)
				moved.Add(int64(n))
				if err != nil {
					return
				}
			}
		})
	}
	watch, err := client(t, false).Do(h.request(ctx, http.MethodGet, "ada", "demo", "/api/v1/events?watch=1", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = watch.Body.Close() }()
	for i := range 50 {
		event := fmt.Sprintf("event %04d\n", i)
		events <- event
		got := make([]byte, len(event))
		if _, err := io.ReadFull(watch.Body, got); err != nil || string(got) != event {
			t.Fatalf("got %q, %v, want %q", got, err, event)
		}
	}
	close(events)
	t.Logf("50 events beside %d MiB", moved.Load()>>20)
	cancel()
	downloads.Wait()
}

// TestF05BothDirectionsAtOnce moves data both ways on many streams with the smallest windows, and
// then reconnects while a sender is blocked.
func TestF05BothDirectionsAtOnce(t *testing.T) {
	const size = 1 << 20 // many times the windows
	change := func(cfg *tunnel.Config) { cfg.StreamWindow, cfg.MaxStreamWindow = 64*config.KiB, 64*config.KiB }
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		_, _ = io.Copy(w, r.Body)
	})
	overTransports(t, change, agenttest.Options{Handler: handler}, func(t *testing.T, h *hub, agent *agenttest.Agent) {
		c := client(t, true)
		var callers sync.WaitGroup
		for range 16 {
			callers.Go(func() {
				res, err := c.Do(h.request(t.Context(), http.MethodPost, "ada", "demo", "/echo", io.LimitReader(&pattern{}, size)))
				if err != nil {
					t.Error(err)
					return
				}
				defer func() { _ = res.Body.Close() }()
				if n, err := io.Copy(io.Discard, res.Body); n != size || err != nil {
					t.Errorf("got %d bytes, %v, want %d", n, err, size)
				}
			})
		}
		callers.Wait()

		agent.Freeze()
		ctx, cancel := contextWithCancel(t)
		callers.Go(func() { // it fills all buffers on the way, and blocks
			if res, err := c.Do(h.request(ctx, http.MethodPost, "ada", "demo", "/echo", zeros{})); err == nil {
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
			}
		})
		next := agenttest.Options{ID: "next", Handler: handler}
		h.agentWith(next, "demo")
		if status, _ := h.get(c, "ada", "demo", "/echo"); status != http.StatusOK {
			t.Errorf("through the new connection: got %d, want 200", status)
		}
		cancel()
		callers.Wait()
	})
}

// TestF06FullKernelBuffers has a peer that takes nothing any more, while streams write to it: each
// of them ends.
func TestF06FullKernelBuffers(t *testing.T) {
	change := func(cfg *tunnel.Config) {
		cfg.HeartbeatInterval, cfg.HeartbeatTimeout = 100*time.Millisecond, 2*time.Second
	}
	overTransports(t, change, agenttest.Options{Handler: http.HandlerFunc(echo)}, func(t *testing.T, h *hub, agent *agenttest.Agent) {
		agent.Freeze()
		var callers sync.WaitGroup
		for range 20 {
			callers.Go(func() {
				res, err := client(t, false).Do(h.request(t.Context(), http.MethodPost, "ada", "demo", "/x", io.LimitReader(zeros{}, 64<<20)))
				if err != nil {
					return // the answer may come while the body is still sent
				}
				defer func() { _ = res.Body.Close() }()
				if res.StatusCode < 500 {
					t.Errorf("got %d, want an error", res.StatusCode)
				}
			})
		}
		callers.Wait() // or the test times out
	})
}

// TestF08MemoryHasACeiling stops more readers than there is memory for: some of them go, and
// nothing else does.
func TestF08MemoryHasACeiling(t *testing.T) {
	h := startHub(t, func(cfg *tunnel.Config) { cfg.BufferMemory = 4 * config.MiB })
	h.access.grant("ada", "demo")
	h.agent("demo", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/small" {
			_, _ = io.WriteString(w, "small")
			return
		}
		_, _ = io.Copy(w, zeros{})
	})
	var answers []*http.Response
	for range 40 { // their windows are 20 MiB
		res, err := client(t, false).Do(h.request(t.Context(), http.MethodGet, "ada", "demo", "/large", nil))
		if err != nil {
			t.Fatal(err)
		}
		answers = append(answers, res)
		if status, body := h.get(client(t, true), "ada", "demo", "/small"); status != 200 || body != "small" {
			t.Fatalf("got %d %q", status, body)
		}
	}
	broken := 0
	for _, res := range answers {
		if _, err := io.CopyN(io.Discard, res.Body, 16<<20); err != nil { // more than the kernel's buffers and a window
			broken++
		}
		_ = res.Body.Close()
	}
	if broken == 0 {
		t.Error("no reader had to go")
	}
	if broken == len(answers) {
		t.Error("every reader had to go, want those to stay that fit")
	}
}

// TestF15ConnectionsEndAsTheyArePicked ends connections all the time; another one is always there.
// No request that may be repeated fails.
func TestF15ConnectionsEndAsTheyArePicked(t *testing.T) {
	h := startHub(t, nil)
	h.access.grant("ada", "demo")
	h.agentWith(agenttest.Options{ID: "stays", Handler: http.HandlerFunc(echo)}, "demo")
	ctx, cancel := context.WithCancel(t.Context())
	var flapping sync.WaitGroup
	flapping.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			agent, err := agenttest.Dial(ctx, agenttest.Options{
				Addr: h.addr, Token: h.cluster("demo"), ID: fmt.Sprint("flaps-", i), Handler: http.HandlerFunc(echo),
			})
			if err == nil {
				agent.Close()
			}
		}
	})
	var callers sync.WaitGroup
	for worker := range 4 {
		c := client(t, worker%2 == 0)
		callers.Go(func() {
			for range 300 {
				if status, body := h.get(c, "ada", "demo", "/api"); status != http.StatusOK {
					t.Errorf("got %d %s, want 200", status, body)
					return
				}
			}
		})
	}
	callers.Wait()
	cancel()
	flapping.Wait()
}

// TestF44OneConnectionAndNoMore counts what the hub does when an agent takes no more requests: it
// never dials anything.
func TestF44OneConnectionAndNoMore(t *testing.T) {
	h := startHub(t, nil)
	h.access.grant("ada", "demo")
	release := make(chan struct{})
	begun := make(chan struct{}, 4)
	h.agentWith(agenttest.Options{ID: "c", MaxStreams: 4, Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		begun <- struct{}{}
		<-release
	})}, "demo")
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() { h.get(client(t, false), "ada", "demo", "/") })
		<-begun
	}
	for range 10 {
		if status, _ := h.get(client(t, false), "ada", "demo", "/"); status != http.StatusTooManyRequests {
			t.Errorf("got %d, want 429 at once", status)
		}
	}
	if got := len(h.sessions()); got != 1 {
		t.Errorf("got %d connections, want 1", got)
	}
	close(release)
	callers.Wait()
}

// TestGarbageInsteadOfHTTP2 has peers that speak something else after the Upgrade.
func TestGarbageInsteadOfHTTP2(t *testing.T) {
	h := startHub(t, nil)
	h.access.grant("ada", "demo")
	random := rand.New(rand.NewPCG(7, 7))
	for range 30 {
		conn, err := net.Dial("tcp", h.addr)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = fmt.Fprintf(conn, "GET /tunnel/v1/connect HTTP/1.1\r\nHost: hub\r\nConnection: Upgrade\r\nUpgrade: leat-tunnel/1\r\n"+
			"Authorization: Bearer %s\r\nLeat-Connection-Id: x\r\n\r\n", h.cluster("demo"))
		garbage := make([]byte, random.IntN(2000))
		for i := range garbage {
			garbage[i] = byte(random.Uint32())
		}
		_, _ = conn.Write(garbage)
		_ = conn.Close()
	}
	h.agent("demo", echo)
	if status, _ := h.get(client(t, false), "ada", "demo", "/api"); status != http.StatusOK {
		t.Errorf("got %d, want 200", status)
	}
}
