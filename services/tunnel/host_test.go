// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/leatdev/leat/services/tunnel"
)

// TestF34HostPerClusterAndPathPrefix reaches the same cluster both ways, with what kubectl asks for
// OpenAPI.
func TestF34HostPerClusterAndPathPrefix(t *testing.T) {
	h := startHub(t, func(c *tunnel.Config) { c.ClusterDomain = "clusters.example" })
	for _, cluster := range []string{"demo", "prod.eu"} {
		h.access.grant("ada", cluster)
		h.agent(cluster, echo)
	}
	for host, want := range map[string]struct {
		path string
		code int
		body string
	}{
		"hub":                           {"/clusters/demo/openapi/v3/api/v1?hash=A%2f", http.StatusOK, "GET /openapi/v3/api/v1?hash=A%2f "},
		"demo.clusters.example":         {"/openapi/v3/api/v1?hash=A%2f", http.StatusOK, "GET /openapi/v3/api/v1?hash=A%2f "},
		"DEMO.Clusters.Example.:8443":   {"/api/v1/namespaces/a%2Fb", http.StatusOK, "GET /api/v1/namespaces/a%2Fb "},
		"prod.eu.clusters.example:6443": {"/version", http.StatusOK, "GET /version "},
		"other.clusters.example":        {"/version", http.StatusForbidden, ""},
		"-.clusters.example":            {"/version", http.StatusForbidden, ""},
		"clusters.example":              {"/version", http.StatusNotFound, ""},
		"demo.clusters.example.org":     {"/version", http.StatusNotFound, ""},
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

func TestClusterDomainHasToBeAName(t *testing.T) {
	for _, domain := range []string{".example", "https://example", "exa mple", "example."} {
		cfg := configOf("http://d")
		cfg.ClusterDomain = domain
		if err := tunnel.Run(t.Context(), cfg); err == nil {
			t.Errorf("domain %q: got no error, want one", domain)
		}
	}
}
