// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package demo_test

import (
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/leatdev/leat/cli/internal/up/demo"
)

const source = "../../../../examples/demo"

// TestCopy keeps the copy equal to examples/demo. Run it with -update after a change there.
func TestCopy(t *testing.T) {
	t.Parallel()
	want := read(t, os.DirFS(source))
	if flag.Lookup("update") != nil && flag.Lookup("update").Value.String() == "true" {
		rewrite(t, want)
		return
	}
	embedded, err := demo.Files()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, read(t, embedded)); diff != "" {
		t.Errorf("copy of examples/demo (-want +got), renew it with go test ./internal/up/demo -update:\n%s", diff)
	}
}

// TestExamplesRender builds every kustomization that the examples suggest for delivery.
func TestExamplesRender(t *testing.T) {
	t.Parallel()
	for folder, want := range map[string]int{"demo/deploy": 4, "stages/overlays/dev": 1, "stages/overlays/prod": 1} {
		kustomizer := krusty.MakeKustomizer(krusty.MakeDefaultOptions())
		objects, err := kustomizer.Run(filesys.MakeFsOnDisk(), filepath.Join(source, "..", folder))
		if err != nil {
			t.Errorf("%s: %v", folder, err)
			continue
		}
		if got := objects.Size(); got != want {
			t.Errorf("%s: got %d objects, want %d", folder, got, want)
		}
	}
}

func TestMain(m *testing.M) {
	flag.Bool("update", false, "renew the copy")
	flag.Parse()
	os.Exit(m.Run())
}

func read(t *testing.T, tree fs.FS) map[string]string {
	t.Helper()
	content := map[string]string{}
	err := fs.WalkDir(tree, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(tree, path)
		content[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(content) == 0 {
		t.Fatal("no files found")
	}
	return content
}

func rewrite(t *testing.T, content map[string]string) {
	t.Helper()
	if err := os.RemoveAll("files"); err != nil {
		t.Fatal(err)
	}
	for path, text := range content {
		target := filepath.Join("files", path)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(target, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
