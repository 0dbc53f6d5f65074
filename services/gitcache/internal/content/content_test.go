// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package content_test

import (
	"path"
	"strings"
	"testing"

	"github.com/leatdev/leat/services/gitcache/internal/content"
)

func TestCleanFolder(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "", ".": "", "./": "", "a": "a", "a/": "a", "./a/b": "a/b", "a.b/..c": "a.b/..c",
	} {
		if got, err := content.CleanFolder(text); err != nil || got != want {
			t.Errorf("%q: got %q (%v), want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"/", "/a", "..", "a/..", "a/../b", "a//b", "a/./b", "a/b//", `a\b`, "a\x00b", "././a"} {
		if got, err := content.CleanFolder(text); err == nil {
			t.Errorf("%q: got %q, want an error", text, got)
		}
	}
}

func TestInside(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		path, root string
		want       bool
	}{{"a/b", "a", true}, {"a", "a", true}, {"", "", true}, {"a", "", true}, {"ab", "a", false}, {"a", "a/b", false}, {"", "a", false}} {
		if got := content.Inside(test.path, test.root); got != test.want {
			t.Errorf("%q inside %q: got %t, want %t", test.path, test.root, got, test.want)
		}
	}
}

func FuzzCleanFolder(f *testing.F) {
	for _, seed := range []string{"", ".", "./a/", "a/../b", "//", "a/b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := content.CleanFolder(text)
		if err != nil {
			return
		}
		if again, err := content.CleanFolder(got); err != nil || again != got {
			t.Errorf("%q: got %q, and of that %q (%v), want one spelling", text, got, again, err)
		}
		if got != "" && (path.Clean(got) != got || strings.HasPrefix(got, "/") || strings.HasPrefix(got, "..") && (got == ".." || got[2] == '/')) {
			t.Errorf("%q: got %q, want a path inside the root", text, got)
		}
	})
}
