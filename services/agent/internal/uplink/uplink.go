// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package uplink maintains the agent's connections to the tunnel. The agent dials, and then the
// roles are reversed: the hub sends HTTP/2 requests, and the agent answers them. So the cluster
// needs no open port. If the hub dials instead, package reception accepts the connections and
// passes them to [Uplink.Accept].
//
// It promises:
//
//   - Up to two connections, each to another replica of the hub if there are as many.
//   - A request reaches the API server only under an identity that [People] allows, and never under
//     the agent's own.
//   - Watches, short calls, upgrades and services have separate connections to their server, so
//     that none can use up the others' streams.
//   - On a stop, or when the hub drains, active requests may continue for a while, and new ones go
//     elsewhere.
//
// A connection is claimed (counted as being opened), up, and then either drained, which means that
// its replacement is opened before it ends, or down. Uplink.mu guards that state alone, and is
// never held during network calls.
package uplink

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"connectrpc.com/connect"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/internal/kit/wake"
	"github.com/leatdev/leat/internal/runtime/h2"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/agent/internal/carrier"
)

const (
	// maxConnections is the maximum number of the hub's replicas to which the agent is connected at
	// once.
	maxConnections = 2
	// stable is how long a connection has to live for the next failure to count as the first.
	stable = time.Minute
	// absent is the time between two checks whether a hub without a tunnel offers one now.
	absent = 30 * time.Second
	// avoided and maxAvoided bound the pause before the next search for another replica, after
	// every attempt has ended at a connected one. A load balancer that selects by the agent's
	// address never leads to another.
	avoided    = 30 * time.Second
	maxAvoided = 10 * time.Minute
	// avoidAttempts is how many consecutive attempts are made to reach another replica.
	avoidAttempts = 4
	// lookupAfter is how long no connection is up before the agent asks the hub for the tunnel's
	// address, and lookupEvery how often it asks after that. Both are spread by half: all agents
	// lose a tunnel at once.
	lookupAfter = 30 * time.Second
	lookupEvery = 5 * time.Minute
)

// Tokens issues access tokens.
type Tokens interface {
	identity.TokenSource
	// Renew requests new tokens, and with them the tunnel's address. If it fails, nothing changes.
	Renew(ctx context.Context) error
	// Invalidate drops a token that the hub no longer accepts.
	Invalidate()
}

// Params are the settings and collaborators of New.
type Params struct {
	// URL returns the currently known base URL of the tunnel, http or https, or "" if it is
	// unknown.
	URL    func() string
	Tokens Tokens
	// CAPEM holds the authorities to trust for https, in PEM. Empty: the system's.
	CAPEM []byte
	// Transports are the transports to try, in order. Empty: all.
	Transports []carrier.Transport
	// Proxy chooses the proxy to the hub. Nil: the proxy of the environment.
	Proxy func(*http.Request) (*url.URL, error)
	// Dial opens network connections to the hub. Nil: TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Version is the agent's version.
	Version string
	// Handler answers the hub's requests; see NewHandler.
	Handler http.Handler
	Logger  *slog.Logger
	// Reconnect spaces attempts. Zero: 0.5 s doubling to 30 s.
	Reconnect backoff.Policy
}

// Uplink maintains the agent's connections to the tunnel, and replaces ended ones.
type Uplink struct {
	params   Params
	dialer   *carrier.Dialer
	instance string
	uploads  *h2.Budget

	mu    sync.Mutex
	conns map[*conn]bool // open connections; false: the hub wants it to be replaced
	// dialing is the number of connections that are being opened.
	dialing int
	// replicas is how many the hub has, as it said last; changed is notified when the number
	// changes.
	replicas int
	changed  wake.Broadcast
	// lookup is when to ask the hub for the tunnel's address. Zero: a connection was up since.
	lookup time.Time
}

