// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kubeproxy

import (
	"net"
	"net/http"
	"strings"

	"github.com/leatdev/leat/internal/contract/objectname"
)

// ByHost gives each cluster a host of its own, {label}.{domain}, at whose root its API is: some
// clients lose the path of a server's URL. It passes such a request on as one below [Prefix], and
// leaves those to other hosts as they are. Each cluster has one label, as [objectname.HostLabel]
// returns it, so that no cluster's host is the parent domain of another's. All other hosts below
// the domain belong to a cluster without a name, which does not exist. An empty domain changes
// nothing.
func ByHost(domain string, next http.Handler) http.Handler {
	suffix := hostSuffix(domain)
	if suffix == "" {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isBelow(r.Host, suffix) {
			next.ServeHTTP(w, r)
			return
		}
		name := clusterAt(r.Host, suffix) // empty for a host that no cluster can have, which Handler refuses
		_, query, found := strings.Cut(r.RequestURI, "?")
		below := r.WithContext(r.Context())
		below.RequestURI = strings.TrimSuffix(Prefix, "/") + "/" + name + absolute(rawPath(r))
		if found {
			below.RequestURI += "?" + query
		}
		next.ServeHTTP(w, below)
	})
}

// hostSuffix returns the end of the hosts of clusters. It is empty if clusters have no hosts.
func hostSuffix(domain string) string {
	if domain == "" {
		return ""
	}
	return "." + strings.ToLower(domain)
}

// isBelow reports whether a host is below the clusters' domain.
func isBelow(host, suffix string) bool {
	return suffix != "" && strings.HasSuffix(hostname(host), suffix)
}

// clusterAt returns the name of the cluster whose own host this is. It is empty for all other
// hosts.
func clusterAt(host, suffix string) string {
	if !isBelow(host, suffix) {
		return ""
	}
	name, _ := objectname.ParseHostLabel(strings.TrimSuffix(hostname(host), suffix)) // empty if it is not one
	return name
}

// hostname returns the name in a Host header in lower case, without port and the dot that may end
// it.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.TrimSuffix(strings.ToLower(host), ".")
}

// absolute returns a path that begins with a slash, unlike the path of "OPTIONS *".
func absolute(path string) string {
	if strings.HasPrefix(path, "/") {
		return path
	}
	return "/" + path
}
