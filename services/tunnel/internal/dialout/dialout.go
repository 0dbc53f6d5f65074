// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package dialout dials the agents of clusters that may open no connections. The agent is known by
// its enrolled key, and nothing else in its certificate counts; the hub proves itself by a token
// that is bound to the key which it has seen. One connection then carries people's requests, as if
// the agent had opened it, and another one the agent's own calls to the hub.
// docs/reference/protocol/tunnel.md describes the wire.
package dialout

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/leatdev/leat/internal/runtime/dialguard"
	"github.com/leatdev/leat/internal/runtime/h2"
	"github.com/leatdev/leat/services/tunnel/internal/receptive"
	"github.com/leatdev/leat/services/tunnel/internal/reverse"
)

const (
	// connectTimeout bounds the way to an agent, and openTimeout that and everything until it has
	// answered.
	connectTimeout = 10 * time.Second
	openTimeout    = 20 * time.Second
	// maxAnswer bounds the head of an agent's answer.
	maxAnswer = 16 << 10
)

// purpose is the reason to open a connection.
type purpose struct{ path, protocol string }

var (
	tunnel = purpose{path: "/tunnel/v1/accept", protocol: reverse.Protocol}
	home   = purpose{path: "/tunnel/v1/home", protocol: "leat-home/1"}
)

// Voucher gives the tokens with which the hub proves itself.
type Voucher interface {
	// HubToken returns a token for the agent of the cluster with that name that holds the key.
	HubToken(ctx context.Context, cluster string, agentKey ed25519.PublicKey) (string, error)
}

// Params are the arguments of New; all are required.
type Params struct {
	Voucher Voucher
	// Agents admits agents, and keeps their connections.
	Agents *reverse.Handler
	// Home answers the calls of agents.
	Home *Home
	// AllowLocal lets agents be dialled at loopback and link-local addresses.
	AllowLocal bool
	Logger     *slog.Logger
}

// Dialer dials agents. It is safe for concurrent use.
type Dialer struct {
	params Params
	net    *net.Dialer
}

var _ receptive.Dialer = (*Dialer)(nil)

// New returns a Dialer.
func New(p Params) *Dialer {
	d := &Dialer{params: p, net: &net.Dialer{Timeout: connectTimeout}}
	if !p.AllowLocal {
		d.net.Control = dialguard.Control
	}
	return d
}

// Dial implements [receptive.Dialer]. The agent's own calls come first: without them it has no
// token with which to be admitted.
func (d *Dialer) Dial(ctx context.Context, cluster receptive.Cluster) (receptive.Conn, error) {
	enrolled := len(cluster.Key) > 0
	called, err := d.open(ctx, cluster, home)
	if err != nil {
		return nil, err
	}
	l := &link{
		called: called, home: d.params.Home.server(called, enrolled), enrolling: !enrolled, done: make(chan struct{}), served: make(chan struct{}),
	}
	l.serve()
	if !enrolled {
		return l, nil
	}
	carried, err := d.open(ctx, cluster, tunnel)
	if err != nil {
		l.Leave(ctx)
		return nil, err
	}
	l.session, err = d.params.Agents.Adopt(ctx, carried, carried.header, cluster.Name, cluster.IdentityUID)
	if err != nil {
		l.Leave(ctx)
		return nil, &receptive.Failure{Reason: receptive.ReasonSession, Err: err}
	}
	l.session.OnClose(l.finish)
	return l, nil
}

// opened is a connection to an agent that has proved itself and has taken the hub for its own.
type opened struct {
	net.Conn

	header http.Header // of its answer
	early  []byte      // what came behind that
}

// NetConn lets HTTP/2 find the connection below.
func (o *opened) NetConn() net.Conn { return o.Conn }

// Read implements net.Conn.
func (o *opened) Read(p []byte) (int, error) {
	if len(o.early) > 0 {
		n := copy(p, o.early)
		o.early = o.early[n:]
		return n, nil
	}
	return o.Conn.Read(p)
}

// open opens a connection for a purpose. It does not report who answers instead of an agent: it may
// be anything.
func (d *Dialer) open(ctx context.Context, cluster receptive.Cluster, what purpose) (*opened, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	secured, key, err := d.secure(ctx, cluster)
	if err != nil {
		return nil, err
	}
	o, err := d.ask(ctx, secured, key, cluster, what)
	if err != nil {
		_ = secured.Close()
		return nil, err
	}
	return o, nil
}

// errKey means that what answers is not the agent.
var errKey = errors.New("another key than that of the cluster's agent")

