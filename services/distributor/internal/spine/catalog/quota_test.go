// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog_test

import (
	"strings"
	"testing"

	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

func TestQuotasOfBundles(t *testing.T) {
	t.Parallel()
	all, each := catalog.ProjectQuotas{BundleBytes: new(int64(100))}, catalog.ProjectQuotas{BytesPerBundle: new(int64(100))}
	for name, test := range map[string]struct {
		quotas catalog.ProjectQuotas
		change catalog.BundleChange
		want   string
	}{
		"no quota":                   {catalog.ProjectQuotas{}, catalog.BundleChange{After: 1 << 60, Next: 1 << 60}, ""},
		"exactly all":                {all, catalog.BundleChange{Before: 60, After: 100, Next: 40}, ""},
		"one byte over all":          {all, catalog.BundleChange{Before: 60, After: 101, Next: 41}, "have 60 bytes and would have 101"},
		"a new source over all":      {all, catalog.BundleChange{Before: 0, After: 101, Next: 101}, "bundleBytes allows 100"},
		"smaller, and still over":    {all, catalog.BundleChange{Before: 300, After: 299, Last: 200, Next: 199}, ""},
		"equal, and still over":      {all, catalog.BundleChange{Before: 300, After: 300, Last: 200, Next: 200}, ""},
		"larger, and over before":    {all, catalog.BundleChange{Before: 300, After: 301, Last: 200, Next: 201}, "bundleBytes allows 100"},
		"content that is there":      {all, catalog.BundleChange{Before: 300, After: 300, Next: 200}, ""},
		"exactly one":                {each, catalog.BundleChange{After: 1000, Next: 100}, ""},
		"one byte over one":          {each, catalog.BundleChange{After: 1000, Next: 101}, "the source has 101 bytes"},
		"one smaller and still over": {each, catalog.BundleChange{Before: 500, After: 400, Last: 300, Next: 200}, ""},
		"nothing at all":             {catalog.ProjectQuotas{BundleBytes: new(int64(0))}, catalog.BundleChange{After: 1, Next: 1}, "allows 0"},
	} {
		got := test.quotas.Refuses("shop", test.change)
		if test.want == "" && got != "" || !strings.Contains(got, test.want) {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
		if got != "" && !strings.Contains(got, "project shop") {
			t.Errorf("%s: %q does not name the project", name, got)
		}
	}
}
