// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/render"
)

func TestFilesAreFoundByName(t *testing.T) {
	t.Parallel()
	files := render.NewFiles(map[string][]byte{"a/b.yaml": []byte("b"), "a/c/d.yaml": []byte("d"), "ab.yaml": []byte("ab")})
	for name, want := range map[string]string{"a/b.yaml": "b", "a/c/d.yaml": "d", "ab.yaml": "ab", "a": "", "a/x": "", "/ab.yaml": "", "": ""} {
		content, found := files.Get(name)
		if string(content) != want || found != (want != "") {
			t.Errorf("Get(%q): got %q, %t, want %q", name, content, found, want)
		}
	}
	for folder, want := range map[string][]string{
		"":         {"a/b.yaml", "a/c/d.yaml", "ab.yaml"},
		"a":        {"a/b.yaml", "a/c/d.yaml"},
		"a/c":      {"a/c/d.yaml"},
		"a/b.yaml": nil,
		"x":        nil,
	} {
		if diff := cmp.Diff(want, files.Below(folder)); diff != "" {
			t.Errorf("Below(%q) (-want +got):\n%s", folder, diff)
		}
	}
}

func TestFilesAreFoundThroughLinks(t *testing.T) {
	t.Parallel()
	files := files(t, map[string]string{"a/b.yaml": "b", "l": "-> a"})
	if content, found := files.Get("l/b.yaml"); string(content) != "b" || !found {
		t.Errorf("got %q, %t, want the file behind the link", content, found)
	}
	if diff := cmp.Diff([]string{"l/b.yaml"}, files.Below("l")); diff != "" {
		t.Errorf("Below (-want +got):\n%s", diff)
	}
}
