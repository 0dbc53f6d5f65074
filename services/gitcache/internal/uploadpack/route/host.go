// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package route

import (
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/transport"
)

// usualPort has the port of each scheme that a URL may leave out.
var usualPort = map[string]string{"https": "443", "http": "80", "ssh": "22"}

// SameOrigin reports whether two URLs have the same scheme, host and port.
func SameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) && portOf(a) == portOf(b)
}

func portOf(u *url.URL) string {
	if u.Port() == "" {
		return usualPort[u.Scheme]
	}
	return u.Port()
}

// HostName returns the name of a host for limits: in lower case, and with its port unless that is
// the usual one of the scheme.
func HostName(scheme, host, port string) string {
	host = strings.ToLower(host)
	if port == "" || port == usualPort[scheme] {
		return host
	}
	return net.JoinHostPort(host, port)
}

// addresses returns the host:port of each URL.
func addresses(urls []string) map[string]bool {
	all := make(map[string]bool, len(urls))
	for _, u := range urls {
		endpoint, err := transport.NewEndpoint(u)
		if err != nil {
			continue
		}
		port := fmt.Sprint(endpoint.Port)
		if endpoint.Port == 0 {
			port = usualPort[endpoint.Protocol]
		}
		host := strings.TrimSuffix(strings.TrimPrefix(endpoint.Host, "["), "]")
		all[strings.ToLower(net.JoinHostPort(host, port))] = true
	}
	return all
}
