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

// hopRules are what an HTTP hop supports and forwards.
type hopRules struct {
	http1, http2 bool                    // what clients may speak
	upgrade      func(token string) bool // which protocols may be switched to
	headerLimit  int                     // bytes of a request's header; 0: unlimited
}

// HTTP1Only routes new connections through a hop that supports only HTTP/1.1, and no upgrade except
// WebSocket: it removes any other Upgrade, offers no h2 in TLS, and does not understand the preface
// of HTTP/2.
func (p *Proxy) HTTP1Only() {
	p.setHop(hopRules{http1: true, upgrade: func(token string) bool { return strings.EqualFold(token, "websocket") }})
}

// H2Only routes new connections through a hop that accepts HTTP/1.1 and HTTP/2 from clients, speaks
// HTTP/2 to the target, and therefore forwards no Upgrade.
func (p *Proxy) H2Only() {
	p.setHop(hopRules{http1: true, http2: true, upgrade: func(string) bool { return false }})
}

// HeaderLimit routes new connections through a hop that answers 431 to a request whose header has
// more than n bytes. Unless another hop is set, it forwards everything else.
func (p *Proxy) HeaderLimit(n int) {
	p.mu.Lock()
	rules := hopRules{http1: true, upgrade: func(string) bool { return true }}
	if p.hop != nil {
		rules = p.hop.rules
	}
	p.mu.Unlock()
	rules.headerLimit = n
	p.setHop(rules)
}

// NoHop makes the proxy forward new connections byte by byte again.
func (p *Proxy) NoHop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hop != nil {
		p.retired, p.hop = append(p.retired, p.hop), nil
	}
}

// setHop starts a hop. The previous one keeps its connections.
func (p *Proxy) setHop(rules hopRules) {
	h := newHop(p, rules)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hop != nil {
		p.retired = append(p.retired, p.hop)
	}
	p.hop = h
	p.running.Go(h.serve)
}

// hop is a reverse proxy for HTTP.
type hop struct {
	rules     hopRules
	server    *http.Server
	transport *http.Transport
	listener  *loopback.Pipes
	secure    bool
}

func newHop(p *Proxy, rules hopRules) *hop {
	h := &hop{rules: rules, listener: loopback.NewPipes(), secure: p.params.TLS != nil}
	upstream := new(http.Protocols)
	scheme := "http"
	if p.params.TargetTLS != nil {
		scheme = "https"
	}
	upstream.SetHTTP1(!rules.http2)
	upstream.SetHTTP2(rules.http2)
	upstream.SetUnencryptedHTTP2(rules.http2 && scheme == "http")
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
	protocols.SetHTTP1(rules.http1)
	protocols.SetHTTP2(rules.http2)
	protocols.SetUnencryptedHTTP2(rules.http2 && !h.secure)
	h.server = &http.Server{
		Handler: h.filter(forward), Protocols: protocols, ErrorLog: log.New(io.Discard, "", 0), MaxHeaderBytes: 4 << 20,
	}
	if h.secure {
		h.server.TLSConfig = p.params.TLS.Clone()
		h.server.TLSConfig.NextProtos = nil
	}
	return h
}

// filter applies the hop's rules to requests before next forwards them.
func (h *hop) filter(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h.rules.headerLimit > 0 && headerSize(r) > h.rules.headerLimit {
			w.WriteHeader(http.StatusRequestHeaderFieldsTooLarge)
			return
		}
		if token := r.Header.Get("Upgrade"); token != "" && !h.rules.upgrade(token) {
			r.Header.Del("Upgrade")
			r.Header.Del("Connection")
		}
		next.ServeHTTP(w, r)
	})
}

func headerSize(r *http.Request) int {
	size := len(r.RequestURI)
	for name, values := range r.Header {
		for _, value := range values {
			size += len(name) + len(value) + len(": \r\n")
		}
	}
	return size
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
