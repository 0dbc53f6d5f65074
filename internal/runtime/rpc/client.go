// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/otelconnect"

	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/telemetry"
)

const (
	dialTimeout = 10 * time.Second
	// pingAfter and pingTimeout detect a peer that is frozen, or that vanished without closing its connection. Services
	// of a hub detect it sooner: they have few connections, good networks, and commits that wait.
	pingAfter       = 15 * time.Second
	pingTimeout     = 15 * time.Second
	hubPingAfter    = 5 * time.Second
	hubPingTimeout  = 10 * time.Second
	idleConnTimeout = 2 * time.Minute
	// outsideHeaderTable is the size of HPACK's table for the requests of one who is outside. It has room for a token, and
	// for the fields that are the same in each request. Traces, lengths and time limits, which are not, fill any
	// table in time, and a hub holds one for each connection.
	outsideHeaderTable = 1 << 10
)

// ClientParams are the parameters of [NewClient].
type ClientParams struct {
	// BaseURL of the service. With http:// the client speaks HTTP/2 with prior knowledge, with
	// https:// it negotiates.
	BaseURL string
	// Tokens provides the bearer token of each request. Nil: no token is sent.
	Tokens    identity.TokenSource
	Telemetry *telemetry.Telemetry
	// IsOutside is set by programs that are not part of the hub, such as agents and leat: the hub
	// decides whether it records what they begin, unless they export traces themselves. Their connections
	// cost the hub less memory and fewer pings, since there are many.
	IsOutside bool
	// CAPEM holds the certificates to trust for https, in PEM. Empty: the system's.
	CAPEM []byte
	// Transport replaces the client's own transport if it is set: the in-memory one of a test, or a
	// tunnel.
	Transport http.RoundTripper
	// Dial connects the client's own transport. Nil: over TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Client holds the arguments for the constructors of generated clients:
//
//	gitcachev1connect.NewGitCacheServiceClient(client.HTTP, client.BaseURL, client.Options...)
//
// HTTP may also be used for plain requests to the same service: it adds the token to requests for
// BaseURL's host, and only to those. It has no overall timeout, for the sake of streams: give every
// call a deadline. A Client is safe for concurrent use, and meant to be shared by all calls to one
// service.
type Client struct {
	HTTP    *http.Client
	BaseURL string
	Options []connect.ClientOption
}

// ReadCA reads the PEM certificates for [ClientParams.CAPEM]. An empty path gives none, which
// stands for the system's.
func ReadCA(path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read certificates: %w", err)
	}
	return pem, nil
}

// NewClient makes the client for one service. It does not connect.
func NewClient(params ClientParams) (Client, error) {
	base, err := parseBaseURL(params.BaseURL)
	if err != nil {
		return Client{}, err
	}
	traces, err := otelInterceptor(params)
	if err != nil {
		return Client{}, err
	}
	transport := params.Transport
	if transport == nil {
		if transport, err = newTransport(base.Scheme, params); err != nil {
			return Client{}, err
		}
	}
	transport = smallFrames{transport}
	if params.Tokens != nil {
		transport = &bearerTransport{next: transport, tokens: params.Tokens, host: base.Host}
	}
	return Client{
		HTTP:    &http.Client{Transport: transport, CheckRedirect: refuseRedirect},
		BaseURL: base.String(),
		Options: []connect.ClientOption{
			connect.WithInterceptors(traces),
			connect.WithReadMaxBytes(MaxMessageBytes),
			connect.WithAcceptCompression("gzip", newBoundedGzip, newGzipWriter),
			connect.WithCompressMinBytes(compressFromBytes),
		},
	}, nil
}

// otelInterceptor is the client's counterpart of observer. It does not use OpenTelemetry's globals.
func otelInterceptor(params ClientParams) (*otelconnect.Interceptor, error) {
	t, propagator := params.Telemetry, params.Telemetry.Propagator()
	if params.IsOutside {
		propagator = t.OutsidePropagator()
	}
	interceptor, err := otelconnect.NewInterceptor(
		otelconnect.WithTracerProvider(t.TracerProvider()),
		otelconnect.WithMeterProvider(t.MeterProvider()),
		otelconnect.WithPropagator(propagator),
	)
	if err != nil {
		return nil, fmt.Errorf("make telemetry interceptor: %w", err)
	}
	return interceptor, nil
}

func parseBaseURL(text string) (*url.URL, error) {
	base, err := url.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("parse base URL: %w", err)
	}
	if base.Scheme != "http" && base.Scheme != "https" || base.Host == "" || base.User != nil {
		return nil, fmt.Errorf("parse base URL: got %q, want http://host or https://host", base.Redacted())
	}
	base.Path = strings.TrimRight(base.Path, "/")
	return base, nil
}

func newTransport(scheme string, params ClientParams) (*http.Transport, error) {
	protocols, dial := new(http.Protocols), params.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: dialTimeout}).DialContext
	}
	transport := &http.Transport{
		Protocols:       protocols,
		DialContext:     dial,
		IdleConnTimeout: idleConnTimeout,
		HTTP2:           &http.HTTP2Config{SendPingTimeout: hubPingAfter, PingTimeout: hubPingTimeout},
	}
	if params.IsOutside {
		transport.HTTP2.SendPingTimeout, transport.HTTP2.PingTimeout = pingAfter, pingTimeout
		transport.HTTP2.MaxEncoderHeaderTableSize = outsideHeaderTable
	}
	if scheme == "http" {
		protocols.SetUnencryptedHTTP2(true)
		transport.DialContext = dialGreeted(dial)
		if params.IsOutside {
			transport.DialContext = dialBounded(dial)
		}
		return transport, nil
	}
	protocols.SetHTTP1(true) // for intermediaries that support nothing else; unary calls and server streams work over it
	protocols.SetHTTP2(true)
	transport.Proxy = http.ProxyFromEnvironment
	transport.TLSHandshakeTimeout = dialTimeout
	roots, err := parseRoots(params.CAPEM)
	if err != nil {
		return nil, err
	}
	transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}
	return transport, nil
}

func parseRoots(caPEM []byte) (*x509.CertPool, error) {
	if len(caPEM) == 0 {
		return nil, nil // crypto/tls takes nil for the system's pool
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(caPEM) {
		return nil, errors.New("parse CA certificates: no certificate in PEM found")
	}
	return roots, nil
}

// refuseRedirect returns the redirect itself to the caller: no service of Leat redirects, and a
// token must not follow a redirect to another host.
func refuseRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
