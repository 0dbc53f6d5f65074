// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
)

// unencryptedHTTP2 is the key under which net/http and golang.org/x/net/http2 keep the function that serves HTTP/2
// without TLS, in http.Server.TLSNextProto. The preface was read by then.
const unencryptedHTTP2 = "unencrypted_http2"

// detached are connections over HTTP/2 without TLS that are served in goroutines of their own.
//
// net/http reads the first bytes of such a connection as HTTP/1.1. It keeps the two buffers of HTTP/1.1, 4 KiB each,
// until the function that serves HTTP/2 returns, though nothing uses them any more. An agent's connection lasts for
// days. Therefore that function returns at once here, and net/http takes the connection for closed, and the buffers
// for the next one. What http.Server did for the connection until its end is done here: Shutdown waits for it, Close
// closes it, and a panic of the server costs this connection alone. It is safe for concurrent use.
type detached struct {
	// contextOf returns the context of a connection's requests, and forget is called when it is closed.
	contextOf func(base context.Context, conn net.Conn) context.Context
	forget    func(conn net.Conn)

	mu       sync.Mutex
	conns    map[*turnConn]struct{}
	isClosed bool
	empty    chan struct{} // closed when there is no connection; nil: nobody waits
}

func newDetached(contextOf func(context.Context, net.Conn) context.Context, forget func(net.Conn)) *detached {
	return &detached{contextOf: contextOf, forget: forget, conns: map[*turnConn]struct{}{}}
}

// detachListener accepts connections that can be detached. A server fills TLSNextProto before its first Accept, and
// reads it afterwards alone: so the first Accept is when install may change it.
type detachListener struct {
	net.Listener

	once    *sync.Once
	install func()
}

// Accept implements net.Listener.
func (l detachListener) Accept() (net.Conn, error) {
	l.once.Do(l.install)
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &plainConn{turnConn: &turnConn{Conn: conn}}, nil
}

// listen returns a listener for the server, which must not use TLS. Connections take turns, as those of turnListener do.
func (d *detached) listen(listener net.Listener, server *http.Server) net.Listener {
	return detachListener{Listener: listener, once: new(sync.Once), install: func() { d.install(server) }}
}

// install has the server serve HTTP/2 without TLS in goroutines of their own. A server that has no such function under
// that key goes on as it is.
func (d *detached) install(server *http.Server) {
	serveConn := server.TLSNextProto[unencryptedHTTP2]
	if serveConn == nil {
		return
	}
	server.TLSNextProto[unencryptedHTTP2] = func(server *http.Server, secured *tls.Conn, handler http.Handler) {
		conn := plainConnOf(secured)
		if conn == nil {
			serveConn(server, secured, handler)
			return
		}
		d.detach(conn, server, func() {
			handler := handlerOf{Handler: handler, newContext: func() context.Context {
				return d.contextOf(server.BaseContext(nil), conn)
			}}
			serveConn(server, tls.Client(unencrypted{conn: conn.turnConn}, nil), handler)
		})
	}
}

// detach runs serve in a goroutine of its own. The connection lasts until serve returns.
func (d *detached) detach(conn *plainConn, server *http.Server, serve func()) {
	if !d.enter(conn.turnConn) {
		return
	}
	conn.isDetached.Store(true)
	go func() {
		defer d.leave(conn)
		defer func() {
			if value := recover(); value != nil {
				server.ErrorLog.Printf("http: panic serving %v: %v\n%s", conn.RemoteAddr(), value, debug.Stack())
			}
		}()
		serve()
	}()
}

// enter adds a connection. It reports false if all were closed.
func (d *detached) enter(conn *turnConn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.isClosed {
		return false
	}
	d.conns[conn] = struct{}{}
	return true
}

// leave closes a connection whose server has returned, and forgets it.
func (d *detached) leave(conn *plainConn) {
	_ = conn.turnConn.Close() // its server has closed it, unless it panicked
	d.forget(conn)
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.conns, conn.turnConn)
	if len(d.conns) == 0 && d.empty != nil {
		close(d.empty)
		d.empty = nil
	}
}

// await blocks until there is no connection, or until ctx ends, and returns its error then.
func (d *detached) await(ctx context.Context) error {
	d.mu.Lock()
	if len(d.conns) == 0 {
		d.mu.Unlock()
		return nil
	}
	if d.empty == nil {
		d.empty = make(chan struct{})
	}
	empty := d.empty
	d.mu.Unlock()
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// close closes all connections, and those that would be detached later.
func (d *detached) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.isClosed = true
	for conn := range d.conns {
		_ = conn.Close()
	}
}

// plainConnOf returns the connection that net/http passes on in the form of one of TLS, or nil if it is another one.
func plainConnOf(secured *tls.Conn) *plainConn {
	passed, ok := secured.NetConn().(interface{ UnencryptedNetConn() net.Conn })
	if !ok {
		return nil
	}
	conn, _ := passed.UnencryptedNetConn().(*plainConn)
	return conn
}

// unencrypted is a connection in the form in which net/http's function of HTTP/2 without TLS takes it.
type unencrypted struct {
	net.Conn // nil: nothing else is used

	conn net.Conn
}

// UnencryptedNetConn returns the connection.
func (u unencrypted) UnencryptedNetConn() net.Conn { return u.conn }

// handlerOf is net/http's handler for a connection, with another context: the one of net/http ends with its goroutine.
type handlerOf struct {
	http.Handler

	newContext func() context.Context
}

// BaseContext is called by net/http.
func (h handlerOf) BaseContext() context.Context { return h.newContext() }
