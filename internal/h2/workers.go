// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2

import "sync/atomic"

// workers are the goroutines of a server. One of them reads. When a request has come and nothing behind it, it has another one read on, and
// calls the handler itself: so no request waits until the reader has found that there is nothing more to read. One that has answered
// waits for the next thing to do, with the stack that has grown for the handler.
type workers struct {
	jobs    chan *exchange // requests to answer; nil: to read on
	resting atomic.Bool    // one waits for a job
}

// delegate has another goroutine answer a request, or read on where x is nil. It is for the reader.
func (s *Server) delegate(x *exchange) {
	select {
	case s.workers.jobs <- x:
	default:
		go s.work(x)
	}
}

// relieved implements side.
func (s *Server) relieved() *exchange {
	x := s.next
	if x == nil {
		return nil
	}
	s.next = nil
	if s.in.Buffered() > 0 {
		s.delegate(x)
		return nil
	}
	s.wake()
	s.delegate(nil)
	return x
}

// work does one thing after the other.
func (s *Server) work(x *exchange) {
	for more := true; more; x, more = s.workers.rest() {
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

// rest waits for something to do. It reports false where there will be nothing, or where somebody waits already.
func (w *workers) rest() (*exchange, bool) {
	if !w.resting.CompareAndSwap(false, true) {
		return nil, false
	}
	defer w.resting.Store(false)
	x, more := <-w.jobs
	return x, more
}
