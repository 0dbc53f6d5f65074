// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"io"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"os"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/leatdev/leat/internal/testkit/await"
)

// TestF42TailsArrive sends bodies of random size both ways and compares them.
func TestF42TailsArrive(t *testing.T) {
	h := startHub(t, nil)
	h.access.grant("ada", "demo")
	h.agent("demo", switching(func(s *stream) {
		hash := sha256.New()
		size, err := io.Copy(hash, s)
		if err != nil {
			return
		}
		tail := make([]byte, size)
		_, _ = rand.Read(tail)
		_, _ = s.Write(hash.Sum(nil))
		sum := sha256.Sum256(tail)
		_, _ = s.Write(sum[:])
		_, _ = s.Write(tail)
	}))
	rounds := 300
	if os.Getenv("LEAT_FAULT_LONG") == "1" {
		rounds = 10_000
	}
	for round := range rounds {
		body := make([]byte, mathrand.IntN(200_000))
		_, _ = rand.Read(body)
		c := h.upgraded("SPDY/3.1", "ada", "demo")
		go func() {
			_, _ = c.Write(body)
			_ = c.Conn.(*net.TCPConn).CloseWrite()
		}()
		got, err := io.ReadAll(c)
		want := sha256.Sum256(body)
		if err != nil || len(got) != 64+len(body) || !bytes.Equal(got[:32], want[:]) || !equalSum(got[32:64], got[64:]) {
			t.Fatalf("round %d: got %d bytes, %v, want both bodies of %d whole", round, len(got), err, len(body))
		}
		_ = c.Close()
	}
}

func equalSum(want, body []byte) bool {
	sum := sha256.Sum256(body)
	return bytes.Equal(sum[:], want)
}

// TestF11CopyKilledMidway kills the client of a large download again and again; the next request
// works.
func TestF11CopyKilledMidway(t *testing.T) {
	h := startHub(t, nil)
	h.access.grant("ada", "demo")
	ended := make(chan struct{}, 100)
	h.agent("demo", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Leat-Upgrade") == "" {
			_, _ = io.WriteString(w, "ok")
			return
		}
		switching(func(s *stream) {
			defer func() { ended <- struct{}{} }()
			chunk := make([]byte, 64<<10)
			for range 1 << 14 { // a gibibyte
				if _, err := s.Write(chunk); err != nil {
					return
				}
			}
		})(w, r)
	})
	for range 20 {
		c := h.upgraded("SPDY/3.1", "ada", "demo")
		if _, err := io.CopyN(io.Discard, c, 4<<20); err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
		<-ended // hangs if the agent is not told
		if status, body := h.get(client(t, false), "ada", "demo", "/version"); status != http.StatusOK || body != "ok" {
			t.Fatalf("next request: got %d %s, want 200", status, body)
		}
	}
}

// TestF13PortForwardsLeaveNothing opens and drops many of them.
func TestF13PortForwardsLeaveNothing(t *testing.T) {
	h := startHub(t, nil)
	h.access.grant("ada", "demo")
	var open atomic.Int64
	h.agent("demo", switching(func(s *stream) {
		open.Add(1)
		defer open.Add(-1)
		_, _ = io.Copy(s, s)
	}))
	once := func(mode int) {
		c := h.upgraded("SPDY/3.1", "ada", "demo")
		defer c.Close()
		switch mode {
		case 0: // in the middle of a conversation
			_, _ = io.WriteString(c, "ping")
			_, _ = io.ReadFull(c, make([]byte, 4))
		case 1: // without a word
			_ = c.Conn.(*net.TCPConn).SetLinger(0)
		case 2: // orderly
			_ = c.Conn.(*net.TCPConn).CloseWrite()
			_, _ = io.Copy(io.Discard, c)
		case 3: // with an unread echo
			_, _ = c.Write(make([]byte, 100_000))
		}
	}
	idle := func() bool { return open.Load() == 0 }
	for mode := range 4 {
		once(mode)
	}
	await.True(t, "the first ones to end", idle)
	goroutines, files := runtime.NumGoroutine(), openFiles(t)
	for i := range 1000 {
		once(i % 4)
	}
	await.True(t, "all streams to end", idle)
	await.True(t, "goroutines and files to be as before", func() bool {
		return runtime.NumGoroutine() <= goroutines+10 && openFiles(t) <= files+10
	})
}

func openFiles(tb testing.TB) int {
	tb.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		tb.Skipf("count open files: %v", err)
	}
	return len(entries)
}
