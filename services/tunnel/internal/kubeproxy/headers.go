// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kubeproxy

import (
	"net/http"
	"strings"
)

// Headers that say more about an error.
const (
	headerErrorOrigin = "Leat-Error-Origin"
	headerErrorReason = "Leat-Error-Reason"
)

// scrubRequest removes everything by which a caller could speak with another's voice: at the cluster, at the agent, or
// at the hub itself. Hop-by-hop headers, and those that the caller's Connection header lists, are gone before.
func scrubRequest(header http.Header) {
	for name := range header {
		if isReserved(name) {
			delete(header, name)
		}
	}
	scrubProtocols(header)
}

// reserved are headers that say who speaks, and reservedPrefixes begin the names of such.
var (
	reserved         = [...]string{"authorization", "proxy-authorization", "cookie", "cookie2", "http2-settings", "forwarded"}
	reservedPrefixes = [...]string{"impersonate-", "leat-", "x-remote-", "x-forwarded-"}
)

// isReserved knows a header by its name in any case, and with "_" for "-": some servers take one for the other.
func isReserved(name string) bool {
	name = strings.ReplaceAll(name, "_", "-")
	for _, other := range reserved {
		if strings.EqualFold(name, other) {
			return true
		}
	}
	for _, prefix := range reservedPrefixes {
		if hasPrefixFold(name, prefix) {
			return true
		}
	}
	return false
}

// hasPrefixFold reports whether a header's name begins with a prefix in any case.
func hasPrefixFold(name, prefix string) bool {
	return len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix)
}

// scrubResponse removes what a cluster must not say to the hub's callers: cookies would be sent to other clusters of
// the same hub, and only an agent may name itself as the origin of an error.
func scrubResponse(res *http.Response) {
	origin, reason := res.Header.Get(headerErrorOrigin), res.Header.Get(headerErrorReason)
	for name := range res.Header {
		if hasPrefixFold(name, "leat-") {
			delete(res.Header, name)
		}
	}
	res.Header.Del("Set-Cookie")
	res.Header.Del("Set-Cookie2")
	scrubCrossOrigin(res.Header)
	if res.StatusCode < http.StatusBadRequest {
		return
	}
	if origin != originAgent {
		origin, reason = originCluster, ""
	}
	res.Header.Set(headerErrorOrigin, origin)
	if reason != "" {
		res.Header.Set(headerErrorReason, reason)
	}
}
