// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"container/list"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/leatdev/leat/internal/identity"
)

// The defaults of what callers may hold together that have not proven who they are. A connection over TLS costs about 35 KiB, a
// request whose answer nobody reads about 25 KiB.
const (
	defaultAnonymousConnections = 2000
	defaultAnonymousRequests    = 1000
	// addressShare is the part of a bound that one address may use.
	addressShare = 4
	// reportInterval is how often the log says at most that a bound acts.
	reportInterval = time.Minute
)

// anonymous bounds what callers hold that have not proven who they are.
//
// A connection is anonymous until a request on it is verified ([identity.Verified]), and a request until it is verified itself. Past a
// bound the oldest anonymous connection is closed: an honest caller proves itself with its first request, so the oldest are those that
// never will. Past a bound of requests the newest is reset, which costs the least to answer. A request counts until its answer was
// handed to the network, so that answers for peers that do not read count, too.
//
// One address, or one /64 of IPv6, may use a quarter of each bound. Loopback addresses and trusted proxies may use all of it, because
// many callers share them. It is safe for concurrent use.
type anonymous struct {
	logger  *slog.Logger
	trusted *proxies

	maxConnections, maxRequests int

	ended, reset metric.Int64Counter

	mu sync.Mutex
	// oldest holds the *connection that are anonymous, in the order of their arrival, and byAddress the same for each address.
	oldest    *list.List
	byAddress map[netip.Prefix]*list.List
	open      map[net.Conn]*connection
	requests  int
	// asking counts the anonymous requests of each address.
	asking   map[netip.Prefix]int
	reported time.Time
}

// connection is one that was accepted and is not closed.
type connection struct {
	conn net.Conn
	from netip.Prefix
	// shared says that many callers come from its address.
	shared bool
	known  atomic.Bool
	// inOrder and inAddress are its places in the lists. Guarded by anonymous.mu; nil when it is in none.
	inOrder, inAddress *list.Element
}

// newAnonymous returns the bounds of one server. A bound that is not positive means its default.
func newAnonymous(cfg Config, trusted *proxies, logger *slog.Logger, meter metric.Meter) (*anonymous, error) {
	if meter == nil {
		meter = noop.NewMeterProvider().Meter("")
	}
	a := &anonymous{
		logger: logger, trusted: trusted,
		maxConnections: orDefault(cfg.AnonymousConnections, defaultAnonymousConnections),
		maxRequests:    orDefault(cfg.AnonymousRequests, defaultAnonymousRequests),
		oldest:         list.New(), byAddress: map[netip.Prefix]*list.List{}, open: map[net.Conn]*connection{}, asking: map[netip.Prefix]int{},
	}
	var err error
	a.ended, err = meter.Int64Counter("leat.serve.connections.ended", metric.WithUnit("{connection}"),
		metric.WithDescription("Connections closed because too many callers had not proven who they are."))
	if err != nil {
		return nil, err
	}
	a.reset, err = meter.Int64Counter("leat.serve.requests.reset", metric.WithUnit("{request}"),
		metric.WithDescription("Requests reset because too many callers had not proven who they are."))
	if err != nil {
		return nil, err
	}
	_, err = meter.Int64ObservableGauge("leat.serve.connections.anonymous", metric.WithUnit("{connection}"),
		metric.WithDescription("Connections of callers that have not proven who they are."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			a.mu.Lock()
			defer a.mu.Unlock()
			o.Observe(int64(a.oldest.Len()))
			return nil
		}))
	return a, err
}

func orDefault(value, fallback int) int {
	if value <= 0 {
		return fallback
	}
	return value
}

// install has the server count its connections and requests.
func (a *anonymous) install(server *http.Server) {
	server.ConnContext = a.accept
	server.ConnState = func(conn net.Conn, state http.ConnState) {
		if state == http.StateClosed || state == http.StateHijacked {
			a.leave(conn)
		}
	}
	server.Handler = a.wrap(server.Handler)
}

type connectionKey struct{}

// accept counts a new connection, and closes the oldest one past a bound.
func (a *anonymous) accept(ctx context.Context, conn net.Conn) context.Context {
	address := peerOf(conn)
	c := &connection{conn: conn, from: prefixOf(address), shared: a.isShared(address)}
	if ended := a.add(c); ended != nil {
		_ = rawConn(ended.conn).Close() // its server notices, and reports it closed
		a.ended.Add(ctx, 1)
		a.report(ctx, "too many anonymous connections, the oldest are closed", ended.from)
	}
	return context.WithValue(ctx, connectionKey{}, c)
}

