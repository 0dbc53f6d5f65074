// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"net/http"
	"sync"
	"time"
)

// StallGuard is the response writer of an answer that is passed on from somewhere else. A caller who takes no byte of it for
// too long would hold up who gives it, for as long as the caller's connection lives: the guard ends that. Time in which
// there is nothing to write does not count.
type StallGuard struct {
	http.ResponseWriter

	timeout time.Duration
	stalled func()

	mu      sync.Mutex
	timer   *time.Timer
	stopped bool
}

// GuardStalls returns a guard on w. When one write takes longer than the timeout, stalled is called and the write fails.
// Call Stop before the handler returns.
func GuardStalls(w http.ResponseWriter, timeout time.Duration, stalled func()) *StallGuard {
	return &StallGuard{ResponseWriter: w, timeout: timeout, stalled: stalled}
}

// Write implements io.Writer.
func (g *StallGuard) Write(p []byte) (int, error) {
	g.arm()
	defer g.disarm()
	return g.ResponseWriter.Write(p)
}

// FlushError writes what is buffered.
func (g *StallGuard) FlushError() error {
	g.arm()
	defer g.disarm()
	return http.NewResponseController(g.ResponseWriter).Flush()
}

// Unwrap lets http.ResponseController reach the server's own writer.
func (g *StallGuard) Unwrap() http.ResponseWriter { return g.ResponseWriter }

// Stop ends the guard. The writer can be used on.
func (g *StallGuard) Stop() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stopped = true
	if g.timer != nil {
		g.timer.Stop()
	}
}

func (g *StallGuard) arm() {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.stopped:
	case g.timer == nil:
		g.timer = time.AfterFunc(g.timeout, g.giveUp)
	default:
		g.timer.Reset(g.timeout)
	}
}

func (g *StallGuard) disarm() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.timer != nil {
		g.timer.Stop()
	}
}

// giveUp lets the write fail that waits for the caller. The lock keeps the handler from returning meanwhile, after which the
// writer must not be touched.
func (g *StallGuard) giveUp() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stopped {
		return
	}
	g.stopped = true
	g.stalled()
	// Writers that have no deadlines are not those of a server, and wait for nobody.
	_ = http.NewResponseController(g.ResponseWriter).SetWriteDeadline(time.Unix(1, 0))
}
