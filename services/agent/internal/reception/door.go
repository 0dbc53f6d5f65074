// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reception

import (
	"context"
	"crypto/tls"
	"net"
	"slices"
	"sync"
	"time"
)

// door holds the connections of peers that have not proved to be the hub, oldest first, and each
// for a short time. Beyond the limit it closes the oldest. An attacker that keeps many connections
// open cannot keep the hub out, because the hub needs only a few round trips. It is safe for
// concurrent use.
type door struct {
	mu      sync.Mutex
	waiting []*visitor
}

// guard counts the listener's connections.
func (d *door) guard(listener net.Listener) net.Listener {
	return &guarded{Listener: listener, door: d}
}

func (d *door) add(v *visitor) {
	d.mu.Lock()
	d.waiting = append(d.waiting, v)
	var oldest *visitor
	if len(d.waiting) > maxUnproven {
		oldest, d.waiting = d.waiting[0], slices.Clone(d.waiting[1:])
	}
	d.mu.Unlock()
	if oldest != nil {
		_ = oldest.Close()
	}
}

func (d *door) remove(v *visitor) {
	v.patience.Stop()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiting = slices.DeleteFunc(d.waiting, func(other *visitor) bool { return other == v })
}

type visitorKey struct{}

// enter attaches the connection to the context of its request.
func (*door) enter(ctx context.Context, conn net.Conn) context.Context {
	if secured, ok := conn.(*tls.Conn); ok {
		return context.WithValue(ctx, visitorKey{}, secured.NetConn())
	}
	return ctx
}

// leave releases a connection that is the hub's.
func (d *door) leave(ctx context.Context) {
	if v, ok := ctx.Value(visitorKey{}).(*visitor); ok {
		d.remove(v)
	}
}

type guarded struct {
	net.Listener

	door *door
}

// Accept implements net.Listener.
func (g *guarded) Accept() (net.Conn, error) {
	conn, err := g.Listener.Accept()
	if err != nil {
		return nil, err
	}
	v := &visitor{Conn: conn, door: g.door}
	v.patience = time.AfterFunc(proofTimeout, func() { _ = v.Close() })
	g.door.add(v)
	return v, nil
}

// visitor is an unproved connection.
type visitor struct {
	net.Conn

	door     *door
	patience *time.Timer
}

// NetConn returns the connection below for HTTP/2.
func (v *visitor) NetConn() net.Conn { return v.Conn }

// Close implements net.Conn.
func (v *visitor) Close() error {
	v.door.remove(v)
	return v.Conn.Close()
}
