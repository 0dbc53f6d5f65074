// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package private_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/leatdev/leat/internal/runtime/private"
)

func mode(t *testing.T, path string) fs.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode() &^ fs.ModeDir
}

func TestDir(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, start := range map[string]fs.FileMode{"new": 0, "loose": 0o777, "tight": 0o500, "shared": 0o777 | fs.ModeSticky} {
		path := filepath.Join(dir, name)
		if start != 0 {
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, start); err != nil {
				t.Fatal(err)
			}
		}
		if err := private.Dir(path); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		want := map[string]fs.FileMode{"new": 0o700, "loose": 0o700, "tight": 0o500, "shared": 0o777 | fs.ModeSticky}[name]
		if got := mode(t, path); got != want {
			t.Errorf("%s: got mode %s, want %s", name, got, want)
		}
	}
	if err := private.Dir(filepath.Join(dir, "new", "a", "b")); err != nil || mode(t, filepath.Join(dir, "new", "a")) != 0o700 {
		t.Errorf("got %v, want the folders on the way made, too", err)
	}
}

func TestFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	loose := filepath.Join(dir, "loose")
	if err := os.WriteFile(loose, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(loose, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(dir, "new"), loose} {
		if err := private.File(path); err != nil || mode(t, path) != 0o600 {
			t.Errorf("%s: got %v, mode %s, want 0600", path, err, mode(t, path))
		}
	}
	if content, err := os.ReadFile(loose); err != nil || string(content) != "kept" {
		t.Errorf("got %q, %v, want the content kept", content, err)
	}
	if err := private.Existing(filepath.Join(dir, "none")); err != nil {
		t.Errorf("got %v for a file that is not there", err)
	}
	if err := private.File(filepath.Join(dir, "none", "file")); err == nil {
		t.Error("got no error without the folder")
	}
}
