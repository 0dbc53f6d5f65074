// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kubeproxy

import (
	"net/http"
	"strings"

	"github.com/leatdev/leat/internal/runtime/proxyheader"
)

// Headers with details of an error.
const (
	headerErrorOrigin = "Leat-Error-Origin"
	headerErrorReason = "Leat-Error-Reason"
)

// scrubRequest removes every header with which a caller could claim another identity or address: at
// the cluster, at the agent, or at the hub itself. Hop-by-hop headers, and headers that the
// caller's Connection header lists, are already removed.
func scrubRequest(header http.Header) {
	proxyheader.ScrubRequest(header)
	scrubProtocols(header)
}

// scrubHeader removes what a cluster must not send to the hub's callers, from the header of an
// answer of any status or from its trailer: headers that act on the whole host, and headers that
// only the hub or an agent may set.
func scrubHeader(header http.Header) {
	proxyheader.ScrubAnswer(header)
	for name := range header {
		if hasPrefixFold(name, "leat-") || hasPrefixFold(name, "leat_") {
			delete(header, name)
		}
	}
}

// hasPrefixFold reports whether a header's name begins with a prefix in any case.
func hasPrefixFold(name, prefix string) bool {
	return len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix)
}

// scrubResponse prepares the head of a cluster's answer. It marks errors with their origin: only an
// agent may name itself as the origin.
func scrubResponse(res *http.Response) {
	origin, reason := res.Header.Get(headerErrorOrigin), res.Header.Get(headerErrorReason)
	scrubHeader(res.Header)
	scrubHeader(res.Trailer) // the keys announce the trailer
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

// These are headers that restrict what browsers may do with a cluster's answer, whose content does
// not come from the hub. At the hub's own host a cluster's page has no scripts, forms or origin,
// because everything else at that host belongs to the hub.
const (
	headerContentTypeOptions = "X-Content-Type-Options"
	headerContentPolicy      = "Content-Security-Policy"
	headerResourcePolicy     = "Cross-Origin-Resource-Policy"
	contentPolicy            = "sandbox; default-src 'none'"
)

// confine sets headers that restrict what browsers may do with a cluster's answer. A cluster with
// its own host may serve pages there.
func confine(header http.Header, clusterHost bool) {
	header.Set(headerContentTypeOptions, "nosniff")
	if clusterHost {
		return
	}
	header.Del(headerContentPolicy + "-Report-Only") // its reports would be about the hub's host
	header.Set(headerContentPolicy, contentPolicy)
	header.Set(headerResourcePolicy, "same-origin")
}
