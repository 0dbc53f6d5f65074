// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/internal/testkit/rpctest"
	"github.com/leatdev/leat/services/tunnel"
)

// virtually runs a test with a whole hub in a bubble of testing/synctest: half an hour of it takes
// no time. The settings are those of production. There are no sockets, so that connections have no
// buffers of the kernel's.
func virtually(t *testing.T, change func(*tunnel.Config), test func(t *testing.T, h *hub)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := bareHub(t)
		distributor := rpctest.Start(h.distributor())
		t.Cleanup(func() {
			if err := distributor.Close(); err != nil {
				t.Errorf("close distributor: %v", err)
			}
		})
		h.url, h.transport = rpctest.BaseURL, distributor.Transport()
		test(t, h.virtual(change))
	})
}

// virtual starts another replica in the bubble.
func (h *hub) virtual(change func(*tunnel.Config)) *hub {
	h.tb.Helper()
	another, pipes := *h, newPipes()
	another.dial = pipes.dial
	return another.replicaAt(pipes, func(cfg *tunnel.Config) {
		cfg.Serve.DrainTimeout = 25 * time.Second // the default
		cfg.DistributorTransport = h.transport
		if change != nil {
			change(cfg)
		}
	})
}

// pipes is a listener without a port.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		return here, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

// Addr implements net.Listener.
func (*pipes) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "hub.test:80" }
