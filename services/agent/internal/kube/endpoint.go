// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"github.com/leatdev/leat/internal/runtime/h2"
)

// unreadMemory bounds the bytes that API servers have sent and callers have not read. A thousand
// stalled readers hold as much.
const unreadMemory = 512 << 20

// Endpoint is the API server as a target for requests that the agent passes on.
type Endpoint struct {
	// Base is its base URL.
	Base *url.URL
	// Transport and Watches authenticate as the agent. They share their connections neither with
	// each other nor with the agent's own requests, so that none can use up the others' streams.
	Transport http.RoundTripper
	Watches   http.RoundTripper
	// Roots are the authorities that sign the cluster's own certificates. Nil: the system's.
	Roots *x509.CertPool
	// TLS, Dial and Proxy are for callers that open connections of their own. Authenticate wraps a
	// transport on such connections, so that it authenticates as the agent.
	TLS          *tls.Config
	Dial         func(ctx context.Context, network, address string) (net.Conn, error)
	Proxy        func(*http.Request) (*url.URL, error)
	Authenticate func(http.RoundTripper) (http.RoundTripper, error)
}

// Endpoint returns the API server as the client is configured. It does not connect.
func (c *Client) Endpoint() (Endpoint, error) {
	base, _, err := rest.DefaultServerUrlFor(c.config)
	if err != nil {
		return Endpoint{}, fmt.Errorf("parse API server's address: %w", err)
	}
	budget, err := h2.NewBudget(unreadMemory)
	if err != nil {
		return Endpoint{}, err
	}
	e := Endpoint{Base: base, Dial: dialer(), Proxy: http.ProxyFromEnvironment}
	if c.config.Proxy != nil {
		e.Proxy = c.config.Proxy
	}
	if e.TLS, err = rest.TLSConfigFor(c.config); err != nil {
		return Endpoint{}, fmt.Errorf("configure TLS: %w", err)
	}
	if e.TLS != nil {
		e.Roots = e.TLS.RootCAs
	}
	for _, transport := range []*http.RoundTripper{&e.Transport, &e.Watches} {
		config := rest.CopyConfig(c.config)
		config.Dial = dialer()           // client-go does not share a transport with a dialer of its own
		config.DisableCompression = true // callers negotiate the encoding; no hop on the way unpacks it
		config.UserAgent = ""            // callers send their own, or none
		config.Wrap(func(inner http.RoundTripper) http.RoundTripper { return speakH2(inner, budget) })
		if *transport, err = rest.TransportFor(config); err != nil {
			return Endpoint{}, fmt.Errorf("make transport: %w", err)
		}
	}
	e.Authenticate = func(next http.RoundTripper) (http.RoundTripper, error) {
		return rest.HTTPWrappersForConfig(c.config, next)
	}
	return e, nil
}

// speakH2 makes client-go's transport use Leat's HTTP/2, whose windows follow the readers and whose
// requests cost less. The transport must not have a connection yet.
func speakH2(transport http.RoundTripper, budget *h2.Budget) http.RoundTripper {
	inner := transport
	for {
		wrapper, ok := inner.(utilnet.RoundTripperWrapper)
		if !ok {
			break
		}
		inner = wrapper.WrappedRoundTripper()
	}
	t, ok := inner.(*http.Transport)
	if !ok || t.TLSClientConfig == nil {
		return transport
	}
	pool := h2.NewPool(settings(), budget)
	pool.Install(t)
	return pool.Before(transport)
}

// settings returns the settings of connections to the API server.
func settings() h2.Settings {
	return h2.Settings{
		Windows: h2.Windows{Initial: 512 << 10, Max: 512 << 10}, FrameSize: 64 << 10, MaxHeaderBytes: 1 << 20,
		PingAfter: 30 * time.Second, PingTimeout: 15 * time.Second, WriteTimeout: time.Minute, ContinueTimeout: time.Second,
	}
}

func dialer() func(ctx context.Context, network, address string) (net.Conn, error) {
	inner := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := inner.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return h2.Coalesce(conn), nil
	}
}
