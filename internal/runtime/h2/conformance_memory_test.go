// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/leatdev/leat/internal/testkit/raced"
)

// The memory oracle sends the same bytes to net/http and to this package, and compares how much
// memory the two then hold. It counts bytes sent and bytes held, never time.

const (
	// oracleFloor is the difference below which two results count as equal: a Go heap cannot be
	// measured more exactly.
	oracleFloor = 3 << 20
	// oracleChunk is how many bytes one connection sends before the next one's turn.
	oracleChunk = 4 << 10
	// slowly is how many bytes a slow reader reads after each chunk that it has sent.
	slowly = 64
	// stalled is how long a side may accept nothing before the test assumes that it has stopped
	// reading. It affects only how long the test takes, not any result.
	stalled = 200 * time.Millisecond
)

// reading is how an attacker reads what the other side sends.
type reading int

const (
	readsAll reading = iota
	readsNone
	readsSlowly
)

// attack describes what a peer sends. Its connections send in turn, from one goroutine.
type attack struct {
	conns    int
	bytes    int // what all connections send together, without the connections' openings
	options  options
	settings []http2.Setting
	reads    reading
	// paced makes a connection wait for its handlers before each chunk, so that no request is
	// refused because there are too many. Once the handlers wait for the peer, the connection stops
	// pacing.
	paced bool
	// each is how many bytes we may hold for each connection, regardless of what net/http holds;
	// zero: no such limit.
	each int
	// handler answers requests in an attack on a server.
	handler http.HandlerFunc
	// ask makes requests from the client of a connection, in an attack on a client. The function
	// that it returns is called before each chunk.
	ask func(ctx context.Context, requests http.RoundTripper) (more func())
	// say appends the i-th message of a connection.
	say func(b []byte, i int) []byte
}

// TestSecMemory runs each attack and requires that this package holds at most 1.5 times what
// net/http holds after the same bytes. It does not run beside other tests, whose memory it would
// count. On a busy machine one side may be delayed before it has read what it was sent. Therefore
// an attack counts as successful only if it succeeds several times in a row.
func TestSecMemory(t *testing.T) {
	raced.Skip(t)
	for side, attacks := range map[string]map[string]attack{"server": serverAttacks, "client": clientAttacks} {
		for name, a := range attacks {
			t.Run(side+"/"+name, func(t *testing.T) {
				const tries = 3
				var excess string
				for range tries {
					if excess = a.compare(t); excess == "" {
						return
					}
				}
				t.Error(excess)
			})
		}
	}
}

// compare attacks all implementations, and returns the defect of ours, or "" if there is none.
func (a attack) compare(t *testing.T) (excess string) {
	t.Helper()
	held := map[string]int{}
	for _, under := range implementations {
		t.Run(under.name, func(t *testing.T) { held[under.name] = a.run(t, under) })
	}
	known, own := held[wellKnown.name], held[ours.name]
	t.Logf("%6.1f MiB held by net/http, %6.1f MiB by us", mib(known), mib(own))
	if limit := a.conns * a.each; limit > 0 && own > limit {
		return fmt.Sprintf("we hold %.1f MiB, want at most %d KiB for each connection", mib(own), a.each>>10)
	}
	if own > known+known/2+oracleFloor {
		return fmt.Sprintf("we hold %.1f MiB, want at most 1.5 times net/http's %.1f MiB and %d MiB", mib(own), mib(known), oracleFloor>>20)
	}
	return ""
}

func mib(bytes int) float64 { return float64(bytes) / (1 << 20) }

// run returns the largest amount of memory that an implementation held at any of several points of
// an attack.
func (a attack) run(t *testing.T, under implementation) (most int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	before := live()
	assaults := make([]*assault, a.conns)
	for i := range assaults {
		assaults[i] = a.begin(t, ctx, under)
	}
	const looks = 2
	for range looks {
		for sent, more := 0, true; more && sent < a.bytes/looks; {
			more = false
			for _, each := range assaults {
				n := each.send(a, min(oracleChunk, max(a.bytes/a.conns/looks, 1)))
				sent, more = sent+n, more || n > 0
			}
		}
		for _, each := range assaults {
			each.ended = !each.near.awaitTaken() || each.ended
		}
		most = max(most, live()-before)
	}
	runtime.KeepAlive(assaults)
	return most
}