// New returns an Uplink that does nothing before Run.
func New(p Params) (*Uplink, error) {
	p.Reconnect = cmp.Or(p.Reconnect, backoff.Policy{Initial: 500 * time.Millisecond, Max: 30 * time.Second, Multiplier: 2})
	u := &Uplink{params: p, instance: rand.Text(), conns: map[*conn]bool{}, replicas: 1}
	var roots *x509.CertPool
	if len(p.CAPEM) > 0 {
		roots = x509.NewCertPool()
		if !roots.AppendCertsFromPEM(p.CAPEM) {
			return nil, errors.New("parse CA certificates: found no certificate in PEM")
		}
	}
	var err error
	if u.uploads, err = h2.NewBudget(uploadMemory); err != nil {
		return nil, err
	}
	u.dialer = carrier.New(carrier.Params{Roots: roots, Transports: p.Transports, Proxy: p.Proxy, Dial: p.Dial})
	return u, nil
}

// Connected reports whether a connection is up.
func (u *Uplink) Connected() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.conns) > 0
}

// Run connects and serves until ctx is done. Then it waits a while for active requests, and returns
// nil.
func (u *Uplink) Run(ctx context.Context) error {
	var group sync.WaitGroup
	for range maxConnections {
		group.Go(func() { u.hold(ctx) })
	}
	group.Wait()
	return nil
}

// hold keeps one connection up while one more is wanted.
func (u *Uplink) hold(ctx context.Context) {
	var leaving sync.WaitGroup
	defer leaving.Wait()
	var old *conn // the connection that the next one replaces
	for attempt := 0; u.claim(ctx); attempt++ {
		began := time.Now()
		current, err := u.open(ctx)
		u.recordOpened(current)
		if old != nil && (err == nil || old.isClosed()) {
			replaced := old
			leaving.Go(func() { replaced.leave(ctx) })
			old = nil
		}
		if err == nil {
			u.params.Logger.InfoContext(ctx, "tunnel connected", current.attrs()...)
			if current.serve(ctx) {
				u.markReplaced(current)
				old, attempt = current, -1
				continue // without a pause: the hub balances its agents
			}
		}
		if time.Since(began) >= stable {
			attempt = 0
		}
		pause := u.pause(attempt, err)
		if u.hasMoved(ctx, err) {
			pause, attempt = 0, -1
		}
		u.log(ctx, err, pause)
		_ = backoff.Wait(ctx, pause) // the loop's condition sees the end of ctx
	}
	if old != nil {
		leaving.Go(func() { old.leave(ctx) })
	}
}

// claim blocks until there are fewer connections than wanted, and counts one as being opened. It
// returns false when ctx is done. The end of a connection does not wake it: the goroutine that held
// the connection opens the next one.
func (u *Uplink) claim(ctx context.Context) bool {
	for ctx.Err() == nil {
		u.mu.Lock()
		have, changed := u.dialing, u.changed.Next()
		for _, wanted := range u.conns {
			if wanted {
				have++
			}
		}
		free := have < min(u.replicas, maxConnections)
		if free {
			u.dialing++
		}
		u.mu.Unlock()
		if free {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	return false
}

// recordOpened records the connection that was claimed, or with nil that the attempt failed.
func (u *Uplink) recordOpened(c *conn) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.dialing--
	if c != nil {
		u.conns[c], u.lookup = true, time.Time{}
	}
}

// markReplaced records that another connection is to replace this one.
func (u *Uplink) markReplaced(c *conn) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, up := u.conns[c]; up {
		u.conns[c] = false
	}
}

// connClosed records the end of a connection.
func (u *Uplink) connClosed(c *conn) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.conns, c)
}

// setReplicaCount records the number of the hub's replicas.
func (u *Uplink) setReplicaCount(replicas int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if replicas > 0 && replicas != u.replicas {
		u.replicas = replicas
		u.changed.Notify()
	}
}

// elsewhere returns the replicas to which the agent is connected.
func (u *Uplink) elsewhere() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	var replicas []string
	for c := range u.conns {
		if replica := c.replica(); replica != "" {
			replicas = append(replicas, replica)
		}
	}
	return replicas
}

// open opens a connection. If the hub refused, the error is the hub's.
func (u *Uplink) open(ctx context.Context) (*conn, error) {
	base := u.find(ctx)
	if base == "" {
		return nil, errAbsent
	}
	var err error
	for range avoidAttempts {
		var c *conn
		if c, err = u.dial(ctx, base); rpcerr.ReasonOf(err) != errorsv1.Reason_REASON_ALREADY_EXISTS {
			return c, err
		}
	}
	return nil, err
}

// errAbsent means that the hub has no tunnel.
var errAbsent = errors.New("the hub offers no tunnel")

