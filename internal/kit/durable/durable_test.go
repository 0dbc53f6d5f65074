// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package durable_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/leatdev/leat/internal/kit/durable"
)

func TestFailedWriteChangesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if err := durable.WriteFile(path, "tmp-", []byte("old")); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	err := durable.Write(path, "tmp-", func(w io.Writer) error {
		_, err := io.WriteString(w, "half of the n")
		return errors.Join(err, broken)
	})
	if !errors.Is(err, broken) {
		t.Errorf("got %v, want the writer's error", err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "old" {
		t.Errorf("got %q (%v), want what was there before", got, err)
	}
	if err := durable.WriteFile(path, "tmp-", []byte("new")); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "new" {
		t.Errorf("got %q (%v), want the new content", got, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("got %v (%v), want one file", entries, err)
	}
}

// TestReplaceGivesAFileItsModeBeforeItsName requires that no reader sees the file with the mode of a
// temporary one.
func TestReplaceGivesAFileItsModeBeforeItsName(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	err := durable.Replace(path, "tmp-", func(f *os.File) error {
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("got %v, want no file of this name yet", err)
		}
		_, err := f.WriteString("new")
		return errors.Join(err, os.Chmod(f.Name(), 0o400))
	})
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o200 != 0 || info.Size() != 3 {
		t.Errorf("got %v, %v, want the content and the mode", info, err)
	}
}

func TestWriteNeedsItsFolder(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "absent", "file")
	if err := durable.WriteFile(path, "tmp-", nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want that the folder is absent", err)
	}
	if err := durable.SyncDir(filepath.Dir(path)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want that the folder is absent", err)
	}
}
