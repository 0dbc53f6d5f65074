// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/instrument"
)

// These are the default bounds of what unauthenticated callers may hold together. A connection over
// TLS costs about 35 KiB, a request whose caller does not read the answer about 25 KiB.
const (
	defaultAnonymousConnections = 2000
	defaultAnonymousRequests    = 1000
	// reportInterval is the minimum time between two log messages about a bound.
	reportInterval = time.Minute
)

// anonymous bounds what unauthenticated callers hold.
//
// A connection is anonymous until a request on it is verified ([identity.Verified]), and a request
// until it is verified itself. Past a bound the oldest anonymous connection is closed, or the
// oldest anonymous request reset. A request counts until its answer is handed to the network, so
// that answers for peers that do not read also count.
//
// One address, or one /64 of IPv6, may use a quarter of each bound. Loopback addresses and trusted
// proxies may use all of it, because many callers share them. It is safe for concurrent use.
type anonymous struct {
	logger  *slog.Logger
	trusted *proxies

	connections *crowd[*connection]
	requests    *crowd[*visit]

	turns *turns

	ended, reset metric.Int64Counter

	mu       sync.Mutex
	open     map[net.Conn]*connection
	reported time.Time
}

// connection is an accepted connection that is not closed.
type connection struct {
	conn net.Conn
	from netip.Prefix
	// shared reports that many callers may use its address.
	shared bool
	known  atomic.Bool
	place  *place[*connection]
	turn   *turnConn // nil: the listener was not the one of [turns]
}

// passTurn ends the connection's turn, if it has one.
func (c *connection) passTurn() {
	if c.turn != nil {
		c.turn.pass()
	}
}

// takeNoTurns ends the turns of a connection that is closed, or that a handler has hijacked.
func (c *connection) takeNoTurns(t *turns) {
	if c.turn != nil {
		c.turn.finish()
		t.leave(c.turn)
	}
}

// newAnonymous returns the bounds of one server. A bound of zero is replaced by its default.
func newAnonymous(cfg Config, trusted *proxies, logger *slog.Logger, meter metric.Meter) (*anonymous, error) {
	a := &anonymous{
		logger: logger, trusted: trusted, open: map[net.Conn]*connection{}, turns: newTurns(),
		connections: newCrowd[*connection](cmp.Or(cfg.AnonymousConnections, defaultAnonymousConnections)),
		requests:    newCrowd[*visit](cmp.Or(cfg.AnonymousRequests, defaultAnonymousRequests)),
	}
	set := instrument.New(meter)
	a.ended = set.Int64Counter("leat.serve.connections.ended", "{connection}",
		"Connections closed because there were too many unauthenticated callers.")
	a.reset = set.Int64Counter("leat.serve.requests.reset", "{request}",
		"Requests reset because there were too many unauthenticated callers.")
	set.Int64ObservableGauge("leat.serve.connections.anonymous", "{connection}",
		"Connections of unauthenticated callers.", instrument.Value(func() int64 { return int64(a.connections.len()) }))
	return a, set.Err()
}

// install makes the server count its connections and requests.
func (a *anonymous) install(server *http.Server) {
	server.ConnContext = a.accept
	server.ConnState = func(conn net.Conn, state http.ConnState) {
		if state == http.StateHijacked {
			if c, ok := rawConn(conn).(*turnConn); ok {
				c.handedOver.Store(true)
			}
		}
		if isOver := state == http.StateClosed || state == http.StateHijacked; isOver && !isDetached(conn) {
			a.leave(conn)
		}
	}
	server.Handler = a.wrap(server.Handler)
}

type connectionKey struct{}

// accept counts a new connection, and closes the oldest one if a bound is exceeded.
func (a *anonymous) accept(ctx context.Context, conn net.Conn) context.Context {
	address := peerOf(conn)
	c := &connection{conn: conn, from: prefixOf(address), shared: a.isShared(address)}
	c.turn = a.turns.join(conn, c.from, c.shared)
	p, crowdedOut := a.connections.add(c, c.from, c.shared)
	c.place = p
	a.mu.Lock()
	a.open[conn] = c
	a.mu.Unlock()
	if crowdedOut != nil {
		_ = rawConn(crowdedOut.value.conn).Close() // its server notices this and reports the connection closed
		a.ended.Add(ctx, 1)
		a.report(ctx, "too many anonymous connections, the oldest are closed", crowdedOut.from)
	}
	return context.WithValue(ctx, connectionKey{}, c)
}

// contextOf returns the context of an open connection's requests.
func (a *anonymous) contextOf(ctx context.Context, conn net.Conn) context.Context {
	a.mu.Lock()
	defer a.mu.Unlock()
	return context.WithValue(ctx, connectionKey{}, a.open[conn])
}

// isShared reports whether many callers may use an address.
func (a *anonymous) isShared(address netip.Addr) bool {
	return !address.IsValid() || address.IsLoopback() || a.trusted.includes(address)
}