// assault is one connection of an attack.
type assault struct {
	conn  net.Conn
	near  *counted // the attacked side's end
	more  func()
	said  int
	ended bool

	running atomic.Int64 // handlers that have not returned
	stuck   bool
}

// serve returns a handler that counts its running calls.
func (s *assault) serve(handler http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.running.Add(1)
		defer s.running.Add(-1)
		handler(w, r)
	}
}

// pace blocks until nearly all handlers have returned.
func (s *assault) pace() {
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for began := time.Now(); !s.stuck && (s.near.taken.Load() < s.near.sent.Load() || s.running.Load() > 100); {
		s.stuck = time.Since(began) > stalled
		<-look.C
	}
}

// begin opens a connection to the attacked side.
func (a attack) begin(t *testing.T, ctx context.Context, under implementation) *assault {
	t.Helper()
	far, near := loopbackPair(t)
	for _, err := range []error{far.(*net.TCPConn).SetReadBuffer(4 << 10), near.(*net.TCPConn).SetWriteBuffer(4 << 10)} { // so that the kernel keeps little
		if err != nil {
			t.Fatal(err)
		}
	}
	s := &assault{conn: far, near: &counted{Conn: near}, more: func() {}}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var opening bytes.Buffer
	framer := http2.NewFramer(&opening, far)
	var client requester
	if a.ask == nil {
		_ = under.server(t, s.near, s.serve(a.handler), a.options.defaults())
		opening.WriteString(http2.ClientPreface)
	} else {
		client = under.client(t, s.near, a.options.defaults())
		t.Cleanup(func() { _ = client.Close() })
		_, err := io.ReadFull(far, make([]byte, len(http2.ClientPreface)))
		must(err)
	}
	must(framer.WriteSettings(a.settings...))
	must(framer.WriteWindowUpdate(0, 1<<30))
	_, err := far.Write(opening.Bytes())
	must(err)
	s.near.sent.Add(int64(opening.Len()))
	for acknowledged := false; !acknowledged; { // the settings apply after the acknowledgement
		f, err := framer.ReadFrame()
		must(err)
		settings, ok := f.(*http2.SettingsFrame)
		acknowledged = ok && settings.IsAck()
	}
	if a.ask != nil {
		s.more = a.ask(ctx, client)
	}
	if a.reads == readsAll {
		go func() { _, _ = io.Copy(io.Discard, far) }()
	}
	return s
}

// send sends about size bytes and returns how many it has sent; zero if the connection has ended.
func (s *assault) send(a attack, size int) int {
	if s.ended {
		return 0
	}
	s.more()
	if a.paced {
		s.pace()
	}
	b := make([]byte, 0, 2*size)
	for len(b) < size {
		b = a.say(b, s.said)
		s.said++
	}
	_ = s.conn.SetWriteDeadline(time.Now().Add(stalled))
	n, err := s.conn.Write(b)
	s.near.sent.Add(int64(n))
	s.ended = err != nil
	if a.reads == readsSlowly {
		_ = s.conn.SetReadDeadline(time.Now().Add(time.Millisecond))
		_, _ = s.conn.Read(make([]byte, slowly))
	}
	return n
}

// counted is a connection that counts the bytes read from it.
type counted struct {
	net.Conn

	sent, taken atomic.Int64
	closed      atomic.Bool
}

// Read implements net.Conn.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.taken.Add(int64(n))
	return n, err
}

// Close implements net.Conn.
func (c *counted) Close() error {
	c.closed.Store(true)
	return c.Conn.Close()
}

// awaitTaken blocks until everything sent was read, and reports whether it was. It returns early if
// the connection has ended or nothing more is read.
func (c *counted) awaitTaken() bool {
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	last, since := c.taken.Load(), time.Now()
	for !c.closed.Load() && c.taken.Load() < c.sent.Load() && time.Since(since) < stalled {
		<-look.C
		if now := c.taken.Load(); now != last {
			last, since = now, time.Now()
		}
	}
	return c.taken.Load() >= c.sent.Load()
}

// live returns the bytes of objects and goroutine stacks in use, without garbage.
func live() int {
	var m runtime.MemStats
	const alike = 128 << 10
	for last := -1; ; {
		runtime.GC()
		runtime.ReadMemStats(&m)
		now := int(m.HeapAlloc + m.StackInuse)
		if last >= 0 && now < last+alike && now > last-alike {
			return now
		}
		last = now
	}
}
