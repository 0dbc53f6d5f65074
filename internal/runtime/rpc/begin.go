// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"
)

// errMute does not match os.ErrDeadlineExceeded, which is about the deadline of a call.
var errMute = errors.New("the server accepts the connection and sends nothing")

// beginning is a connection whose server has to send its first byte in time. A server of HTTP/2
// begins with its settings, whatever is requested. The kernel accepts connections for a process that
// is frozen, too, and each of them would cost a caller the time of a ping.
type beginning struct {
	net.Conn

	hasBegun bool // of the one goroutine that reads
}

// expectAnswer bounds the time until the first byte, and closes the connection if it cannot.
func expectAnswer(conn net.Conn) (net.Conn, error) {
	if err := conn.SetReadDeadline(time.Now().Add(beginTimeout)); err != nil {
		return nil, errors.Join(fmt.Errorf("bound the first answer: %w", err), conn.Close())
	}
	return &beginning{Conn: conn}, nil
}

// Read implements net.Conn.
func (b *beginning) Read(p []byte) (int, error) {
	n, err := b.Conn.Read(p)
	switch {
	case b.hasBegun:
	case n > 0:
		b.hasBegun = true
		if unset := b.SetReadDeadline(time.Time{}); err == nil {
			err = unset
		}
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = errMute
	}
	return n, err
}
