// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// names are those of common fields, in net/http's form. Their case is changed without allocating.
var names = [...]string{
	"Accept", "Accept-Charset", "Accept-Encoding", "Accept-Language", "Accept-Ranges", "Access-Control-Allow-Credentials",
	"Access-Control-Allow-Headers", "Access-Control-Allow-Methods", "Access-Control-Allow-Origin", "Access-Control-Expose-Headers",
	"Access-Control-Max-Age", "Access-Control-Request-Headers", "Access-Control-Request-Method", "Age", "Allow", "Audit-Id", "Authorization",
	"Baggage", "Cache-Control", "Connect-Accept-Encoding", "Connect-Content-Encoding", "Connect-Protocol-Version", "Connect-Timeout-Ms",
	"Content-Disposition", "Content-Encoding", "Content-Language", "Content-Length", "Content-Location", "Content-Range", "Content-Type",
	"Cookie", "Date", "Etag", "Expect", "Expires", "Forwarded", "From", "Host", "If-Match", "If-Modified-Since", "If-None-Match",
	"If-Range", "If-Unmodified-Since", "Impersonate-Group", "Impersonate-Uid", "Impersonate-User", "Kubectl-Command", "Kubectl-Session",
	"Last-Modified", "Link", "Location", "Max-Forwards", "Origin", "Range", "Referer", "Retry-After", "Server", "Set-Cookie",
	"Strict-Transport-Security", "Te", "Trailer", "Traceparent", "Tracestate", "User-Agent", "Vary", "Via", "Warning", "Www-Authenticate",
	"X-Content-Type-Options", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Kubernetes-Pf-Flowschema-Uid",
	"X-Kubernetes-Pf-Prioritylevel-Uid",
}

// lowerNames leads from net/http's form of a name to that on the wire, canonicalNames back.
var lowerNames, canonicalNames = func() (lower, canon map[string]string) {
	lower, canon = make(map[string]string, len(names)), make(map[string]string, len(names))
	for _, name := range names {
		small := strings.ToLower(name)
		lower[name], canon[small] = small, name
	}
	return lower, canon
}()

// lower returns the form of a field's name on the wire.
func lower(name string) string {
	if known, ok := lowerNames[name]; ok {
		return known
	}
	return strings.ToLower(name)
}

// canonical returns net/http's form of a field's name.
func canonical(name string) string {
	if known, ok := canonicalNames[name]; ok {
		return known
	}
	return http.CanonicalHeaderKey(name)
}

// isOfConnection reports whether a field concerns one connection. HTTP/2 does not have such fields
// (RFC 9113, 8.2.2). The name is in lower case.
func isOfConnection(name string) bool {
	switch name {
	case "connection", "proxy-connection", "transfer-encoding", "upgrade", "keep-alive":
		return true
	}
	return false
}

// isValidName reports whether a name is valid on the wire, where it is in lower case.
func isValidName(name string) bool {
	if _, known := canonicalNames[name]; known {
		return true
	}
	return httpguts.ValidHeaderFieldName(name) && !strings.ContainsFunc(name, func(r rune) bool { return r >= 'A' && r <= 'Z' })
}

// isFraming reports whether a field says how long a message is. Trailers cannot have such fields
// (RFC 9110, 6.5.1).
func isFraming(name string) bool {
	switch http.CanonicalHeaderKey(name) {
	case "Content-Length", "Transfer-Encoding", "Trailer":
		return true
	}
	return false
}

// isVolatile reports whether a field has another value in each message. In HPACK's table it would
// only replace fields that come again.
func isVolatile(name string) bool {
	switch name {
	case ":path", "content-length", "traceparent", "audit-id":
		return true
	}
	return false
}
