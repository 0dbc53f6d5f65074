// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"net/http"
	"sync"
	"time"
)

const (
	// stallChunk is how much has to be taken within the time of a guard. It is more than a server
	// buffers before it writes.
	stallChunk = 64 << 10
	// buffered is how much a server of net/http buffers in any case, over HTTP/1.1; over HTTP/2 it is
	// twice as much.
	buffered = 2 << 10
)

// CutStalled returns a handler that does what next does, under a [StallGuard].
func CutStalled(next http.Handler, timeout time.Duration) http.Handler {
	return &cutStalled{next: next, timeout: timeout}
}

type cutStalled struct {
	next    http.Handler
	timeout time.Duration
}

// ServeHTTP implements http.Handler.
func (h *cutStalled) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	guard := GuardStalls(w, h.timeout, nil)
	defer guard.Stop()
	h.next.ServeHTTP(guard, r)
}

// StallGuard is a response writer that ends a response of which the peer takes nothing. The
// timeouts of the server do not see such a peer: its connection lives, over HTTP/2 pings are
// answered and other streams flow, while this response would hold its handler, and whatever the
// handler holds, for as long as the connection lives.
//
// Only a write or a flush that waits for the peer counts, and each 64 KiB again: a response that
// has nothing to send may be silent for ever, and a peer may be slow. When 64 KiB, or the rest, was
// not taken within the timeout, the write fails, and so do all later ones; the stream is reset, or
// the connection closed under HTTP/1.1, and the request's context ends.
//
// Like any http.ResponseWriter it is for the handler's goroutine alone. A connection that was
// hijacked is not guarded.
type StallGuard struct {
	http.ResponseWriter

	timeout time.Duration
	stalled func()
	written int
	// pending is how much the server buffers, if less than it can. That much needs no watching
	// over, and small answers no timer.
	pending int

	mu    sync.Mutex // between the handler and the timer
	timer *time.Timer
	// armed reports whether the timer runs. It is not stopped after each write, and looks itself when
	// it fires.
	armed bool
	// since is when the current write began; zero when there is none.
	since time.Time
	// over reports whether the guard was stopped or has ended the response.
	over bool
}

// GuardStalls returns a guard on w. When a write is ended, stalled is called before it fails, once;
// it must not use the writer. Nil is not called. Call Stop before the handler returns.
func GuardStalls(w http.ResponseWriter, timeout time.Duration, stalled func()) *StallGuard {
	return &StallGuard{ResponseWriter: w, timeout: timeout, stalled: stalled}
}

// Write implements io.Writer.
func (g *StallGuard) Write(p []byte) (int, error) {
	if g.pending+len(p) <= buffered {
		n, err := g.ResponseWriter.Write(p)
		g.pending += n
		return n, err
	}
	g.pending = buffered
	written := 0
	for {
		chunk := p[written:min(written+stallChunk, len(p))]
		g.begin()
		n, err := g.ResponseWriter.Write(chunk)
		g.end()
		g.written += n
		if written += n; err != nil || written == len(p) {
			return written, err
		}
	}
}

// Flush implements http.Flusher.
func (g *StallGuard) Flush() { _ = g.FlushError() }

// FlushError implements the method that http.ResponseController prefers to Flush.
func (g *StallGuard) FlushError() error {
	g.begin()
	defer g.end()
	g.pending = 0
	return http.NewResponseController(g.ResponseWriter).Flush()
}

// Unwrap lets http.ResponseController reach the server's own writer.
func (g *StallGuard) Unwrap() http.ResponseWriter { return g.ResponseWriter }

// Stop ends the guard. Of a response that did not fit into the buffers, the rest goes to the peer
// when the handler has returned: the server is told to give that the same time.
func (g *StallGuard) Stop() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.timer != nil {
		g.timer.Stop()
	}
	if !g.over && g.written > stallChunk {
		_ = http.NewResponseController(g.ResponseWriter).SetWriteDeadline(time.Now().Add(g.timeout))
	}
	g.over = true
}

func (g *StallGuard) begin() {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch g.since = time.Now(); {
	case g.over || g.armed:
		return
	case g.timer == nil:
		g.timer = time.AfterFunc(g.timeout, g.look)
	default:
		g.timer.Reset(g.timeout)
	}
	g.armed = true
}

func (g *StallGuard) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.since = time.Time{}
}

// look ends the current write if it has lasted too long. The lock keeps the handler from returning
// meanwhile, after which its writer must not be touched.
func (g *StallGuard) look() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.armed = false
	if g.over || g.since.IsZero() {
		return
	}
	if left := g.timeout - time.Since(g.since); left > 0 { // another write than the one that the timer was started for
		g.armed = true
		g.timer.Reset(left)
		return
	}
	g.over = true
	if g.stalled != nil {
		g.stalled()
	}
	// Writers that have no deadlines do not belong to a server, and do not wait.
	_ = http.NewResponseController(g.ResponseWriter).SetWriteDeadline(time.Unix(1, 0))
}
