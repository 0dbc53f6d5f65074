// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package chartdep_test

import (
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/services/gitcache/internal/chartdep"
)

// TestSecPlaces takes a dependency for a chart of the repository that it names, and of no other.
func TestSecPlaces(t *testing.T) {
	t.Parallel()
	helm := upstream.Definition{Type: upstream.TypeHelm, URL: "https://charts.example.com/stable/"}
	oci := upstream.Definition{Type: upstream.TypeOCI, URL: "oci://registry.example.com/team/web"}
	plain := upstream.Definition{Type: upstream.TypeOCI, URL: "oci+http://127.0.0.1:5000/team/web"}
	git := upstream.Definition{Type: upstream.TypeGit, URL: "https://charts.example.com/stable"}
	for _, test := range []struct {
		def        upstream.Definition
		repository string
		want       bool
	}{
		{helm, "https://charts.example.com/stable", true},
		{helm, "https://charts.example.com/stable///", true},
		{helm, "https://CHARTS.example.com:443/stable", true},
		{helm, "@shared", true},
		{helm, "alias:shared", true},
		{helm, "@other", false},
		{helm, "http://charts.example.com/stable", false},
		{helm, "https://charts.example.com:8443/stable", false},
		{helm, "https://charts.example.com/Stable", false},
		{helm, "https://charts.example.com/stable/../secret", false},
		{helm, "https://charts.example.com/secret/../stable", false},
		{helm, "https://charts.example.com/stable?x=y", false},
		{helm, "https://u:p@charts.example.com/stable", false},
		{helm, "https://charts.example.com.evil/stable", false},
		{helm, "oci://charts.example.com/stable", false},
		{git, "https://charts.example.com/stable", false},
		{git, "@shared", false},
		{oci, "oci://registry.example.com/team", true},
		{oci, "oci://registry.example.com/team/", true},
		{oci, "oci://Registry.example.com/team", true},
		{oci, "@shared", true},
		{oci, "oci://registry.example.com/team/web", false},
		{oci, "oci://registry.example.com/other", false},
		{oci, "oci://registry.example.com/team/../team", false},
		{oci, "https://registry.example.com/team", false},
		{plain, "oci://127.0.0.1:5000/team", true},
		{plain, "oci+http://127.0.0.1:5000/team", false}, // Helm knows no such scheme
		{plain, "oci://127.0.0.1:5001/team", false},
	} {
		n := chartdep.Need{Name: "web", Repository: test.repository}
		if got := n.Places("shared", test.def); got != test.want {
			t.Errorf("%s for %s: got %v, want %v", test.repository, test.def.URL, got, test.want)
		}
	}
	if (chartdep.Need{Name: "api", Repository: "@shared"}).Places("shared", oci) {
		t.Error("got another chart than the repository's taken for it")
	}
	err := chartdep.Need{Name: "web", Repository: "https://u:hunter2@charts.example.com"}.Unavailable("It is not there.")
	if strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "charts.example.com") {
		t.Errorf("got %v, want the password masked", err)
	}
}