// secure connects to the agent and returns the key that it has proved to hold.
func (d *Dialer) secure(ctx context.Context, cluster receptive.Cluster) (*tls.Conn, ed25519.PublicKey, error) {
	host, _, err := net.SplitHostPort(cluster.Endpoint)
	if err != nil {
		return nil, nil, &receptive.Failure{Reason: receptive.ReasonAddress, Err: err}
	}
	conn, err := d.net.DialContext(ctx, "tcp", cluster.Endpoint)
	if err != nil {
		reason := receptive.ReasonUnreachable
		if errors.Is(err, dialguard.ErrLocal) {
			reason = receptive.ReasonAddress
		}
		return nil, nil, &receptive.Failure{Reason: reason, Err: err}
	}
	var seen ed25519.PublicKey
	secured := tls.Client(h2.Coalesce(conn), &tls.Config{
		MinVersion: tls.VersionTLS13, ServerName: host, // by which those in between may choose the way
		InsecureSkipVerify: true, // no name counts and no authority: VerifyConnection compares the key
		VerifyConnection: func(state tls.ConnectionState) (err error) {
			seen, err = pinned(state, cluster.Key)
			return err
		},
	})
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		reason := receptive.ReasonTLS
		if errors.Is(err, errKey) {
			reason = receptive.ReasonKey
		}
		return nil, nil, &receptive.Failure{Reason: reason, Err: err}
	}
	return secured, seen, nil
}

// pinned returns the key of the other side's certificate, which has to be the wanted one where
// there is one.
func pinned(state tls.ConnectionState, want ed25519.PublicKey) (ed25519.PublicKey, error) {
	if len(state.PeerCertificates) == 0 {
		return nil, errors.New("no certificate")
	}
	key, ok := state.PeerCertificates[0].PublicKey.(ed25519.PublicKey)
	switch {
	case len(want) > 0 && (!ok || !key.Equal(want)):
		return nil, errKey
	case !ok:
		return nil, errors.New("certificate is of no Ed25519 key")
	}
	return key, nil
}

// ask sends the hub's one request, with its proof.
func (d *Dialer) ask(ctx context.Context, conn *tls.Conn, key ed25519.PublicKey, cluster receptive.Cluster, what purpose) (*opened, error) {
	token, err := d.params.Voucher.HubToken(ctx, cluster.Name, key)
	if err != nil {
		return nil, &receptive.Failure{Reason: receptive.ReasonToken, Err: err}
	}
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	var request bytes.Buffer
	_, _ = fmt.Fprintf(&request, "GET %s HTTP/1.1\r\nHost: agent\r\nConnection: Upgrade\r\nUpgrade: %s\r\nAuthorization: Bearer %s\r\n",
		what.path, what.protocol, token)
	if len(cluster.Key) == 0 {
		request.WriteString(headerScope + ": " + scopeEnrol + "\r\n")
	}
	request.WriteString("\r\n")
	if _, err := conn.Write(request.Bytes()); err != nil {
		return nil, &receptive.Failure{Reason: receptive.ReasonUnreachable, Err: err}
	}
	head := &io.LimitedReader{R: conn, N: maxAnswer}
	reader := bufio.NewReader(head)
	response, err := http.ReadResponse(reader, nil)
	if err != nil {
		return nil, &receptive.Failure{Reason: receptive.ReasonAnswer, Err: errors.New("no answer that can be read")}
	}
	defer func() { _ = response.Body.Close() }()
	switch {
	case response.StatusCode == http.StatusUnauthorized:
		return nil, &receptive.Failure{Reason: receptive.ReasonRefused, Err: errors.New("agent does not take this hub for its own; was it given the hub's keys?")}
	case response.StatusCode != http.StatusSwitchingProtocols || !strings.EqualFold(response.Header.Get("Upgrade"), what.protocol):
		return nil, &receptive.Failure{Reason: receptive.ReasonAnswer, Err: fmt.Errorf("status %d, want the connection handed over", response.StatusCode)}
	}
	early, err := reader.Peek(reader.Buffered())
	if err != nil {
		return nil, &receptive.Failure{Reason: receptive.ReasonAnswer, Err: err}
	}
	return &opened{Conn: conn, header: response.Header, early: bytes.Clone(early)}, nil
}

// link connects this replica to one agent.
type link struct {
	called    *opened
	home      *h2.Server // of the agent's own calls
	enrolling bool
	session   *reverse.Conn // nil: there is none yet

	once   sync.Once
	done   chan struct{}
	served chan struct{} // closed when the agent's own calls have ended
}

var _ receptive.Conn = (*link)(nil)

func (l *link) finish() { l.once.Do(func() { close(l.done) }) }

// serve answers the agent's calls until the connection ends.
func (l *link) serve() {
	go func() {
		defer close(l.served)
		defer l.finish()
		_ = l.home.Serve() // it ends with the connection
	}()
}

// Done implements [receptive.Conn].
func (l *link) Done() <-chan struct{} { return l.done }

// Leave implements [receptive.Conn]. The agent's own calls are cut off last: it may need them for
// what runs.
func (l *link) Leave(ctx context.Context) {
	l.finish()
	switch {
	case l.enrolling:
		_ = l.home.Shutdown(ctx) // the answer may be on its way
	case l.session != nil:
		_ = l.session.Shutdown(ctx) // what does not end is cut off
		_ = l.session.Close()
	}
	_ = l.called.Close()
	<-l.served
}