// leave removes a connection that is closed, or that a handler has hijacked.
func (a *anonymous) leave(conn net.Conn) {
	a.mu.Lock()
	c, ok := a.open[conn]
	delete(a.open, conn)
	a.mu.Unlock()
	if ok {
		a.connections.leave(c.place)
		c.takeNoTurns(a.turns)
	}
}

// verified removes a connection from the anonymous ones.
func (a *anonymous) verified(c *connection) {
	if !c.known.Swap(true) {
		a.connections.leave(c.place)
		if c.turn != nil {
			c.turn.finish()
		}
	}
}

// wrap counts requests until they are verified or answered.
func (a *anonymous) wrap(next http.Handler) http.Handler { return &counted{anonymous: a, next: next} }

type counted struct {
	anonymous *anonymous
	next      http.Handler
}

// ServeHTTP implements http.Handler.
func (h *counted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := watchBody(r)
	v, r := h.anonymous.visit(w, r)
	if v == nil {
		h.next.ServeHTTP(w, r)
		body.drop()
		return
	}
	defer v.leave()
	h.next.ServeHTTP(w, r)
	body.drop()
	if r.ProtoMajor == 2 && !v.isKnown.Load() { // over HTTP/1.1 a connection has one answer at a time
		_ = v.answer.Flush() // fails if the connection was hijacked or is closed: there is nothing to wait for
	}
}

// visit counts a request of a caller who is not authenticated, and returns the request for the next handler. For others
// the visit is nil. It is a function of its own because the handler may run for days, and would keep this much of its
// stack.
func (a *anonymous) visit(w http.ResponseWriter, r *http.Request) (*visit, *http.Request) {
	c, _ := r.Context().Value(connectionKey{}).(*connection)
	if c == nil || c.known.Load() && !c.shared { // its caller is authenticated
		return nil, r
	}
	ctx, cancel := r.Context(), context.CancelFunc(nil) // over HTTP/2 the reset of the stream cancels the context
	if r.ProtoMajor < 2 {
		c.passTurn() // the server reads the connection again after the answer
		ctx, cancel = context.WithCancel(ctx)
	}
	v := a.enter(w, r, c, cancel)
	return v, r.WithContext(identity.OnVerified(ctx, v.verified))
}

// enter counts a request as anonymous, and resets the oldest one past a bound. Cancel may be nil.
func (a *anonymous) enter(w http.ResponseWriter, r *http.Request, c *connection, cancel context.CancelFunc) *visit {
	from, shared := c.from, c.shared
	if address, ok := ClientAddress(r); ok && c.shared {
		from, shared = prefixOf(address), a.isShared(address)
	}
	v := &visit{anonymous: a, connection: c, cancel: cancel, answer: http.NewResponseController(w)}
	p, crowdedOut := a.requests.add(v, from, shared)
	v.place = p
	if crowdedOut != nil {
		crowdedOut.value.end()
		a.reset.Add(r.Context(), 1)
		a.report(r.Context(), "too many anonymous requests, the oldest are reset", crowdedOut.from)
	}
	return v
}

// visit is one anonymous request.
type visit struct {
	*anonymous

	connection *connection
	place      *place[*visit]
	cancel     context.CancelFunc
	isKnown    atomic.Bool

	// mu keeps the handler from returning while end uses the answer, which must not be used after
	// the handler has returned.
	mu     sync.Mutex
	left   bool
	answer *http.ResponseController
}

// leave stops counting a request that has ended.
func (v *visit) leave() {
	if v.cancel != nil {
		defer v.cancel()
	}
	v.requests.leave(v.place)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.left = true
}

// verified is called when the caller has proven its identity.
func (v *visit) verified() {
	v.isKnown.Store(true)
	v.requests.leave(v.place)
	v.anonymous.verified(v.connection)
}

// end resets the request, whatever it is waiting for.
func (v *visit) end() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.left || v.isKnown.Load() {
		return
	}
	if v.cancel != nil {
		v.cancel()
	}
	past := time.Unix(1, 0)
	_ = v.answer.SetReadDeadline(past)
	_ = v.answer.SetWriteDeadline(past)
}

// report logs that a bound was exceeded, at most once in an interval.
func (a *anonymous) report(ctx context.Context, message string, from netip.Prefix) {
	a.mu.Lock()
	due := time.Since(a.reported) >= reportInterval
	if due {
		a.reported = time.Now()
	}
	a.mu.Unlock()
	if due {
		a.logger.WarnContext(ctx, message, slog.String("client.address", from.String()))
	}
}

// prefixOf returns the prefix that counts as one address: an IPv6 host may use any address of its
// /64.
func prefixOf(address netip.Addr) netip.Prefix {
	bits := address.BitLen()
	if address.Is6() {
		bits = 64
	}
	prefix, err := address.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return prefix
}
