// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package imagetag_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/leatdev/leat/services/distributor/internal/spine/imagetag"
)

func TestSelect(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		selection imagetag.Selection
		tags      string
		want      string
	}{
		"the highest version":           {imagetag.Selection{}, "1.2.3 1.10.0 1.9.9", "1.10.0"},
		"no pre-release":                {imagetag.Selection{}, "1.2.3 2.0.0-rc.1", "1.2.3"},
		"a named pre-release":           {imagetag.Selection{Range: ">=2.0.0-0"}, "1.2.3 2.0.0-rc.1 2.0.0-rc.2", "2.0.0-rc.2"},
		"a range":                       {imagetag.Selection{Range: ">=1.2 <2"}, "1.1.0 1.4.0 2.0.0", "1.4.0"},
		"a version with v":              {imagetag.Selection{}, "v1.2.3 1.2.2", "v1.2.3"},
		"equal versions":                {imagetag.Selection{}, "1.2.3 v1.2.3", "v1.2.3"},
		"not a whole version":           {imagetag.Selection{}, "1.2 latest 1", ""},
		"none":                          {imagetag.Selection{Range: "3.x"}, "1.2.3", ""},
		"no tags":                       {imagetag.Selection{}, "", ""},
		"numbers":                       {imagetag.Selection{Order: imagetag.Numerical}, "9 10 latest 007", "10"},
		"equal numbers":                 {imagetag.Selection{Order: imagetag.Numerical}, "07 7 007", "7"},
		"large numbers":                 {imagetag.Selection{Order: imagetag.Numerical}, "9" + strings.Repeat("0", 40) + " 1" + strings.Repeat("0", 41), "1" + strings.Repeat("0", 41)},
		"zero":                          {imagetag.Selection{Order: imagetag.Numerical}, "0 00", "00"},
		"text":                          {imagetag.Selection{Order: imagetag.Alphabetical, Pattern: "rc-.*"}, "rc-a rc-b zz", "rc-b"},
		"a group":                       {imagetag.Selection{Order: imagetag.Numerical, Pattern: `main-(?P<version>\d+)-[0-9a-f]+`}, "main-9-ffff main-10-0000 main-x-1 9999", "main-10-0000"},
		"a group of versions":           {imagetag.Selection{Pattern: `(?P<version>.*)-alpine`}, "1.2.3-alpine 1.3.0 1.2.4-alpine", "1.2.4-alpine"},
		"the whole tag":                 {imagetag.Selection{Order: imagetag.Alphabetical, Pattern: "a|b"}, "ab ba a", "a"},
		"an optional group":             {imagetag.Selection{Order: imagetag.Numerical, Pattern: `x(?P<version>\d+)?`}, "x x1", "x1"},
		"an anchor closes nothing":      {imagetag.Selection{Order: imagetag.Alphabetical, Pattern: "(?m)a$"}, "a b", "a"},
		"hostile tags are left out":     {imagetag.Selection{Order: imagetag.Alphabetical}, "z/../z ok zz: .hidden -x", "ok"},
		"a tag that is too long":        {imagetag.Selection{Order: imagetag.Alphabetical}, "a z" + strings.Repeat("z", 128), "a"},
		"build data is not in the tags": {imagetag.Selection{}, "1.2.3+x 1.2.2", "1.2.2"},
	} {
		if err := test.selection.Validate("spec.select"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		got, ok := test.selection.Select(strings.Fields(test.tags))
		if got != test.want || ok != (test.want != "") {
			t.Errorf("%s: got %q, %v, want %q", name, got, ok, test.want)
		}
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 257)
	for _, test := range []struct {
		selection imagetag.Selection
		want      string
	}{
		{imagetag.Selection{Range: "one"}, "spec.select.range: "},
		{imagetag.Selection{Range: " "}, "spec.select.range: "},
		{imagetag.Selection{Range: long}, "spec.select.range: has 257 bytes; at most 256 are allowed"},
		{imagetag.Selection{Range: "1.x", Order: imagetag.Numerical}, "spec.select.range: is for the order of semantic versions alone"},
		{imagetag.Selection{Pattern: "("}, "spec.select.pattern: "},
		{imagetag.Selection{Pattern: "a)|(?:b"}, "spec.select.pattern: "},
		{imagetag.Selection{Pattern: "((a{1000}){1000})"}, "spec.select.pattern: "},
		{imagetag.Selection{Pattern: long}, "spec.select.pattern: has 257 bytes; at most 256 are allowed"},
		{imagetag.Selection{Pattern: "(?P<version>a)(?P<version>b)"}, "spec.select.pattern: "},
		{imagetag.Selection{Order: "RANDOM"}, "spec.select.order: "},
	} {
		err := test.selection.Validate("spec.select")
		if err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%+v: got %v, want %q", test.selection, err, test.want)
		}
		if _, ok := test.selection.Select([]string{"1.2.3", "1", "a"}); ok && err == nil {
			t.Errorf("%+v: selected a tag, want none", test.selection)
		}
	}
}

// TestSelectDoesNotDependOnOrder hands the same tags over in two orders, and with a smaller tag among them.
func TestSelectDoesNotDependOnOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		tags := rapid.SliceOfDistinct(rapid.OneOf(
			rapid.StringMatching(`v?[0-3]\.[0-3]\.[0-3](-rc\.[0-9])?`), rapid.StringMatching(`[0-9]{1,4}`), rapid.StringMatching(`[a-c./:_-]{1,4}`),
		), rapid.ID[string]).Draw(t, "tags")
		selection := imagetag.Selection{Order: rapid.SampledFrom([]imagetag.Order{imagetag.Semver, imagetag.Numerical, imagetag.Alphabetical, ""}).Draw(t, "order")}
		first, ok := selection.Select(tags)
		second, ok2 := selection.Select(rapid.Permutation(tags).Draw(t, "again"))
		if first != second || ok != ok2 {
			t.Fatalf("got %q and %q of the same tags", first, second)
		}
		if ok && (!slices.Contains(tags, first) || !imagetag.IsTag(first)) {
			t.Fatalf("got %q, which is not a tag of those", first)
		}
		rest := slices.DeleteFunc(slices.Clone(tags), func(tag string) bool { return tag == first })
		if third, ok := selection.Select(rest); ok {
			if best, _ := selection.Select([]string{third, first}); best != first {
				t.Fatalf("got %q before %q, want the greater first", third, first)
			}
		}
	})
}
