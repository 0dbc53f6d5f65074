// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package chaos is a TCP proxy between two parties of a test that does to their connections what
// networks, load balancers and ingresses do: it delays, throttles, cuts idle connections, resets
// them, goes silent, drops keep-alive frames, or supports less of HTTP than it should. Every fault
// is a method that may be called while connections are open:
//
//	proxy := chaos.Start(t, chaos.Params{Target: server.Listener.Addr().String()})
//	proxy.Delay(30 * time.Millisecond)
//	proxy.EatPings()
//	proxy.IdleCut(30 * time.Second)
//	… connect to proxy.Addr() …
//
// Inside a testing/synctest bubble sockets cannot be used, because time advances only while every
// goroutine waits on something of the bubble. There, New with a Dial that returns one end of a
// net.Pipe, and [Proxy.Pipe] to connect, make a proxy whose idle minutes cost nothing.
package chaos

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/kit/wake"
)

// Params set where a proxy leads.
type Params struct {
	// Target is the address, host:port, to which connections are passed on. Not needed with Dial.
	Target string
	// Dial opens the connection to the target. Nil: TCP to Target.
	Dial func(ctx context.Context) (net.Conn, error)
	// TLS terminates TLS at the HTTP hop, as an ingress does. Nil: plain text. The hop sets its
	// NextProtos.
	TLS *tls.Config
	// TargetTLS is how the HTTP hop speaks TLS to the target. Nil: plain text.
	TargetTLS *tls.Config
}

// Proxy forwards connections and applies the faults that its methods set. They are safe for
// concurrent use.
type Proxy struct {
	params   Params
	listener net.Listener           // nil when only Pipe is used
	base     func() context.Context // ends with the proxy
	cancel   context.CancelFunc
	running  sync.WaitGroup

	mu       sync.Mutex
	faults   faults
	changed  wake.Broadcast // notified when faults change
	links    map[*link]struct{}
	accepted int
	hop      *hop // nil: bytes are forwarded unchanged
	retired  []*hop
	closed   bool
}

// faults are the current faults.
type faults struct {
	rtt      time.Duration
	rate     int // bytes a second and direction; 0: unlimited
	idle     time.Duration
	halfOpen bool
	frozen   bool
	eatPings bool
}

// Start runs a proxy on a loopback port of its own until the test ends.
func Start(t testing.TB, p Params) *Proxy {
	t.Helper()
	proxy := New(p)
	if err := proxy.Listen(); err != nil {
		t.Fatalf("chaos: %v", err)
	}
	t.Cleanup(proxy.Close)
	return proxy
}

// Listen accepts connections on its own loopback port, which Addr returns. It is called once.
func (p *Proxy) Listen() error {
	listener, err := (&net.ListenConfig{}).Listen(p.base(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	p.listener = listener
	p.running.Go(p.accept)
	return nil
}

// New returns a proxy without a port: connections begin with Pipe, or after Listen. Close ends it.
func New(p Params) *Proxy {
	if p.Dial == nil {
		p.Dial = func(ctx context.Context) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", p.Target)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	return &Proxy{
		params: p, base: func() context.Context { return ctx }, cancel: cancel,
		links: make(map[*link]struct{}),
	}
}

// Addr returns where the proxy listens, host:port.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Pipe opens a connection through the proxy that uses no sockets on this side.
func (p *Proxy) Pipe() net.Conn {
	near, far := net.Pipe()
	p.running.Go(func() { p.carry(far) })
	return near
}

// Close ends all connections and blocks until all of the proxy's goroutines have ended.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	hops := p.retired
	if p.hop != nil {
		hops = append(hops, p.hop)
	}
	p.mu.Unlock()
	p.cancel()
	if p.listener != nil {
		_ = p.listener.Close()
	}
	p.Cut()
	for _, h := range hops {
		h.close()
	}
	p.running.Wait()
}

// Delay makes every byte take rtt/2 in each direction. Bytes keep their order.
func (p *Proxy) Delay(rtt time.Duration) { p.change(func(f *faults) { f.rtt = rtt }) }

// Cap limits each direction of a connection to so many bytes a second. 0 ends it.
func (p *Proxy) Cap(bytesPerSecond int) { p.change(func(f *faults) { f.rate = bytesPerSecond }) }

// IdleCut closes a connection on which no byte was forwarded in either direction for d, as a load
// balancer does. Bytes that EatPings dropped do not count. 0 ends it.
func (p *Proxy) IdleCut(d time.Duration) { p.change(func(f *faults) { f.idle = d }) }

// EatPings drops, from now on and in both directions, the PING frames of HTTP/2 and the ping and
// pong frames of WebSocket, including those after an Upgrade. It cannot see frames inside TLS.
func (p *Proxy) EatPings() { p.change(func(f *faults) { f.eatPings = true }) }

// HalfOpen silences all connections, present and future: bytes vanish, and neither end learns that
// the other has closed or died. Present connections stay silent for ever.
func (p *Proxy) HalfOpen() {
	p.change(func(f *faults) { f.halfOpen = true })
	for _, l := range p.snapshot() {
		l.silent.Store(true)
	}
}

// Freeze stops the proxy reading and writing, so that the buffers of both ends fill up. Thaw
// resumes.
func (p *Proxy) Freeze() { p.change(func(f *faults) { f.frozen = true }) }

// Thaw ends Freeze.
func (p *Proxy) Thaw() { p.change(func(f *faults) { f.frozen = false }) }

// Reset ends all connections with RST, to both ends.
func (p *Proxy) Reset() {
	for _, l := range p.snapshot() {
		l.reset()
	}
}

// Cut ends all connections with FIN, to both ends.
func (p *Proxy) Cut() {
	for _, l := range p.snapshot() {
		l.close()
	}
}

// Open returns the number of open connections.
func (p *Proxy) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

// Accepted returns the number of connections so far.
func (p *Proxy) Accepted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
}

// accept accepts connections until the listener is closed.
func (p *Proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			p.running.Go(func() { p.carry(conn) })
		}
	}
}

// carry connects the client with the target and returns when both have finished.
func (p *Proxy) carry(client net.Conn) {
	p.mu.Lock()
	dial, silent := p.params.Dial, p.faults.halfOpen
	if hop := p.hop; hop != nil {
		dial = func(ctx context.Context) (net.Conn, error) { return hop.listener.Dial(ctx, "", "") }
	}
	p.mu.Unlock()
	server, err := dial(p.base())
	if err != nil {
		reset(client) // as close as possible to a port without a listener
		return
	}
	l := newLink(p, client, server)
	l.silent.Store(silent)
	p.mu.Lock()
	p.accepted++
	if p.closed {
		l.close()
	}
	p.links[l] = struct{}{}
	p.mu.Unlock()
	l.run()
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

// now returns the current faults, and a channel that is closed when they change.
func (p *Proxy) now() (faults, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.faults, p.changed.Next()
}

func (p *Proxy) change(set func(*faults)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	set(&p.faults)
	p.changed.Notify()
}

func (p *Proxy) snapshot() []*link {
	p.mu.Lock()
	defer p.mu.Unlock()
	links := make([]*link, 0, len(p.links))
	for l := range p.links {
		links = append(links, l)
	}
	return links
}
