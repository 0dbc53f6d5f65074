// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fault_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"
)

// wire is one replica's connection to Redis, or the connection of the other replicas to it: a TCP
// proxy that can be cut, slowed down and redirected.
type wire struct {
	listener net.Listener

	mu     sync.Mutex
	target string
	delay  time.Duration // of all bytes, in each direction
	cut    bool
	conns  map[net.Conn]bool
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

func (w *wire) addr() string { return w.listener.Addr().String() }

func (w *wire) serve(serving *sync.WaitGroup) {
	for {
		conn, err := w.listener.Accept()
		if err != nil {
			return
		}
		serving.Go(func() { w.pass(conn) })
	}
}

// pass forwards one connection until either side ends it, or the wire is cut.
func (w *wire) pass(near net.Conn) {
	defer near.Close()
	target, kept := w.keep(near)
	if !kept {
		return
	}
	defer w.drop(near)
	far, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer far.Close()
	done := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
		go func() {
			w.carry(way[0], way[1])
			done <- struct{}{}
		}()
	}
	<-done
	_ = near.Close()
	_ = far.Close()
	<-done
}

// carry copies in one direction until it ends, with the wire's delay.
func (w *wire) carry(to, from net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		rest(context.Background(), w.slowness())
		if _, failed := to.Write(buffer[:n]); failed != nil || err != nil {
			return
		}
	}
}

func (w *wire) slowness() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.delay
}

// setDelay delays all bytes by that much.
func (w *wire) setDelay(delay time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.delay = delay
}

// keep registers a new connection and returns its target, or false if the wire is cut.
func (w *wire) keep(conn net.Conn) (target string, kept bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.cut {
		w.conns[conn] = true
	}
	return w.target, !w.cut
}

// lead directs new connections to another server, and ends the current ones.
func (w *wire) lead(target string) {
	w.setCut(true)
	defer w.setCut(false)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.target = target
}

func (w *wire) drop(conn net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.conns, conn)
}

// setCut ends all connections and refuses new ones, or accepts them again.
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
