// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package chartindex_test

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/leatdev/leat/services/gitcache/internal/chartindex"
)

// usable has lines of a listing that the rules for versions, names and URLs cannot touch, so that a
// plain decoder's can be compared.
var usable = regexp.MustCompile(`^[a-z]+ [0-9]\.[0-9]\.[0-9] [a-z]+\b \S* \S*$`)

// FuzzParse compares with a plain decoder: of all that it accepts, Parse reads the same.
func FuzzParse(f *testing.F) {
	for _, text := range odd {
		f.Add(text)
	}
	f.Add(`{"apiVersion":"v1","entries":{"web":[{"version":"1.0.0","urls":["a"]}]}}`)
	f.Fuzz(func(t *testing.T, text string) {
		x, err := parse(text, chartindex.Params{})
		if _, isFormat := errors.AsType[*chartindex.FormatError](err); err != nil && !isFormat {
			t.Fatalf("got %v, want a FormatError", err)
		}
		want, plainErr := plain(text)
		if plainErr != nil || err != nil && strings.Contains(err.Error(), "apiVersion") || len(text) > 1<<10 || strings.HasPrefix(text, "{") {
			return
		}
		if err != nil {
			t.Fatalf("got %v of what a plain decoder accepts:\n%s", err, text)
		}
		// Versions alone: which of several URLs counts is a rule of Parse.
		isOther := func(line string) bool { return !usable.MatchString(line) }
		got, want := versionsOf(slices.DeleteFunc(listing(x), isOther)), versionsOf(slices.DeleteFunc(want, isOther))
		for _, version := range got {
			if all, _ := plain(text); !slices.Contains(versionsOf(all), version) {
				t.Errorf("got %q, which a plain decoder does not read in\n%s", version, text)
			}
		}
		for _, version := range want {
			if !slices.Contains(versionsOf(listing(x)), version) {
				t.Errorf("got %q, want %q of\n%s", got, version, text)
			}
		}
	})
}

// versionsOf returns the chart and the version of each line of a listing.
func versionsOf(listing []string) []string {
	var all []string
	for _, line := range listing {
		fields := strings.SplitN(line, " ", 3)
		all = append(all, strings.Join(fields[:2], " "))
	}
	return all
}
