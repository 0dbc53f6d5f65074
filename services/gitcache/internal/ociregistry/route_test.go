// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package ociregistry_test

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"sync/atomic"
	"testing"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/internal/testkit/registrytest"
	"github.com/leatdev/leat/internal/testkit/selfsigned"
	"github.com/leatdev/leat/services/gitcache/internal/artifact"
)

// TestTheWayToARegistry takes the proxy and shows the client certificate that the definition has.
func TestTheWayToARegistry(t *testing.T) {
	t.Parallel()
	r := registrytest.Start(t, registrytest.Config{})
	digest := r.Push(t, "team/web", "1.0.0", registrytest.ChartType, chart(t, "1.0.0"))

	var proxied atomic.Int32
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		proxied.Add(1)
		(&httputil.ReverseProxy{Rewrite: func(*httputil.ProxyRequest) {}}).ServeHTTP(w, r) // the URL is whole
	}))
	t.Cleanup(proxy.Close)
	f := newFront(t, r.Addr, false)
	s := newSubject(t, upstream.Definition{URL: f.url("team/web"), ProxyURL: secret.Text(proxy.URL)})
	s.fetch(t)
	s.resolve(t, tag("1.0.0"))
	if got := s.files(t, artifact.ID{Digest: digest}); len(got) != 2 || int(proxied.Load()) != len(f.take()) {
		t.Errorf("got %v, with %d requests through the proxy", got, proxied.Load())
	}

	own := selfsigned.New(t, "leat.invalid")
	strict := &front{}
	strict.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		f.Config.Handler.ServeHTTP(w, req)
	}))
	strict.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	strict.Config.ErrorLog = f.Config.ErrorLog
	strict.StartTLS()
	t.Cleanup(strict.Close)
	def := upstream.Definition{URL: strict.url("team/web"), CAPEM: strict.caPEM()}
	wantReason(t, newSubject(t, def).try(t.Context()), reason.UpstreamAuthRejected)
	def.Credential = upstream.Credential{ClientCertPEM: string(own.PEM), ClientKeyPEM: secret.Text(own.KeyPEM)}
	newSubject(t, def).fetch(t)
	def.CAPEM = ""
	wantReason(t, newSubject(t, def).try(t.Context()), reason.UpstreamUnreachable)
}
