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

	"github.com/leatdev/leat/internal/kit/wake"
)

// upgradeBody is the body of an upgrade request. It has no byte before the cluster has agreed, and
// then the bytes that the caller sends. The HTTP/2 client reads it in a goroutine of its own.
type upgradeBody struct {
	upload upload             // counts; its reader is not used
	tap    func([]byte) error // records
	count  func(n int) error  // an error means that a quota is used up

	started  chan struct{} // closed when from is set
	from     upgradedConn
	finished chan struct{} // closed when no more is read
	once     sync.Once
	closing  sync.Once
	reading  sync.Mutex // held by the goroutine that reads the caller's connection
}

// upgradedConn is a caller's connection, with functions that are called for what happens on it.
type upgradedConn struct {
	conn   net.Conn
	early  []byte // what was read from the connection before
	moved  func()
	ended  func()
	failed func(error)
}

func newUpgradeBody(tap func([]byte) error, count func(int) error) *upgradeBody {
	return &upgradeBody{tap: tap, count: count, started: make(chan struct{}), finished: make(chan struct{})}
}

// start begins to read the caller's bytes. It is called at most once.
func (u *upgradeBody) start(from upgradedConn) {
	u.from = from
	close(u.started)
}

// Read implements io.Reader.
func (u *upgradeBody) Read(p []byte) (int, error) {
	select {
	case <-u.started:
	case <-u.finished:
		return 0, io.ErrClosedPipe
	}
	u.reading.Lock()
	defer u.reading.Unlock()
	if wake.IsClosed(u.finished) {
		return 0, io.ErrClosedPipe
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
	case err != nil && !wake.IsClosed(u.finished): // otherwise Close has caused it
		u.from.failed(err)
	}
	return n, err
}

func (u *upgradeBody) read(p []byte) (int, error) {
	if len(u.from.early) > 0 {
		n := copy(p, u.from.early)
		u.from.early = u.from.early[n:]
		return n, nil
	}
	return u.from.conn.Read(p)
}

func (u *upgradeBody) finish() { u.once.Do(func() { close(u.finished) }) }

// Close implements io.Closer: it stops reading, and a blocked Read returns. Only the first call
// touches the connection, which has another reader afterwards.
func (u *upgradeBody) Close() (err error) {
	u.finish()
	u.closing.Do(func() {
		if wake.IsClosed(u.started) {
			err = u.from.conn.SetReadDeadline(time.Unix(1, 0))
		}
	})
	return err
}
