// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package deploy_test

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/leatdev/leat/test/charts"
)

// imageOf finds the images that an object names.
var imageOf = regexp.MustCompile(`(?m)^\s*(?:- )?image: "?([^"\s]+)`)

// TestImagesWithoutTheInternet renders both charts with the values of
// docs/operations/without-internet.md: each image, also of helm test, is in the registry that these
// name.
func TestImagesWithoutTheInternet(t *testing.T) {
	t.Parallel()
	page := string(read(t, top, "docs", "operations", "without-internet.md"))
	for name, c := range map[string]struct {
		chart, more string
		want        []string
	}{
		"hub": {chart: charts.Hub, want: []string{"busybox", "distributor", "gitcache", "redis", "tunnel"}},
		"agent": {
			chart: charts.Agent, more: "join: { token: x }\n", want: []string{"agent", "busybox"},
		},
	} {
		_, values, isThere := strings.Cut(page, "# values of the "+name+"\n")
		values, _, isClosed := strings.Cut(values, "```")
		if !isThere || !isClosed {
			t.Fatalf("the page has no values of the %s", name)
		}
		var got []string
		for _, text := range renderTexts(t, installation{chart: c.chart, values: values + c.more}) {
			for _, found := range imageOf.FindAllStringSubmatch(text, -1) {
				image, isOurs := strings.CutPrefix(found[1], "registry.example.com/")
				if !isOurs {
					t.Errorf("the %s runs %s, want each image from the registry of the page", name, found[1])
				}
				repository, _, _ := strings.Cut(image, ":")
				got = append(got, path.Base(repository))
			}
		}
		slices.Sort(got)
		if got = slices.Compact(got); !slices.Equal(got, c.want) {
			t.Errorf("the %s runs %q, want %q", name, got, c.want)
		}
	}
}
