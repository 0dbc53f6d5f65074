// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kubeproxy

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// uplift is the body of an upgrade request: it has no byte before the cluster has agreed, and then those that the caller
// sends. The HTTP/2 client reads it in a goroutine of its own.
type uplift struct {
	upload upload             // counts; its reader is not used
	tap    func([]byte) error // records
	count  func(n int) error  // an error means that a quota is used up

	started  chan struct{} // closed when from is set
	from     lifted
	finished chan struct{} // closed when no more is read
	once     sync.Once
	closing  sync.Once
	reading  sync.Mutex // held by who reads the caller's connection
}

// lifted is a caller's connection, and who is told of it.
type lifted struct {
	conn   net.Conn
	early  []byte // what was read from the connection before
	moved  func()
	ended  func()
	failed func(error)
}

func newUplift(tap func([]byte) error, count func(int) error) *uplift {
	return &uplift{tap: tap, count: count, started: make(chan struct{}), finished: make(chan struct{})}
}

// start lets the caller's bytes flow. It is called once at the most.
func (u *uplift) start(from lifted) {
	u.from = from
	close(u.started)
}

// Read implements io.Reader.
func (u *uplift) Read(p []byte) (int, error) {
	select {
	case <-u.started:
	case <-u.finished:
		return 0, io.ErrClosedPipe
	}
	u.reading.Lock()
	defer u.reading.Unlock()
	select {
	case <-u.finished:
		return 0, io.ErrClosedPipe
	default:
	}
	n, err := u.read(p)
	if n > 0 {
		u.upload.bytes.Add(int64(n))
		u.from.moved()
		if err := u.count(n); err != nil {
			return 0, err
		}
		if tapped := u.tap(p[:n]); tapped != nil {
			return 0, fmt.Errorf("%w: %w", errUnrecorded, tapped)
		}
	}
	switch {
	case errors.Is(err, io.EOF):
		u.from.ended()
		u.finish()
	case err != nil:
		u.failRead(err)
	}
	return n, err
}

func (u *uplift) read(p []byte) (int, error) {
	if len(u.from.early) > 0 {
		n := copy(p, u.from.early)
		u.from.early = u.from.early[n:]
		return n, nil
	}
	return u.from.conn.Read(p)
}

// failRead reports a failure of the caller's connection. One that Close has brought about is none.
func (u *uplift) failRead(err error) {
	select {
	case <-u.finished:
	default:
		u.from.failed(err)
	}
}

func (u *uplift) finish() { u.once.Do(func() { close(u.finished) }) }

// Close implements io.Closer: it stops reading, and a blocked Read returns. Only the first call touches the connection,
// which has another reader afterwards.
func (u *uplift) Close() (err error) {
	u.finish()
	u.closing.Do(func() {
		select {
		case <-u.started:
			err = u.from.conn.SetReadDeadline(time.Unix(1, 0))
		default:
		}
	})
	return err
}
