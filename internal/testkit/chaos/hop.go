// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"

	"github.com/leatdev/leat/internal/testkit/loopback"
)

// HTTP1Only routes new connections through a hop that supports only HTTP/1.1, and no upgrade except
// WebSocket: it removes any other Upgrade, offers no h2 in TLS, and does not understand the preface
// of HTTP/2.
func (p *Proxy) HTTP1Only() { p.setHop(newHop(p, false)) }

// H2Only routes new connections through a hop that accepts HTTP/1.1 and HTTP/2 from clients, speaks
// HTTP/2 to the target, and therefore forwards no Upgrade.
func (p *Proxy) H2Only() { p.setHop(newHop(p, true)) }

// NoHop makes the proxy forward new connections byte by byte again.
func (p *Proxy) NoHop() { p.setHop(nil) }

// setHop starts a hop. The previous one keeps its connections.
func (p *Proxy) setHop(h *hop) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hop != nil {
		p.retired = append(p.retired, p.hop)
	}
	p.hop = h
	if h != nil {
		p.running.Go(h.serve)
	}
}

// hop is a reverse proxy for HTTP.
type hop struct {
	http2     bool // what it speaks to the target
	server    *http.Server
	transport *http.Transport
	listener  *loopback.Pipes
	secure    bool
}

func newHop(p *Proxy, http2 bool) *hop {
	h := &hop{http2: http2, listener: loopback.NewPipes(), secure: p.params.TLS != nil}
	upstream := new(http.Protocols)
	scheme := "http"
	if p.params.TargetTLS != nil {
		scheme = "https"
	}
	upstream.SetHTTP1(!http2)
	upstream.SetHTTP2(http2)
	upstream.SetUnencryptedHTTP2(http2 && scheme == "http")
	h.transport = &http.Transport{
		Protocols: upstream, DisableCompression: true,
		DialContext:     func(ctx context.Context, _, _ string) (net.Conn, error) { return p.params.Dial(ctx) },
		TLSClientConfig: p.params.TargetTLS.Clone(),
	}
	forward := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = scheme, r.In.Host
			r.Out.URL.RawQuery = r.In.URL.RawQuery
		},
		Transport: h.transport, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(http2)
	protocols.SetUnencryptedHTTP2(http2 && !h.secure)
	h.server = &http.Server{
		Handler: h.filter(forward), Protocols: protocols, ErrorLog: log.New(io.Discard, "", 0), MaxHeaderBytes: 4 << 20,
	}
	if h.secure {
		h.server.TLSConfig = p.params.TLS.Clone()
		h.server.TLSConfig.NextProtos = nil
	}
	return h
}

// filter removes the upgrades that the hop does not support before next forwards a request.
func (h *hop) filter(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if token := r.Header.Get("Upgrade"); token != "" && (h.http2 || !strings.EqualFold(token, "websocket")) {
			r.Header.Del("Upgrade")
			r.Header.Del("Connection")
		}
		next.ServeHTTP(w, r)
	})
}

func (h *hop) serve() {
	if h.secure {
		_ = h.server.ServeTLS(h.listener, "", "")
		return
	}
	_ = h.server.Serve(h.listener)
}

func (h *hop) close() {
	_ = h.server.Close()
	_ = h.listener.Close()
	h.transport.CloseIdleConnections()
}
