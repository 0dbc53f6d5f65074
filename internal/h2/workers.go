// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2

import "sync/atomic"

// workers are the goroutines of a server. One of them reads. When a request has come and nothing behind
// it, that goroutine has another one read on, and calls the handler itself: so no request waits until the
// reader has found that there is nothing more to read. A goroutine that has answered waits for the next
// job, with the stack that has grown for the handler.
type workers struct {
	jobs      chan job    // requests to answer; nil to read on
	isWaiting atomic.Bool // a goroutine waits for a job
}

// delegate has another goroutine answer a request, or read on if x is nil. Only the reader calls it.
func (s *Server) delegate(x job) {
	select {
	case s.workers.jobs <- x:
	default:
		go s.work(x)
	}
}

// handOver implements [role].
func (s *Server) handOver() job {
	x := s.next
	if x == nil {
		return nil
	}
	s.next = nil
	if s.reader.in.Buffered() > 0 {
		s.delegate(x)
		return nil
	}
	s.wake()
	s.delegate(nil)
	return x
}

// work does one job after the other.
func (s *Server) work(x job) {
	for more := true; more; x, more = s.workers.wait() {
		if x == nil {
			x = s.run()
		}
		if x == nil { // the connection has ended
			close(s.workers.jobs)
			return
		}
		x.run()
	}
}

// wait waits for a job. It reports false if there will be none, or if another goroutine waits already.
func (w *workers) wait() (job, bool) {
	if !w.isWaiting.CompareAndSwap(false, true) {
		return nil, false
	}
	defer w.isWaiting.Store(false)
	x, more := <-w.jobs
	return x, more
}
