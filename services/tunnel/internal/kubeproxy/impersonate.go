// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kubeproxy

import (
	"fmt"
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/leatdev/leat/internal/accessrule"
	"github.com/leatdev/leat/services/tunnel/internal/policy"
)

// Headers that only the hub sets on requests to an agent.
const (
	headerImpersonateUser  = "Impersonate-User"
	headerImpersonateUID   = "Impersonate-Uid"
	headerImpersonateGroup = "Impersonate-Group"
	headerImpersonateExtra = "Impersonate-Extra-"
)

// impersonate says as whom the cluster's API server sees the request: exactly what was decided. Values that no header can hold, as
// somebody else's groups may be, are left out.
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

// escapeExtraKey writes a key as a header's name can be written; API servers resolve the escapes.
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

// asks is what rules look at. A call to the agent is for no resource.
func (c *call) asks() accessrule.Request {
	if c.target.isAgentCall() {
		return accessrule.Request{Verb: strings.ToLower(c.r.Method), Path: c.target.path}
	}
	a := c.target.attributes
	return accessrule.Request{
		Verb: a.Verb, APIGroup: a.APIGroup, Resource: a.Resource, Subresource: a.Subresource, Namespace: a.Namespace, Path: a.NonResourceURL,
	}
}

// refuseRule answers somebody who reaches the cluster, but not with this request.
func refuseRule(q accessrule.Request) *refusal {
	return &refusal{
		code: http.StatusForbidden, kubeReason: "Forbidden", reason: "ACCESS_DENIED", origin: originHub,
		message: fmt.Sprintf("your bindings do not let you %s; ask an administrator for one that does", q),
	}
}
