// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package watch_test

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// proxy forwards TCP connections to a server, and breaks them on demand.
type proxy struct {
	target   string
	listener net.Listener
	group    sync.WaitGroup

	mu    sync.Mutex
	links map[*link]bool
	fate  func() fate // of new connections; nil lets them live
}

// fate is how a connection ends.
type fate struct {
	bytes  int           // from the server until it breaks; 0: it does not
	silent bool          // it does not break but is heard of no more
	delay  time.Duration // of all the server's messages
}

// link is one connection.
type link struct {
	client, server net.Conn

	mu     sync.Mutex
	fate   fate
	silent bool
}

func startProxy(t *testing.T, target string) *proxy {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{target: target, listener: listener, links: map[*link]bool{}}
	p.group.Go(p.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		p.cut()
		p.group.Wait()
	})
	return p
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // the test is over
		}
		server, err := new(net.Dialer).DialContext(context.Background(), "tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.connect(&link{client: client, server: server})
	}
}

func (p *proxy) connect(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fate != nil {
		l.fate = p.fate()
	}
	p.links[l] = true
	p.group.Go(func() {
		_, _ = io.Copy(l.server, l.client)
		l.close()
	})
	p.group.Go(func() {
		l.answer()
		l.close()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.links, l)
	})
}

func (l *link) close() {
	_ = l.client.Close()
	_ = l.server.Close()
}

// answer forwards the server's bytes.
func (l *link) answer() {
	buffer := make([]byte, 4096)
	for {
		n, err := l.server.Read(buffer)
		if err != nil {
			return
		}
		part, live := l.pass(n)
		if part > 0 {
			if _, err := l.client.Write(buffer[:part]); err != nil {
				return
			}
		}
		if !live {
			return
		}
	}
}

// pass returns how many of n bytes are forwarded, and whether the connection stays open.
func (l *link) pass(n int) (part int, live bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fate.delay > 0 {
		<-time.After(l.fate.delay)
	}
	switch {
	case l.silent:
		return 0, true
	case l.fate.bytes == 0:
		return n, true
	case n < l.fate.bytes:
		l.fate.bytes -= n
		return n, true
	default:
		l.silent = l.fate.silent
		return l.fate.bytes, l.silent
	}
}

// each calls a function for every connection.
func (p *proxy) each(do func(*link)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		do(l)
	}
}

func (p *proxy) cut() { p.each((*link).close) }

func (p *proxy) freeze() {
	p.each(func(l *link) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.silent = true
	})
}

func (p *proxy) setFate(fate func() fate) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fate = fate
}