// isShared reports whether many callers may come from an address.
func (a *anonymous) isShared(address netip.Addr) bool {
	return !address.IsValid() || address.IsLoopback() || a.trusted.includes(address)
}

// rawConn is what lies below TLS: closing that waits for nobody.
func rawConn(conn net.Conn) net.Conn {
	if secured, ok := conn.(*tls.Conn); ok {
		return secured.NetConn()
	}
	return conn
}

// add counts a connection and returns the one that has to end for it, or nil.
func (a *anonymous) add(c *connection) *connection {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open[c.conn] = c
	c.inOrder = a.oldest.PushBack(c)
	same := a.byAddress[c.from]
	if same == nil {
		same = list.New()
		a.byAddress[c.from] = same
	}
	c.inAddress = same.PushBack(c)
	var ended *connection
	switch {
	case !c.shared && same.Len() > max(1, a.maxConnections/addressShare):
		ended, _ = same.Front().Value.(*connection)
	case a.oldest.Len() > a.maxConnections:
		ended, _ = a.oldest.Front().Value.(*connection)
	}
	if ended != nil {
		a.forgetLocked(ended)
	}
	return ended
}

// leave forgets a connection that is closed, or no longer the server's.
func (a *anonymous) leave(conn net.Conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c, ok := a.open[conn]; ok {
		delete(a.open, conn)
		a.forgetLocked(c)
	}
}

// verified takes a connection out of the anonymous ones.
func (a *anonymous) verified(c *connection) {
	if c.known.Swap(true) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forgetLocked(c)
}

func (a *anonymous) forgetLocked(c *connection) {
	if c.inOrder == nil {
		return
	}
	a.oldest.Remove(c.inOrder)
	same := a.byAddress[c.from]
	same.Remove(c.inAddress)
	if same.Len() == 0 {
		delete(a.byAddress, c.from)
	}
	c.inOrder, c.inAddress = nil, nil
}

// wrap counts requests until they are verified or answered.
func (a *anonymous) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, _ := r.Context().Value(connectionKey{}).(*connection)
		if c == nil || c.known.Load() && !c.shared { // its caller is known
			next.ServeHTTP(w, r)
			return
		}
		v := &visit{anonymous: a, connection: c, from: c.from, shared: c.shared}
		if address, ok := ClientAddress(r); ok && c.shared {
			v.from, v.shared = prefixOf(address), a.isShared(address)
		}
		if !a.enter(v) {
			a.reset.Add(r.Context(), 1)
			a.report(r.Context(), "too many anonymous requests, new ones are reset", v.from)
			panic(http.ErrAbortHandler)
		}
		defer v.leave()
		next.ServeHTTP(w, r.WithContext(identity.OnVerified(r.Context(), v.verified)))
		if r.ProtoMajor == 2 && !v.left.Load() { // over HTTP/1.1 a connection has one answer at a time
			_ = http.NewResponseController(w).Flush() // a connection that was hijacked or is gone has nothing to wait for
		}
	})
}

// visit is one anonymous request.
type visit struct {
	*anonymous

	connection *connection
	from       netip.Prefix
	shared     bool
	left       atomic.Bool
}

// enter counts a request, and returns false where that would be one too many.
func (a *anonymous) enter(v *visit) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.requests >= a.maxRequests || !v.shared && a.asking[v.from] >= max(1, a.maxRequests/addressShare) {
		return false
	}
	a.requests++
	a.asking[v.from]++
	return true
}

// leave stops counting the request.
func (v *visit) leave() {
	if v.left.Swap(true) {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.requests--
	if v.asking[v.from]--; v.asking[v.from] == 0 {
		delete(v.asking, v.from)
	}
}

// verified is called when the caller has proven who it is.
func (v *visit) verified() {
	v.leave()
	v.anonymous.verified(v.connection)
}

// report logs at most once in an interval that a bound acts.
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

// addressOf returns the IP address of a connection's peer; that of a test's own transport is not valid.
func addressOf(addr net.Addr) netip.Addr {
	if addr == nil {
		return netip.Addr{}
	}
	port, err := netip.ParseAddrPort(addr.String())
	if err != nil {
		return netip.Addr{}
	}
	return port.Addr().Unmap().WithZone("")
}

// prefixOf returns what is counted as one address: IPv6 hosts choose freely within their /64.
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
