// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"net/http"
	"sync"
	"time"
)

const (
	// stallTimeout is how long a peer may take nothing of what it is sent.
	stallTimeout = 30 * time.Second
	// stallChunk is what has to be taken within that time.
	stallChunk = 64 << 10
)

// CutStalled returns a handler that does what next does, for responses that are streams. Where the peer has read nothing
// for 30 s of what is being written, the stream is reset, or the connection closed under HTTP/1.1: the write fails, and
// the request's context ends.
//
// The timeouts of the server do not see such a peer: over HTTP/2 its connection lives, pings are answered and other
// streams flow, while this one has no window left and would hold its handler for ever.
func CutStalled(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := &stallWriter{ResponseWriter: w, controller: http.NewResponseController(w)}
		s.timer = time.AfterFunc(stallTimeout, s.cut)
		s.timer.Stop()
		next.ServeHTTP(s, r)
	})
}

// stallWriter watches over writes. Like any http.ResponseWriter it is for the handler's goroutine alone.
type stallWriter struct {
	http.ResponseWriter
	controller *http.ResponseController
	timer      *time.Timer

	mu sync.Mutex // between the handler and the timer
	// since is when the write that goes on began; zero when there is none.
	since time.Time
}

// Write implements io.Writer.
func (s *stallWriter) Write(p []byte) (int, error) {
	written := 0
	for {
		chunk := p[written:min(written+stallChunk, len(p))]
		s.begin()
		n, err := s.ResponseWriter.Write(chunk)
		s.end()
		if written += n; err != nil || written == len(p) {
			return written, err
		}
	}
}

// Flush implements http.Flusher.
func (s *stallWriter) Flush() { _ = s.FlushError() }

// FlushError is what http.ResponseController prefers to Flush.
func (s *stallWriter) FlushError() error {
	s.begin()
	defer s.end()
	return s.controller.Flush()
}

// Unwrap is for http.ResponseController.
func (s *stallWriter) Unwrap() http.ResponseWriter { return s.ResponseWriter }

func (s *stallWriter) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since = time.Now()
	s.timer.Reset(stallTimeout)
}

func (s *stallWriter) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since = time.Time{}
	s.timer.Stop()
}

// cut makes the write that goes on fail. The lock keeps the handler from returning meanwhile, after which its writer must
// not be touched; a timer that fired too late for an earlier write does nothing.
func (s *stallWriter) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.since.IsZero() && time.Since(s.since) >= stallTimeout {
		_ = s.controller.SetWriteDeadline(time.Unix(1, 0)) // a writer without deadlines cannot be helped
	}
}
