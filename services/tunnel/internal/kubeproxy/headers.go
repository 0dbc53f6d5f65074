// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kubeproxy

import (
	"net/http"
	"strings"

	"github.com/leatdev/leat/internal/proxyheader"
)

// Headers that say more about an error.
const (
	headerErrorOrigin = "Leat-Error-Origin"
	headerErrorReason = "Leat-Error-Reason"
)

// scrubRequest removes everything by which a caller could speak with another's voice, or from another's address: at the cluster, at the
// agent, or at the hub itself. Hop-by-hop headers, and those that the caller's Connection header lists, are gone before.
func scrubRequest(header http.Header) {
	proxyheader.ScrubRequest(header)
	scrubProtocols(header)
}

// scrubHeader removes what a cluster must not say to the hub's callers, from the header of an answer of any status or from its trailer:
// what speaks for the whole host, and what only the hub and an agent may say.
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

// scrubResponse prepares the head of a cluster's answer. It marks errors with their origin: only an agent may name itself.
func scrubResponse(res *http.Response) {
	origin, reason := res.Header.Get(headerErrorOrigin), res.Header.Get(headerErrorReason)
	scrubHeader(res.Header)
	scrubHeader(res.Trailer) // announces the trailer
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

// What browsers are told about answers of clusters, whose content is not the hub's. On the hub's own host a page of a cluster is shown
// without scripts, forms and an origin, because everything else on that host is the hub's.
const (
	headerContentTypeOptions = "X-Content-Type-Options"
	headerContentPolicy      = "Content-Security-Policy"
	headerResourcePolicy     = "Cross-Origin-Resource-Policy"
	contentPolicy            = "sandbox; default-src 'none'"
)

// confine tells browsers what they may do with an answer of a cluster. A cluster that has a host of its own may have pages there.
func confine(header http.Header, clusterHost bool) {
	header.Set(headerContentTypeOptions, "nosniff")
	if clusterHost {
		return
	}
	header.Del(headerContentPolicy + "-Report-Only") // it would report about the hub's host
	header.Set(headerContentPolicy, contentPolicy)
	header.Set(headerResourcePolicy, "same-origin")
}
