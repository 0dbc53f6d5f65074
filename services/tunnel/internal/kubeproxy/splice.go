// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kubeproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/leatdev/leat/internal/runtime/serve"
)

const (
	// halfClosedIdle is how long a connection stays whose one direction has ended while nothing
	// moves in the other: a peer that is gone altogether looks the same as one that only listens.
	halfClosedIdle = time.Minute
	// farewellTimeout bounds the last message to the caller, and then the wait until the caller
	// closes, if the hub ends the session.
	farewellTimeout = 2 * time.Second
	// lastBytesTimeout bounds the wait until the caller closes, if the cluster has ended the
	// session. The last bytes may still be in the kernels' buffers, because the caller is busy. If
	// the caller sends anything to a closed socket, the kernel drops them.
	lastBytesTimeout = time.Minute
)

// splice is a caller's connection and a stream to the agent that have become one. Two goroutines
// use it: the handler's writes the cluster's bytes, and the HTTP/2 client's reads the caller's. mu
// guards what both change.
type splice struct {
	conn     net.Conn
	answer   io.Reader          // bytes of the cluster
	up       *upgradeBody       // bytes of the caller
	tap      func([]byte) error // records
	count    func(n int) error  // an error means that a quota is used up
	buffers  *serve.CopyBuffers
	farewell *farewell

	sent    int64 // bytes written to the caller, without the head
	patient bool  // the caller has been notified of an end that the hub did not cause, and may read up to it slowly

	mu   sync.Mutex
	idle *time.Timer // nil while both directions are open
	over bool
}

// run forwards bytes until both directions have ended or ctx has. The caller must then call linger.
// run reports whether one of the two sides ended the session, as opposed to a failure on the way.
func (s *splice) run(ctx context.Context, cancel context.CancelCauseFunc, early, head []byte) (ended bool) {
	// The end of the session ends a write that waits for the caller.
	unblocked := make(chan struct{})
	unblock := context.AfterFunc(ctx, func() {
		defer close(unblocked)
		_ = s.conn.SetWriteDeadline(time.Unix(1, 0))
	})
	defer unblock()
	defer s.stop()
	if _, err := s.conn.Write(head); err != nil {
		cancel(errCallerGone)
		return true
	}
	s.up.start(upgradedConn{
		conn: s.conn, early: early, moved: s.moved,
		ended:  func() { s.expectEnd(cancel) },
		failed: func(err error) { cancel(fmt.Errorf("%w: %w", errCallerGone, err)) },
	})
	err := s.download(cancel)
	if errors.Is(err, io.EOF) {
		s.expectEnd(cancel)
		s.patient = closeWrite(s.conn)
		select { // an agent that still reads is sent the rest
		case <-s.up.finished:
		case <-ctx.Done():
		}
	} else {
		if !unblock() {
			<-unblocked // so that it does not prevent the last message
		}
		s.part(context.Cause(ctx))
	}
	_ = s.up.Close()
	cause := context.Cause(ctx)
	return errors.Is(err, io.EOF) || errors.Is(cause, errCallerGone) || errors.Is(cause, errIdle)
}

// download passes on the cluster's bytes. It returns io.EOF at their end, or a failure.
func (s *splice) download(cancel context.CancelCauseFunc) error {
	buffer := s.buffers.Get()
	defer s.buffers.Put(buffer)
	for {
		n, err := s.answer.Read(buffer)
		if n > 0 {
			if err := s.pass(buffer[:n]); err != nil {
				cancel(err)
				return err
			}
		}
		if err != nil {
			return err
		}
	}
}

// pass writes one piece to the caller.
func (s *splice) pass(p []byte) error {
	if err := s.count(len(p)); err != nil {
		return err
	}
	if err := s.tap(p); err != nil {
		return fmt.Errorf("%w: %w", errUnrecorded, err)
	}
	n, err := s.conn.Write(p)
	s.sent += int64(n)
	s.farewell.follow(p[:n])
	s.moved()
	if err != nil {
		return fmt.Errorf("%w: %w", errCallerGone, err)
	}
	return nil
}

// part sends a last message if the protocol has one and the caller has not left first.
func (s *splice) part(cause error) {
	_ = s.conn.SetWriteDeadline(time.Now().Add(farewellTimeout))
	if message := s.farewell.message(cause); len(message) > 0 && !errors.Is(cause, errCallerGone) {
		_, _ = s.conn.Write(message) // if it fails, the caller is gone
	}
	s.patient = closeWrite(s.conn) && cause == nil
}

// linger reads what the caller still sends until the caller ends its direction, which it does when
// it has read everything. The wait is shorter if the caller cannot have noticed the end, or if the
// hub has ended the session. In a drain, which begins when ending is closed, the wait is at most
// grace. linger closes the connection.
func (s *splice) linger(ending <-chan struct{}, grace time.Duration) {
	defer s.conn.Close()
	s.up.reading.Lock()
	defer s.up.reading.Unlock()
	patience := farewellTimeout
	if s.patient {
		patience = lastBytesTimeout
	}
	end := time.Now().Add(patience)
	_ = s.conn.SetReadDeadline(end)
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(io.Discard, s.conn)
	}()
	select {
	case <-read:
	case <-ending:
		if soon := time.Now().Add(grace); soon.Before(end) {
			_ = s.conn.SetReadDeadline(soon)
		}
		<-read
	}
}

// expectEnd starts the timer that ends the session if no bytes move.
func (s *splice) expectEnd(cancel context.CancelCauseFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.idle == nil && !s.over {
		s.idle = time.AfterFunc(halfClosedIdle, func() { cancel(errIdle) })
	}
}

func (s *splice) moved() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.idle != nil && !s.over {
		s.idle.Reset(halfClosedIdle)
	}
}

func (s *splice) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	if s.idle != nil {
		s.idle.Stop()
	}
}

// closeWrite ends one direction and leaves the other open. It reports false for a connection that
// cannot do that; such a connection is closed completely soon after.
func closeWrite(conn net.Conn) bool {
	half, ok := conn.(interface{ CloseWrite() error })
	return ok && half.CloseWrite() == nil // if it fails, the peer is gone
}
