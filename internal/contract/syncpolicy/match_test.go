// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package syncpolicy_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/leatdev/leat/internal/contract/syncpolicy"
)

func TestMatch(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		pattern, text string
		want          bool
	}{
		{"", "", true},
		{"", "a", false},
		{"*", "", true},
		{"*", "abc", true},
		{"a", "a", true},
		{"a", "b", false},
		{"a?c", "abc", true},
		{"a?c", "ac", false},
		{"a*c", "ac", true},
		{"a*c", "abbc", true},
		{"a*c", "acb", false},
		{"*a*b*", "xaxbx", true},
		{"*a*b*", "xbxax", false},
		{"a*a", "a", false},
		{"**", "x", true},
		{"a.b", "axb", false},
		{"[a]", "a", false},
		{"x/*", "x/y/z", true},
		{"web-*-?", "web-1-2-3", true},
	} {
		if got := syncpolicy.Match(test.pattern, test.text); got != test.want {
			t.Errorf("pattern %q, text %q: got %v, want %v", test.pattern, test.text, got, test.want)
		}
	}
}

// TestMatchSlowly compares with a matcher that is so simple that it is right.
func TestMatchSlowly(t *testing.T) {
	t.Parallel()
	var slow func(pattern, text string) bool
	slow = func(pattern, text string) bool {
		switch {
		case pattern == "":
			return text == ""
		case pattern[0] == '*':
			return slow(pattern[1:], text) || text != "" && slow(pattern, text[1:])
		default:
			return text != "" && (pattern[0] == '?' || pattern[0] == text[0]) && slow(pattern[1:], text[1:])
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		pattern, text := rapid.StringMatching(`[ab*?]{0,8}`).Draw(t, "pattern"), rapid.StringMatching(`[ab]{0,8}`).Draw(t, "text")
		if got, want := syncpolicy.Match(pattern, text), slow(pattern, text); got != want {
			t.Errorf("pattern %q, text %q: got %v, want %v", pattern, text, got, want)
		}
	})
}
