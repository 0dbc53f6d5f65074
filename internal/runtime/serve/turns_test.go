// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

// arrive opens a connection that takes turns as one of an address does, and sends a byte on it. The
// channel returns how long the server took to read it.
func arrive(t *testing.T, all *turns, from string) (*turnConn, <-chan time.Duration) {
	t.Helper()
	near, far := net.Pipe()
	listener := turnListener{oneConn{conn: far}}
	accepted, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	conn := all.join(accepted, netip.MustParsePrefix(from), false)
	took, began := make(chan time.Duration, 1), time.Now()
	go func() { _, _ = near.Write([]byte("x")) }()
	go func() {
		_, _ = conn.Read(make([]byte, 1))
		took <- time.Since(began)
	}()
	t.Cleanup(func() { _ = conn.Close() })
	return conn, took
}

type oneConn struct {
	net.Listener

	conn net.Conn
}

func (l oneConn) Accept() (net.Conn, error) { return l.conn, nil }

// TestSecConnectionsTakeTurns has connections of one address read at once. Past its quarter of the
// turns they wait, and others do not.
func TestSecConnectionsTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := newTurns()
		const own = turnsAtOnce / addressShare
		reading := make([]*turnConn, own)
		for i := range reading {
			var took <-chan time.Duration
			if reading[i], took = arrive(t, all, "203.0.113.1/32"); <-took != 0 {
				t.Error("a connection waited, although there were turns left")
			}
		}
		waiting, took := arrive(t, all, "203.0.113.1/32")
		if _, others := arrive(t, all, "203.0.113.2/32"); <-others != 0 {
			t.Error("a connection of another address waited")
		}
		synctest.Wait()
		select {
		case <-took:
			t.Fatal("a connection past the address's turns did not wait")
		default:
		}
		go func() { _, _ = reading[0].Read(make([]byte, 1)) }() // the server reads again
		if waited := <-took; waited != 0 {
			t.Errorf("got %v until the turn that was free, want none", waited)
		}
		waiting.finish()
		if _, took := arrive(t, all, "203.0.113.1/32"); <-took != 0 {
			t.Error("a connection waited for one whose caller is verified")
		}
		_, took = arrive(t, all, "203.0.113.1/32")
		synctest.Wait()
		_ = reading[1].Close()
		if waited := <-took; waited != 0 {
			t.Errorf("got %v after a connection closed, want its turn", waited)
		}
		verified, took := arrive(t, all, "203.0.113.1/32")
		synctest.Wait()
		verified.finish()
		if waited := <-took; waited != 0 {
			t.Errorf("got %v after the caller was verified, want an end of the wait", waited)
		}
		_, took = arrive(t, all, "203.0.113.1/32")
		if waited := <-took; waited != turnLasts {
			t.Errorf("got %v, want %v: a connection that the server does not read again loses its turn", waited, turnLasts)
		}
	})
}
