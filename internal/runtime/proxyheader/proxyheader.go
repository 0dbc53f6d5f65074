// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package proxyheader lists the headers that Leat's proxies do not pass on: request headers that
// claim an identity or an address, and answer headers that act on the hub's whole host.
//
// It promises that a listed name is removed in every spelling. Servers and the gateways of common
// web frameworks fold case and read "_" or "." as "-", so names are compared after the same
// folding. The hub and the agent use the same lists, so that neither relies on the other. The
// package keeps no state.
package proxyheader

import (
	"net/http"
	"strings"
)

// identity lists the request headers from which servers read an identity, an address, or a request
// other than the one that was authorized and recorded. An entry that ends with "-" is a prefix.
// Names are folded.
var identity = newList(
	// Credentials.
	"authorization", "proxy-authorization", "cookie", "cookie2",
	// Leat and Kubernetes: impersonation, and the front proxy of the API server's aggregation
	// layer.
	"leat-", "impersonate-", "x-remote-", "remote-user", "remote-group", "remote-groups",
	// The caller's address and the called address. The API server's audit log records
	// X-Forwarded-For and X-Real-Ip.
	"forwarded", "x-forwarded", "x-forwarded-", "x-forward-", "x-original-", "x-real-", "x-client-ip", "client-ip", "x-cluster-client-ip",
	"true-client-ip", "cf-connecting-", "fastly-client-", "x-azure-clientip", "x-azure-socketip", "x-appengine-", "proxy-client-ip",
	"wl-proxy-client-ip", "x-proxyuser-ip", "x-host", "x-http-host-override", "x-rewrite-url", "x-envoy-",
	// Identities that authenticating proxies and clouds assert.
	"x-auth-request-", "x-webauth-", "x-authenticated-", "x-goog-authenticated-", "x-goog-iap-", "x-amzn-oidc-", "x-amzn-mtls-",
	"x-ms-client-principal", "x-ms-client-principal-", "cf-access-", "tailscale-", "x-pomerium-", "x-authentik-", "x-token-user-",
	// Client certificates that another server has verified.
	"client-cert", "client-cert-", "x-client-cert", "x-client-cert-", "x-ssl-", "ssl-client-", "x-tls-client-", "x-arr-clientcert",
	// A method other than the authorized one.
	"x-http-method", "x-http-method-override", "x-method-override",
	// HTTP/1.1's upgrade to HTTP/2.
	"http2-settings",
)

// hostwide lists the answer headers that act beyond the answer: on all state that a browser keeps
// for the host, on where a browser sends reports, or on a reverse proxy in front of the hub.
var hostwide = newList(
	// Cookies and other state of the host.
	"set-cookie", "set-cookie2", "clear-site-data", "strict-transport-security", "public-key-pins", "public-key-pins-", "expect-ct", "alt-svc",
	"service-worker-allowed", "origin-agent-cluster", "accept-ch", "critical-ch", "use-as-dictionary", "sec-session-", "secure-session-",
	// Only the hub decides what pages of other origins may do.
	"access-control-",
	// Navigation that the page did not request.
	"refresh",
	// Reports about the host, to an address that the answer names.
	"nel", "report-to", "reporting-endpoints",
	// Commands to a reverse proxy: to serve one of its own files, to request another URL, to change
	// how it buffers.
	"x-accel-", "x-sendfile", "x-sendfile2", "x-sendfile-", "x-lighttpd-", "x-litespeed-", "x-reproxy-",
)

// ScrubRequest deletes the request headers with which a sender could claim another identity or
// address.
func ScrubRequest(header http.Header) { identity.scrub(header) }

// IsIdentity reports whether ScrubRequest deletes a header with this name.
func IsIdentity(name string) bool { return identity.has(name) }

// ScrubAnswer deletes the headers of an answer, or of its trailer, that act beyond the answer. It
// keeps Leat's own error headers, whose origin the caller has to check.
func ScrubAnswer(header http.Header) { hostwide.scrub(header) }

// folded returns a letter in lower case, a digit unchanged, and "-" for any other byte.
func folded(c byte) byte {
	switch {
	case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
		return c
	case 'A' <= c && c <= 'Z':
		return c - 'A' + 'a'
	default:
		return '-'
	}
}

// list is a set of folded names and of folded prefixes.
type list struct {
	names    map[string]bool
	prefixes []string
}

// longest is greater than the length of any entry.
const longest = 64

func newList(entries ...string) list {
	l := list{names: map[string]bool{}}
	for _, entry := range entries {
		if strings.HasSuffix(entry, "-") {
			l.prefixes = append(l.prefixes, entry)
		} else {
			l.names[entry] = true
		}
	}
	return l
}

// has reports whether a name or one of its prefixes is in the list. It allocates nothing, because
// it runs for every header.
func (l list) has(name string) bool {
	var buffer [longest]byte
	n := min(len(name), longest)
	for i := range n {
		buffer[i] = folded(name[i])
	}
	if len(name) <= longest && l.names[string(buffer[:n])] {
		return true
	}
	for _, prefix := range l.prefixes {
		if n >= len(prefix) && string(buffer[:len(prefix)]) == prefix {
			return true
		}
	}
	return false
}

func (l list) scrub(header http.Header) {
	for name := range header {
		if l.has(name) {
			delete(header, name)
		}
	}
}
