// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package hop

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpc"
	"github.com/leatdev/leat/services/tunnel/internal/relay"
	"github.com/leatdev/leat/services/tunnel/internal/session"
)

const (
	// Replicas are near one another: one that does not accept a connection at once is gone.
	dialTimeout = 2 * time.Second
	pingAfter   = 5 * time.Second
	pingTimeout = 5 * time.Second
	// streamWindow is the memory that a stalled reader holds, and the bytes that move in one round
	// trip: with 1 ms between replicas, 1 GB a second.
	streamWindow = 1 << 20
	// maxStreams is how many streams a replica's server allows on a connection. The window of a
	// connection covers the windows of all its streams, so stalled readers never use the room of
	// others.
	maxStreams      = 1000
	frameSize       = 256 << 10
	maxHeaderBytes  = 128 << 10
	writeTimeout    = 20 * time.Second
	idleConnTimeout = 2 * time.Minute
	// continueTimeout is a little more than an agent's, so that its replica's answer comes first.
	continueTimeout = 6 * time.Second
)

// ClientParams are the arguments of a [Client].
type ClientParams struct {
	// Self is the id of this replica.
	Self string
	// Key is this service's key, which makes a token for each replica. Required.
	Key *identity.ServiceKey
	// Plaintext allows replicas at http:// beyond this machine.
	Plaintext rpc.Plaintext
	// CAPEM holds the certificates to trust for replicas at https, in PEM. Empty means the system's.
	CAPEM []byte
	// ServerName is the name that certificates of replicas at https have. Empty means the host of
	// each replica's URL.
	ServerName string
	// Tracer and Propagator continue the traces of requests. Required.
	Tracer     trace.Tracer
	Propagator propagation.TextMapPropagator
}

// Client sends requests to other replicas. It is safe for concurrent use.
type Client struct {
	self       string
	key        *identity.ServiceKey
	plaintext  rpc.Plaintext
	tracer     trace.Tracer
	propagator propagation.TextMapPropagator
	// endless has its own connections for answers without an end, so that an event never waits for
	// a download.
	brief, endless *http.Transport
}

var _ relay.Peers = (*Client)(nil)

// NewClient returns a client. It does not connect.
func NewClient(p ClientParams) (*Client, error) {
	var roots *x509.CertPool // to crypto/tls, nil means the system's
	if len(p.CAPEM) > 0 {
		roots = x509.NewCertPool()
		if !roots.AppendCertsFromPEM(p.CAPEM) {
			return nil, errors.New("parse replicas' CA certificates: no certificate in PEM found")
		}
	}
	return &Client{
		self: p.Self, key: p.Key, plaintext: p.Plaintext, tracer: p.Tracer, propagator: p.Propagator,
		brief: newTransport(roots, p.ServerName), endless: newTransport(roots, p.ServerName),
	}, nil
}

func newTransport(roots *x509.CertPool, serverName string) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Transport{
		Protocols:              protocols,
		DialContext:            (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, ServerName: serverName},
		TLSHandshakeTimeout:    dialTimeout,
		IdleConnTimeout:        idleConnTimeout,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeaderBytes,
		ExpectContinueTimeout:  continueTimeout,
		HTTP2: &http.HTTP2Config{
			MaxReceiveBufferPerStream:     streamWindow,
			MaxReceiveBufferPerConnection: maxStreams * streamWindow,
			MaxReadFrameSize:              frameSize,
			SendPingTimeout:               pingAfter,
			PingTimeout:                   pingTimeout,
			WriteByteTimeout:              writeTimeout,
		},
	}
}

// Close closes the connections that carry nothing.
func (c *Client) Close() {
	c.brief.CloseIdleConnections()
	c.endless.CloseIdleConnections()
}

// RoundTrip implements [relay.Peers].
func (c *Client) RoundTrip(req *http.Request, route relay.Route, target relay.Target) (*http.Response, error) {
	peer, token, err := c.introduce(req.Context(), route.Replica)
	if err != nil {
		return nil, err
	}
	var begun atomic.Bool
	ctx := httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { begun.Store(true) },
	})
	out := c.request(ctx, req, peer, token, target)
	span := c.startSpan(out, target)
	res, err := c.transport(target).RoundTrip(out)
	if err != nil {
		err = classify(req.Context(), err, begun.Load())
	} else {
		res, err = answer(res, route)
	}
	if span != nil {
		endSpan(ctx, span, res, err)
	}
	return res, err
}

// introduce returns a replica's URL and a token that is valid only there. Its errors match
// [relay.ErrUnreachable].
func (c *Client) introduce(ctx context.Context, replica relay.Replica) (*url.URL, string, error) {
	peer, err := url.Parse(replica.URL)
	if err != nil || peer.Host == "" {
		return nil, "", fmt.Errorf("%w: its URL is %q", relay.ErrUnreachable, replica.URL)
	}
	if err := c.plaintext.Check(peer); err != nil {
		return nil, "", fmt.Errorf("%w: %w", relay.ErrUnreachable, err)
	}
	token, err := c.key.For(identity.ReplicaAudience(ServiceName, replica.ID)).Token(ctx)
	if err != nil {
		return nil, "", fmt.Errorf("%w: no token: %w", relay.ErrUnreachable, err)
	}
	return peer, token, nil
}

func (c *Client) transport(target relay.Target) *http.Transport {
	if target.Endless {
		return c.endless
	}
	return c.brief
}

// request returns the hop that carries the agent's request. The path stays as it is, byte for byte.
func (c *Client) request(ctx context.Context, req *http.Request, peer *url.URL, token string, target relay.Target) *http.Request {
	out := req.WithContext(ctx)
	path := req.URL.Opaque
	if path == "" {
		path = req.URL.EscapedPath()
	}
	out.URL = &url.URL{
		Scheme: peer.Scheme, Host: peer.Host, Opaque: Prefix + path, RawQuery: req.URL.RawQuery, ForceQuery: req.URL.ForceQuery,
	}
	out.Host = peer.Host
	out.Header = req.Header.Clone()
	scrub(out.Header)
	out.Header.Set("Authorization", "Bearer "+token)
	out.Header.Set(headerHop, c.self)
	out.Header.Set(headerCluster, target.Cluster)
	out.Header.Set(headerClusterUID, target.ClusterUID)
	switch {
	case target.Watch:
		out.Header.Set(headerEnds, endsWatch)
	case target.Endless:
		out.Header.Set(headerEnds, endsEndless)
	}
	return out
}

// classify returns the meaning of a failed hop. A request that was begun may have reached the
// agent.
func classify(ctx context.Context, err error, begun bool) error {
	switch {
	case ctx.Err() != nil:
		return err
	case begun:
		return fmt.Errorf("%w: on the way to another replica: %w", session.ErrLost, err)
	}
	return fmt.Errorf("%w: %w", relay.ErrUnreachable, err)
}

// answer distinguishes the agent's answer from a replica's, and both from the answer of another
// server.
func answer(res *http.Response, route relay.Route) (*http.Response, error) {
	mark := res.Header.Get(headerHop)
	err := readError(res.Header)
	if mark == "" {
		err = fmt.Errorf("%w: the server at %s, which answers with status %d, is not a replica", relay.ErrUnreachable, route.Replica.URL, res.StatusCode)
	}
	if err != nil {
		_ = res.Body.Close()
		return nil, err
	}
	scrub(res.Header)
	return res, nil
}