func (u *Uplink) dial(ctx context.Context, base string) (*conn, error) {
	header, err := u.Introduce(ctx)
	if err != nil {
		return nil, err
	}
	for _, replica := range u.elsewhere() {
		header.Add("Leat-Avoid-Replica", replica)
	}
	carried, err := u.dialer.Dial(ctx, base, header)
	if connect.CodeOf(err) == connect.CodeUnauthenticated && err != nil {
		u.params.Tokens.Invalidate() // another process may have used it
	}
	if err != nil {
		return nil, fmt.Errorf("open tunnel: %w", err)
	}
	return newConn(ctx, u, base, header.Get(headerConnectionID), carried), nil
}

// headerConnectionID carries the identifier of a connection.
const headerConnectionID = "Leat-Connection-Id"

// Introduce returns the headers with which the agent opens a connection.
func (u *Uplink) Introduce(ctx context.Context) (http.Header, error) {
	token, err := u.params.Tokens.Token(ctx)
	if err != nil {
		return nil, fmt.Errorf("get access token: %w", err)
	}
	return http.Header{
		"Authorization": {"Bearer " + token}, "Leat-Agent-Version": {label(u.params.Version)},
		"Leat-Agent-Instance": {u.instance}, headerConnectionID: {rand.Text()},
	}, nil
}

// find returns the tunnel's URL. The hub returns it with an access token, so a new agent requests a
// token first.
func (u *Uplink) find(ctx context.Context) string {
	if url := u.params.URL(); url != "" {
		return url
	}
	for attempt := 0; ctx.Err() == nil; attempt++ {
		if _, err := u.params.Tokens.Token(ctx); err == nil {
			break // the token source logs the cause
		}
		_ = backoff.Wait(ctx, u.params.Reconnect.Delay(attempt)) // the loop's condition sees the end of ctx
	}
	return u.params.URL()
}

// hasMoved reports whether the hub offers another address than the one that the agent could not
// reach. It asks only if no tunnel has answered for a while: a tunnel that refuses is at its
// address.
func (u *Uplink) hasMoved(ctx context.Context, err error) bool {
	if err == nil || rpcerr.HasReason(err) || ctx.Err() != nil || !u.isLookupDue(time.Now()) {
		return false
	}
	before := u.params.URL()
	if err := u.params.Tokens.Renew(ctx); err != nil {
		return false // the hub may be away as well, and the token source logs what a person must know
	}
	after := u.params.URL()
	if after == before {
		return false
	}
	u.params.Logger.InfoContext(ctx, "the hub has another address for the tunnel", slog.String("url", after))
	return true
}

// isLookupDue reports whether to ask the hub for the tunnel's address now, and if so sets the next
// time.
func (u *Uplink) isLookupDue(now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case len(u.conns) > 0:
		return false
	case u.lookup.IsZero():
		u.lookup = now.Add(backoff.Jitter(lookupAfter, 0.5))
		return false
	case now.Before(u.lookup):
		return false
	}
	u.lookup = now.Add(backoff.Jitter(lookupEvery, 0.5))
	return true
}

func (u *Uplink) pause(attempt int, err error) time.Duration {
	switch {
	case errors.Is(err, errAbsent):
		return absent
	case rpcerr.ReasonOf(err) == errorsv1.Reason_REASON_ALREADY_EXISTS:
		return backoff.Jitter(min(avoided<<min(attempt, 10), maxAvoided), 0.5)
	default:
		return u.params.Reconnect.After(rpcerr.Paced(err), attempt)
	}
}

func (u *Uplink) log(ctx context.Context, err error, pause time.Duration) {
	switch {
	case ctx.Err() != nil || errors.Is(err, errAbsent):
	case rpcerr.ReasonOf(err) == errorsv1.Reason_REASON_ALREADY_EXISTS:
		u.params.Logger.DebugContext(ctx, "could not reach a second replica of the tunnel", slog.Duration("retry_in", pause))
	case err != nil:
		u.params.Logger.WarnContext(ctx, "tunnel cannot be reached", slog.Any("error", err), slog.Duration("retry_in", pause))
	default:
		u.params.Logger.InfoContext(ctx, "tunnel connection ended", slog.Duration("retry_in", pause))
	}
}
