// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/leatdev/leat/services/tunnel"
)

// TestF34HostPerClusterAndPathPrefix reaches the same cluster both ways, with what kubectl asks for
// OpenAPI.
func TestF34HostPerClusterAndPathPrefix(t *testing.T) {
	h := startHub(t, func(c *tunnel.Config) { c.ClusterDomain = "clusters.example" })
	for _, cluster := range []string{"demo", "prod.eu", "prod--eu"} {
		h.access.grant("ada", cluster)
		h.agent(cluster, func(w http.ResponseWriter, r *http.Request) {
			_, _ = fmt.Fprintf(w, "GET %s of %s", r.RequestURI, cluster)
		})
	}
	for host, want := range map[string]struct {
		path string
		code int
		body string
	}{
		"hub":                             {"/clusters/demo/openapi/v3/api/v1?hash=A%2f", http.StatusOK, "GET /openapi/v3/api/v1?hash=A%2f of demo"},
		"demo.clusters.example":           {"/openapi/v3/api/v1?hash=A%2f", http.StatusOK, "GET /openapi/v3/api/v1?hash=A%2f of demo"},
		"DEMO.Clusters.Example.:8443":     {"/api/v1/namespaces/a%2Fb", http.StatusOK, "GET /api/v1/namespaces/a%2Fb of demo"},
		"prod--eu.clusters.example:6443":  {"/version", http.StatusOK, "GET /version of prod.eu"},
		"prod---eu.clusters.example:6443": {"/version", http.StatusOK, "GET /version of prod--eu"},
		"other.clusters.example":          {"/version", http.StatusForbidden, ""},
		"clusters.example":                {"/version", http.StatusNotFound, ""},
		"demo.clusters.example.org":       {"/version", http.StatusNotFound, ""},
	} {
		req := h.request(t.Context(), http.MethodGet, "ada", "demo", "", nil)
		req.Host = host
		var err error
		if req.URL, err = url.Parse("http://" + h.addr + want.path); err != nil {
			t.Fatal(err)
		}
		res, body := h.do(client(t, false), req)
		if res.StatusCode != want.code || want.body != "" && body != want.body {
			t.Errorf("%s%s: got %d %q, want %d %q", host, want.path, res.StatusCode, body, want.code, want.body)
		}
	}
}

// TestSecNoHostBelowAnother asks at hosts that lie below the hosts of clusters, and at others that
// look like one: a page at such a host would share the cookies of the host above it, and a wildcard
// certificate would not cover it.
func TestSecNoHostBelowAnother(t *testing.T) {
	h := startHub(t, func(c *tunnel.Config) { c.ClusterDomain = "clusters.example" })
	for _, cluster := range []string{"demo", "prod.eu", "prod.demo", "-"} {
		h.access.grant("ada", cluster)
		h.agent(cluster, echo)
	}
	for _, host := range []string{
		"prod.eu.clusters.example", "prod.demo.clusters.example", "demo.demo.clusters.example", "prod--eu.demo.clusters.example",
		"demo..clusters.example", ".clusters.example", "-.clusters.example", "prod----eu.clusters.example", "default--demo.clusters.example",
		"prod%2eeu.clusters.example", "prod--eu--x.clusters.example", "xn--demo.clusters.example", "demo_.clusters.example",
	} {
		req := h.request(t.Context(), http.MethodGet, "ada", "demo", "/version", nil)
		req.URL.Path, req.Host = "/version", host
		res, body := h.do(client(t, false), req)
		if res.StatusCode == http.StatusOK || strings.HasPrefix(body, "GET") {
			t.Errorf("%s: got %d %q, want no cluster", host, res.StatusCode, body)
		}
		if res.StatusCode == http.StatusForbidden && !strings.Contains(body, "PROJECT--NAME.clusters.example") {
			t.Errorf("%s: got %q, want the form of hosts", host, body)
		}
	}
}

func TestClusterDomainHasToBeAName(t *testing.T) {
	for _, domain := range []string{".example", "https://example", "exa mple", "example."} {
		cfg := configOf("http://d")
		cfg.ClusterDomain = domain
		if err := tunnel.Run(t.Context(), cfg); err == nil {
			t.Errorf("domain %q: got no error, want one", domain)
		}
	}
}
