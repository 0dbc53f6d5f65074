// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package reception accepts connections from the hub, for clusters that may open no connections.
// Each side proves its identity first: the agent by its enrolled key, with which its certificate is
// signed, and the hub by a token that is bound to that key. Then one connection carries the tunnel,
// as if the agent had opened it, and another one carries the agent's own calls to the hub.
// docs/reference/protocol/tunnel.md describes the wire.
package reception

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	"github.com/leatdev/leat/internal/runtime/h2"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
)

const (
	// maxUnproven is the maximum number of connections whose peer has not proved to be the hub. One
	// more closes the oldest.
	maxUnproven = 16
	// proofTimeout is how long the proof may take, TLS included, and maxRequest how many bytes it
	// may have.
	proofTimeout = 10 * time.Second
	maxRequest   = 16 << 10
	// introductionTimeout bounds the request for the access token, which the agent needs to
	// introduce itself.
	introductionTimeout = 5 * time.Second
)

// The protocols that the hub requests, and their paths.
const (
	pathTunnel     = "/tunnel/v1/accept"
	pathHome       = "/tunnel/v1/home"
	protocolTunnel = "leat-tunnel/1"
	protocolHome   = "leat-home/1"
)

// Identity is the agent's identity, and the keys of its hub. Its methods may be called
// concurrently.
type Identity interface {
	// Key returns the agent's private key.
	Key() ed25519.PrivateKey
	// ClusterUID returns the cluster's uid, or "" before enrolment.
	ClusterUID() string
	// HubKeys returns the keys with which the hub signs.
	HubKeys() []ed25519.PublicKey
}

// Tunnel serves connections that carry people's requests.
type Tunnel interface {
	// Introduce returns the headers with which an agent opens a connection to the hub.
	Introduce(ctx context.Context) (http.Header, error)
	// Accept serves the hub on a connection until it ends or ctx does. Introduction are the headers
	// that the agent has sent on it.
	Accept(ctx context.Context, conn net.Conn, introduction http.Header)
}

// Params are the collaborators of New; all are required.
type Params struct {
	Identity Identity
	Tunnel   Tunnel
	Home     *Home
	Logger   *slog.Logger
}

// Reception accepts the hub's connections.
type Reception struct {
	params Params
	proof  proof
	doors  door

	mu     sync.Mutex
	ending bool           // no further connection may be held
	held   sync.WaitGroup // connections in use
}

// New returns a Reception that does nothing before Run.
func New(p Params) *Reception {
	return &Reception{params: p, proof: proof{identity: p.Identity, seen: map[string]time.Time{}}}
}

// Run accepts connections from the listener until ctx is done. Then it waits a while for active
// requests, closes the listener, and returns nil.
func (r *Reception) Run(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler: r, ReadHeaderTimeout: proofTimeout, ReadTimeout: proofTimeout,
		MaxHeaderBytes: maxRequest - 4096, // net/http adds that much
		TLSNextProto:   map[string]func(*http.Server, *tls.Conn, http.Handler){},
		BaseContext:    func(net.Listener) context.Context { return ctx },
		ConnContext:    r.doors.enter,
		ErrorLog:       slog.NewLogLogger(r.params.Logger.Handler(), slog.LevelDebug),
	}
	server.SetKeepAlivesEnabled(false) // one request per connection
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	certificates := &certificates{identity: r.params.Identity}
	err := server.Serve(tls.NewListener(r.doors.guard(h2.CoalesceAll(listener)), &tls.Config{
		MinVersion: tls.VersionTLS13, GetCertificate: certificates.get, SessionTicketsDisabled: true,
	}))
	r.mu.Lock()
	r.ending = true
	r.mu.Unlock()
	r.held.Wait()
	r.params.Home.close()
	if !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("wait for the hub: %w", err)
	}
	return nil
}

// ServeHTTP implements http.Handler. It answers the single request of a connection.
func (r *Reception) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if err := r.proof.check(req.Header); err != nil {
		r.params.Logger.DebugContext(req.Context(), "refused a connection that is not from the hub",
			slog.String("client.address", req.RemoteAddr), slog.Any("error", err))
		w.Header().Set("WWW-Authenticate", `Bearer realm="leat"`)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	r.doors.leave(req.Context())
	if !r.hold() {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	defer r.held.Done()
	switch {
	case asksFor(req, pathTunnel, protocolTunnel):
		r.tunnel(w, req)
	case asksFor(req, pathHome, protocolHome):
		if conn := r.take(w, req, protocolHome, nil); conn != nil {
			r.params.Home.add(req.Context(), conn, req.Header.Get(headerScope) == scopeEnrol)
		}
	default:
		w.WriteHeader(http.StatusUpgradeRequired)
	}
}

// hold counts a connection that Run waits for. It reports false if Run is ending.
func (r *Reception) hold() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ending {
		r.held.Add(1)
	}
	return !r.ending
}

// asksFor reports whether the hub requests a connection of this kind.
func asksFor(req *http.Request, path, protocol string) bool {
	return req.Method == http.MethodGet && req.URL.Path == path && req.ProtoMajor == 1 &&
		strings.EqualFold(req.Header.Get("Connection"), "Upgrade") && strings.EqualFold(req.Header.Get("Upgrade"), protocol)
}

// tunnel introduces the agent and serves the hub. The hub admits the agent by its introduction, as
// if the agent had dialled.
func (r *Reception) tunnel(w http.ResponseWriter, req *http.Request) {
	asking, cancel := context.WithTimeout(req.Context(), introductionTimeout)
	introduction, err := r.params.Tunnel.Introduce(asking)
	cancel()
	if err != nil {
		r.params.Logger.WarnContext(req.Context(), "agent cannot introduce itself to the hub yet", slog.Any("error", err))
		rpcerr.WriteHTTP(w, req, rpcerr.New(connect.CodeUnavailable, errorsv1.Reason_REASON_DEPENDENCY_UNAVAILABLE,
			"the agent has no access token yet", rpcerr.RetryAfter(time.Second)))
		return
	}
	if conn := r.take(w, req, protocolTunnel, introduction); conn != nil {
		r.params.Tunnel.Accept(req.Context(), conn, introduction)
	}
}

// take hands the connection over, or returns nil if that fails.
func (r *Reception) take(w http.ResponseWriter, req *http.Request, protocol string, header http.Header) net.Conn {
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil
	}
	var answer strings.Builder
	answer.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + protocol + "\r\n")
	_ = header.Write(&answer)
	answer.WriteString("\r\n")
	if buffered.Reader.Buffered() > 0 { // the hub must wait for the answer
		err = errors.New("hub did not wait for the answer")
	}
	if err == nil {
		_, err = conn.Write([]byte(answer.String()))
	}
	if err = errors.Join(err, conn.SetDeadline(time.Time{})); err != nil {
		r.params.Logger.DebugContext(req.Context(), "hub's connection was lost", slog.Any("error", err))
		_ = conn.Close()
		return nil
	}
	return conn
}
