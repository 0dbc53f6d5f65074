// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kubeproxy

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// Browsers cannot send Authorization with a WebSocket. Kubernetes accepts the token in the list of
// protocols instead, beside a protocol to speak.
const (
	headerProtocols = "Sec-Websocket-Protocol"
	protocolBearer  = "base64url.bearer.authorization.k8s.io."
)

// protocolToken returns the token among the protocols of a WebSocket. It refuses two tokens: the
// person could not be determined.
func protocolToken(r *http.Request) (token string, ok bool) {
	if r.Method != http.MethodGet || !httpguts.HeaderValuesContainsToken(r.Header["Upgrade"], "websocket") {
		return "", false
	}
	others := 0
	for _, protocol := range protocols(r.Header) {
		encoded, bearer := strings.CutPrefix(protocol, protocolBearer)
		if !bearer {
			others++
			continue
		}
		decoded, err := base64.RawURLEncoding.DecodeString(encoded)
		if err != nil || len(decoded) == 0 || token != "" {
			return "", false
		}
		token = string(decoded)
	}
	return token, token != "" && others > 0
}

func protocols(header http.Header) []string {
	var all []string
	for _, list := range header[headerProtocols] {
		for protocol := range strings.SplitSeq(list, ",") {
			all = append(all, strings.TrimSpace(protocol))
		}
	}
	return all
}

// scrubProtocols removes tokens from the protocols, which the cluster must not see.
func scrubProtocols(header http.Header) {
	all := protocols(header)
	kept := slices.DeleteFunc(slices.Clone(all), func(protocol string) bool { return strings.HasPrefix(protocol, protocolBearer) })
	switch {
	case len(kept) == len(all):
	case len(kept) == 0:
		header.Del(headerProtocols)
	default:
		header.Set(headerProtocols, strings.Join(kept, ", "))
	}
}
