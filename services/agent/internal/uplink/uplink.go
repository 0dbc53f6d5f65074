// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package uplink holds the agent's connection to the tunnel open. The agent dials, and then the roles turn round: the hub
// sends HTTP/2 requests, and the agent answers them. No port of the cluster is open to the outside.
package uplink

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/leatdev/leat/internal/backoff"
	"github.com/leatdev/leat/internal/identity"
)

// The windows bound memory: a stalled stream holds at most its own, and the connection's is large enough for all streams
// to stall while another still moves.
const (
	maxStreams       = 1000
	streamWindow     = 512 << 10
	connectionWindow = maxStreams * streamWindow
	maxFrame         = 64 << 10
	maxHeader        = 64 << 10
)

const (
	// A dead peer is noticed within two heartbeats.
	heartbeat   = 20 * time.Second
	pingTimeout = 20 * time.Second

	handshakeTimeout = 20 * time.Second
	// stable is how long a connection has to live for the next failure to count as the first.
	stable = time.Minute
	// absent is how often to look whether a hub without a tunnel offers one by now.
	absent = 30 * time.Second
	// drain is how long requests under way may go on after a stop.
	drain = 10 * time.Second
)

// Params are what New needs.
type Params struct {
	// URL is the tunnel's base URL, http or https, as currently known; empty while there is none.
	URL    func() string
	Tokens identity.TokenSource
	// CAPEM holds the certificates to trust for https, in PEM. Empty: the system's.
	CAPEM []byte
	// Version is the agent's.
	Version string
	// Handler answers the hub's requests; see NewHandler.
	Handler http.Handler
	Logger  *slog.Logger
	// Reconnect spaces attempts. Zero: 0.5 s doubling to 30 s.
	Reconnect backoff.Policy
}

// Uplink is one connection to the tunnel, again and again.
type Uplink struct {
	params    Params
	roots     *x509.CertPool
	connected atomic.Bool
}

// New returns an Uplink that does nothing before Run.
func New(p Params) (*Uplink, error) {
	u := &Uplink{params: p}
	if p.Reconnect == (backoff.Policy{}) {
		u.params.Reconnect = backoff.Policy{Initial: 500 * time.Millisecond, Max: 30 * time.Second, Multiplier: 2}
	}
	if len(p.CAPEM) > 0 {
		u.roots = x509.NewCertPool()
		if !u.roots.AppendCertsFromPEM(p.CAPEM) {
			return nil, errors.New("parse CA certificates: no certificate in PEM found")
		}
	}
	return u, nil
}

// Connected tells whether the connection is up.
func (u *Uplink) Connected() bool {
	return u.connected.Load()
}

// Run connects and serves until ctx is done; then it lets requests under way finish for a while, and returns nil.
func (u *Uplink) Run(ctx context.Context) error {
	for attempt := 0; ctx.Err() == nil; attempt++ {
		url := u.find(ctx)
		pause := absent
		if url != "" {
			began := time.Now()
			err := u.session(ctx, url)
			if time.Since(began) >= stable {
				attempt = 0
			}
			pause = u.params.Reconnect.Delay(attempt)
			u.log(ctx, err, pause)
		}
		_ = backoff.Wait(ctx, pause) // the loop's condition sees the same end
	}
	return nil
}

// find returns the tunnel's URL. The hub tells it along with an access token, so a new agent asks for one first.
func (u *Uplink) find(ctx context.Context) string {
	if url := u.params.URL(); url != "" {
		return url
	}
	for attempt := 0; ctx.Err() == nil; attempt++ {
		if _, err := u.params.Tokens.Token(ctx); err == nil {
			break // whoever gives the token logs when there is none
		}
		_ = backoff.Wait(ctx, u.params.Reconnect.Delay(attempt)) // the loop's condition sees the same end
	}
	return u.params.URL()
}

func (u *Uplink) log(ctx context.Context, err error, pause time.Duration) {
	switch {
	case ctx.Err() != nil:
	case err != nil:
		u.params.Logger.WarnContext(ctx, "tunnel cannot be reached", slog.Any("error", err), slog.Duration("retry_in", pause))
	default:
		u.params.Logger.InfoContext(ctx, "tunnel connection ended", slog.Duration("retry_in", pause))
	}
}

// session is the life of one connection. It returns nil when a connection that was established has ended.
func (u *Uplink) session(ctx context.Context, url string) error {
	id := rand.Text()
	conn, err := u.dial(ctx, url, id)
	if err != nil {
		return err
	}
	defer conn.Close()
	u.connected.Store(true)
	defer u.connected.Store(false)
	u.params.Logger.InfoContext(ctx, "tunnel connected", slog.String("connection", id))
	return u.serve(ctx, conn)
}

// serve answers requests until the peer hangs up or ctx is done.
func (u *Uplink) serve(ctx context.Context, conn *turnedConn) error {
	server := u.server(ctx)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(&single{conn: conn, closed: make(chan struct{})}) // it ends by Shutdown or Close below
	}()
	var err error
	select {
	case <-conn.closed:
	case <-ctx.Done():
		err = u.leave(ctx, server)
	}
	err = errors.Join(err, server.Close())
	<-served
	return err
}

// server speaks HTTP/2 and nothing else.
func (u *Uplink) server(ctx context.Context) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true) // what encryption there is lies below
	return &http.Server{
		Handler: u.params.Handler, Protocols: protocols, MaxHeaderBytes: maxHeader, ReadHeaderTimeout: handshakeTimeout,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams, MaxReadFrameSize: maxFrame,
			MaxReceiveBufferPerStream: streamWindow, MaxReceiveBufferPerConnection: connectionWindow,
			SendPingTimeout: heartbeat, PingTimeout: pingTimeout, WriteByteTimeout: pingTimeout,
		},
		BaseContext: func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
		ErrorLog:    slog.NewLogLogger(u.params.Logger.Handler(), slog.LevelDebug),
	}
}

// leave tells the hub to send nothing new, and waits for what is under way.
func (u *Uplink) leave(ctx context.Context, server *http.Server) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("drain tunnel connection: %w", err)
	}
	return nil
}

// tlsConfig speaks HTTP/1.1 only: the request that turns the connection round does not exist in HTTP/2.
func (u *Uplink) tlsConfig(host string) *tls.Config {
	return &tls.Config{
		ServerName: host, RootCAs: u.roots, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
	}
}
