// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package proxyheader_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/runtime/proxyheader"
)

// spellings returns the names that some server on the path reads as the given one.
func spellings(name string) []string {
	return []string{
		name, http.CanonicalHeaderKey(name), strings.ToUpper(name), strings.ReplaceAll(name, "-", "_"),
		strings.ToUpper(strings.ReplaceAll(name, "-", "_")), strings.ReplaceAll(name, "-", "."), strings.Replace(name, "-", "_", 1),
	}
}

func TestSecRequestHeadersThatClaimAnIdentity(t *testing.T) {
	t.Parallel()
	removed := []string{
		"authorization", "proxy-authorization", "cookie", "cookie2", "http2-settings",
		"impersonate-user", "impersonate-group", "impersonate-uid", "impersonate-extra-scopes", "impersonate-future", "leat-subject", "leat-hop",
		"x-remote-user", "x-remote-group", "x-remote-uid", "x-remote-extra-scopes", "remote-user",
		"forwarded", "x-forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-user", "x-forwarded-client-cert", "x-forwarded-access-token",
		"x-real-ip", "x-client-ip", "client-ip", "x-cluster-client-ip", "true-client-ip", "cf-connecting-ip", "cf-connecting-ipv6",
		"fastly-client-ip", "x-azure-clientip", "x-original-forwarded-for", "x-original-url", "x-original-uri", "x-original-host", "x-rewrite-url",
		"x-envoy-external-address", "x-envoy-original-path", "x-envoy-peer-metadata", "x-auth-request-user", "x-webauth-user",
		"x-goog-authenticated-user-email", "x-goog-iap-jwt-assertion", "x-amzn-oidc-identity", "x-ms-client-principal", "cf-access-jwt-assertion",
		"tailscale-user-login", "x-ssl-client-cert", "ssl-client-s-dn", "x-client-cert", "client-cert", "x-http-method-override", "x-method-override",
	}
	for _, name := range removed {
		for _, spelling := range spellings(name) {
			header := http.Header{spelling: {"root"}, "X-Mine": {"kept"}}
			proxyheader.ScrubRequest(header)
			if len(header) != 1 || !proxyheader.IsIdentity(spelling) {
				t.Errorf("%s: got %v, want it removed", spelling, header)
			}
		}
	}
	for _, name := range []string{
		"Accept", "Accept-Encoding", "Content-Type", "Content-Length", "User-Agent", "Origin", "Host", "If-None-Match", "Traceparent", "X-Request-Id",
		"X-Stream-Protocol-Version", "Sec-Websocket-Protocol", "Kubectl-Command", "Audit-Id", "X-Csrf-Token", "X-Mine", "Range", "Expect", "Te",
		"X-Requested-With", "Client-Version", "Realm", "Forward", "Remote", "X-Clientele",
	} {
		if proxyheader.IsIdentity(name) {
			t.Errorf("%s: is removed, want it to pass", name)
		}
	}
}

func TestSecAnswerHeadersThatSpeakForTheHost(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"set-cookie", "set-cookie2", "clear-site-data", "strict-transport-security", "alt-svc", "service-worker-allowed", "refresh", "nel", "report-to",
		"reporting-endpoints", "x-accel-redirect", "x-accel-buffering", "x-sendfile", "x-sendfile2", "x-lighttpd-send-file", "x-lighttpd-sendfile",
		"x-litespeed-location", "x-reproxy-url", "access-control-allow-origin", "access-control-allow-credentials", "public-key-pins", "accept-ch",
		"origin-agent-cluster", "use-as-dictionary",
	} {
		for _, spelling := range spellings(name) {
			header := http.Header{spelling: {"x"}, "Content-Type": {"text/html"}}
			proxyheader.ScrubAnswer(header)
			if len(header) != 1 {
				t.Errorf("%s: got %v, want it removed", spelling, header)
			}
		}
	}
	kept := http.Header{}
	for _, name := range []string{
		"Content-Type", "Content-Length", "Etag", "Location", "Warning", "Retry-After", "Audit-Id", "Cache-Control", "Link", "Vary", "Date",
		"X-Kubernetes-Pf-Flowschema-Uid", "Content-Security-Policy", "X-Frame-Options", "Grpc-Status", "Www-Authenticate", "Leat-Error-Origin",
	} {
		kept[name] = []string{"x"}
	}
	before := len(kept)
	if proxyheader.ScrubAnswer(kept); len(kept) != before {
		t.Errorf("got %v, want all of the %d headers", kept, before)
	}
}

func BenchmarkScrubRequest(b *testing.B) {
	header := http.Header{
		"Accept": {"application/json"}, "Accept-Encoding": {"gzip"}, "User-Agent": {"kubectl"}, "Content-Type": {"application/json"},
		"Traceparent": {"00"}, "Kubectl-Command": {"kubectl get"}, "Kubectl-Session": {"x"},
	}
	b.ReportAllocs()
	for b.Loop() {
		proxyheader.ScrubRequest(header)
	}
}
