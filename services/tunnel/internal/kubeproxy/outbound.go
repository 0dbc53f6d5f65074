// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kubeproxy

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/leatdev/leat/services/tunnel/internal/kubeapi"
	"github.com/leatdev/leat/services/tunnel/internal/policy"
)

// agentHost is the name that requests carry through the tunnel. The agent replaces it by its API
// server's.
const agentHost = "kubernetes"

// Headers that only the hub sets on requests to an agent.
const (
	headerSubject          = "Leat-Subject" // the caller of an agent's own call
	headerImpersonateUser  = "Impersonate-User"
	headerImpersonateUID   = "Impersonate-Uid"
	headerImpersonateGroup = "Impersonate-Group"
	headerImpersonateExtra = "Impersonate-Extra-"
)

// address directs a request to the agent: scrubbed, under the identity that was decided, with the
// caller's path and query byte for byte. A service inside the cluster learns nothing about the
// caller.
func (r *request) address(out *http.Request) {
	scrubRequest(out.Header)
	prefix := ""
	switch {
	case r.target.isAgentCall():
		out.Header.Set(headerSubject, r.subject)
	case !r.target.isServiceCall():
		prefix = kubeapi.AgentPrefix
		impersonate(out.Header, r.decision)
	}
	out.Trailer = nil // trailers could name reserved headers
	out.Host = agentHost
	// An opaque URL is written as it is. A parsed one would be escaped again, and differently.
	out.URL = &url.URL{
		Scheme: "http", Host: agentHost, Opaque: prefix + r.target.path, RawQuery: r.target.query, ForceQuery: r.in.URL.ForceQuery,
	}
}

// impersonate sets the identity under which the cluster's API server sees the request: exactly what
// was decided. It leaves out values that no header can hold, such as groups of foreign origin.
func impersonate(header http.Header, decision policy.Decision) {
	header.Set(headerImpersonateUser, decision.User)
	if decision.UID != "" {
		header.Set(headerImpersonateUID, decision.UID)
	}
	for _, group := range decision.Groups {
		header.Add(headerImpersonateGroup, group)
	}
	for key, values := range decision.Extra {
		name := headerImpersonateExtra + escapeExtraKey(key)
		for _, value := range values {
			if httpguts.ValidHeaderFieldValue(value) {
				header.Add(name, value)
			}
		}
	}
}

// escapeExtraKey escapes a key for use in a header's name. API servers resolve the escapes.
func escapeExtraKey(key string) string {
	var b strings.Builder
	for i := range len(key) {
		if c := key[i]; c != '%' && httpguts.IsTokenRune(rune(c)) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
