// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package registryauth

import (
	"net/url"
	"strings"

	"github.com/leatdev/leat/internal/contract/upstream"
)

// knownRealm returns the token server of a public registry whose realm is at another host.
func knownRealm(registry string) string {
	switch {
	case upstream.IsDockerHub(registry):
		return "auth.docker.io:443"
	case registry == "registry.gitlab.com":
		return "gitlab.com:443"
	}
	return ""
}

// sameOrigin reports whether two URLs have the same scheme, host and port.
func sameOrigin(a, b *url.URL) bool { return a.Scheme == b.Scheme && hostOf(a) == hostOf(b) }

// hostOf returns host:port of a URL in one spelling.
func hostOf(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443", "http": "80"}[u.Scheme]
	}
	return strings.ToLower(u.Hostname()) + ":" + port
}
