// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fault_test

import (
	"io"
	"net"
	"sync"
	"testing"
)

// wire is the way of one replica to Redis: a TCP proxy that can be cut.
type wire struct {
	listener net.Listener
	target   string

	mu    sync.Mutex
	cut   bool
	conns map[net.Conn]bool
}

func newWire(t *testing.T, target string) *wire {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{listener: listener, target: target, conns: make(map[net.Conn]bool)}
	var serving sync.WaitGroup
	serving.Go(func() { w.serve(&serving) })
	t.Cleanup(func() {
		_ = listener.Close()
		w.setCut(true)
		serving.Wait()
	})
	return w
}

func (w *wire) url() string { return "redis://" + w.listener.Addr().String() + "/0" }

func (w *wire) serve(serving *sync.WaitGroup) {
	for {
		conn, err := w.listener.Accept()
		if err != nil {
			return
		}
		serving.Go(func() { w.pass(conn) })
	}
}

// pass carries one connection until either side ends it, or the wire is cut.
func (w *wire) pass(near net.Conn) {
	defer near.Close()
	far, err := net.Dial("tcp", w.target)
	if err != nil {
		return
	}
	defer far.Close()
	if !w.keep(near) {
		return
	}
	defer w.drop(near)
	done := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
		go func() {
			_, _ = io.Copy(way[0], way[1])
			done <- struct{}{}
		}()
	}
	<-done
	_ = near.Close()
	_ = far.Close()
	<-done
}

func (w *wire) keep(conn net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.cut {
		w.conns[conn] = true
	}
	return !w.cut
}

func (w *wire) drop(conn net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.conns, conn)
}

// setCut ends all connections and lets no new one through, or lets them through again.
func (w *wire) setCut(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = cut
	if !cut {
		return
	}
	for conn := range w.conns {
		_ = conn.Close()
	}
}
