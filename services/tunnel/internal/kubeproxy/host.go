// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kubeproxy

import (
	"context"
	"net"
	"net/http"
	"strings"
)

// ByHost gives each cluster a host of its own, {name}.{domain}, at whose root its API is: some clients lose the path of a
// server's URL. Such a request is passed on as one below [Prefix]; all others are left as they are. Everything before the
// domain is the name, dots included, so that no two clusters share a host. An empty domain changes nothing.
func ByHost(domain string, next http.Handler) http.Handler {
	if domain == "" {
		return next
	}
	suffix := "." + strings.ToLower(domain)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, ok := strings.CutSuffix(hostname(r.Host), suffix)
		if !ok || name == "" {
			next.ServeHTTP(w, r)
			return
		}
		_, query, found := strings.Cut(r.RequestURI, "?")
		below := r.WithContext(context.WithValue(r.Context(), clusterHostKey{}, true))
		below.RequestURI = strings.TrimSuffix(Prefix, "/") + "/" + name + absolute(rawPath(r))
		if found {
			below.RequestURI += "?" + query
		}
		next.ServeHTTP(w, below)
	})
}

type clusterHostKey struct{}

// atClusterHost reports whether a request was sent to a cluster's own host, where the hub serves nothing else.
func atClusterHost(r *http.Request) bool { return r.Context().Value(clusterHostKey{}) != nil }

// hostname is a Host header's name in lower case, without port and the dot that may end it.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.TrimSuffix(strings.ToLower(host), ".")
}

// absolute is a path that begins with a slash, which that of "OPTIONS *" does not.
func absolute(path string) string {
	if strings.HasPrefix(path, "/") {
		return path
	}
	return "/" + path
}
