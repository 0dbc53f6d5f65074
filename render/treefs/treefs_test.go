// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package treefs_test

import (
	"errors"
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/render/treefs"
)

// TestConformsToTheStandardLibrary applies the standard library's own tests of file systems.
func TestConformsToTheStandardLibrary(t *testing.T) {
	t.Parallel()
	tree := treefs.New(render.NewFiles(map[string][]byte{"a/b/c.yaml": []byte("c"), "a/d.yaml": []byte("d"), "e.yaml": nil, "ab/f": []byte("f")}))
	if err := fstest.TestFS(tree, "a/b/c.yaml", "a/d.yaml", "e.yaml", "ab/f", "a", "a/b", "ab"); err != nil {
		t.Error(err)
	}
	if err := fstest.TestFS(treefs.New(render.NewFiles(nil))); err != nil {
		t.Errorf("an empty tree: %v", err)
	}
}

func TestNamesThatAreNoFiles(t *testing.T) {
	t.Parallel()
	tree := treefs.New(render.NewFiles(map[string][]byte{"a": []byte("file"), "a/b": []byte("b"), "../x": []byte("x"), "/y": []byte("y"), "z/": []byte("z")}))
	for _, name := range []string{"../x", "/y", "y", "z", "z/", "", "a/../a/b", "none"} {
		if _, err := tree.Open(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("open %q: got %v, want that it does not exist", name, err)
		}
	}
	entries, err := tree.ReadDir(".")
	if err != nil || len(entries) != 1 || !entries[0].IsDir() {
		t.Errorf("the root: got %v, %v, want the folder a alone", entries, err)
	}
}

func TestFilesCannotBeChanged(t *testing.T) {
	t.Parallel()
	content := map[string][]byte{"a": []byte("a")}
	text, err := treefs.New(render.NewFiles(content)).ReadFile("a")
	if err != nil {
		t.Fatal(err)
	}
	text[0] = 'x'
	if string(content["a"]) != "a" {
		t.Error("a reader changed the file")
	}
}
