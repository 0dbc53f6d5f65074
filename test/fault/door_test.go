// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fault_test

import (
	"crypto/tls"
	"io"
	"net"
	"sync/atomic"
	"testing"
)

// door is the one address of several replicas, as a load balancer has it. It hands each connection to
// the next replica that accepts one.
type door struct {
	addr     string
	replicas []string
	next     atomic.Int64
}

// newDoor opens a door in front of replicas, which do not have to listen yet. With a configuration of
// TLS it terminates that, and the replicas get plain text.
func newDoor(t *testing.T, config *tls.Config, replicas ...string) *door {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &door{addr: listener.Addr().String(), replicas: replicas}
	if config != nil {
		listener = tls.NewListener(listener, config)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go d.pass(conn)
		}
	}()
	return d
}

func (d *door) url() string { return "http://" + d.addr }

// pass copies between a caller and a replica until both have closed, or one has broken off. It closes
// the caller's connection at once if no replica accepts one.
func (d *door) pass(caller net.Conn) {
	defer caller.Close()
	replica := d.dial()
	if replica == nil {
		return
	}
	defer replica.Close()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		carry(caller, replica)
	}()
	carry(replica, caller)
	<-answered
}

func (d *door) dial() net.Conn {
	first := d.next.Add(1)
	for i := range d.replicas {
		conn, err := net.Dial("tcp", d.replicas[(int(first)+i)%len(d.replicas)])
		if err == nil {
			return conn
		}
	}
	return nil
}

// carry copies one direction, and passes its end on. A direction that breaks off ends both.
func carry(to, from net.Conn) {
	_, err := io.Copy(to, from)
	half, canHalf := to.(interface{ CloseWrite() error })
	if err != nil || !canHalf || half.CloseWrite() != nil {
		_, _ = to.Close(), from.Close()
	}
}
