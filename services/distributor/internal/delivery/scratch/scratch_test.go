// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package scratch_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/contract/cas"
	"github.com/leatdev/leat/services/distributor/internal/delivery/scratch"
)

type key string

func (k key) Name() string { return string(k) }

type folder = scratch.Folder[key, string]

func put(f *folder, name key, size int) error {
	file, err := f.Create()
	if err != nil {
		return err
	}
	if _, err := file.WriteString(strings.Repeat("x", size)); err != nil {
		return err
	}
	if err := f.Put(name, file.Name(), int64(size), "note of "+string(name), 0); err != nil {
		return errors.Join(err, file.Close(), os.Remove(file.Name()))
	}
	return file.Close()
}

// names returns the files of the folder that can be opened, in the given order.
func names(f *folder, all ...key) string {
	var found []string
	for _, name := range all {
		if f.Has(name) {
			found = append(found, string(name))
		}
	}
	return strings.Join(found, "")
}

func TestFolder(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "files")
	f, err := scratch.Open[key, string](dir, 10, 3)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		name string
		do   func() error
		want error
		// there are the files afterwards, used their bytes.
		there string
		used  int64
	}{
		{"put", func() error { return errors.Join(put(f, "a", 4), put(f, "b", 4)) }, nil, "ab", 8},
		{"use", func() error {
			file, size, note, err := f.Open("a")
			if err != nil || size != 4 || note != "note of a" {
				t.Errorf("got %d bytes, %q and %v", size, note, err)
			}
			content, err := io.ReadAll(file)
			if len(content) != 4 {
				t.Errorf("got %q", content)
			}
			return errors.Join(err, file.Close())
		}, nil, "ab", 8},
		{"evict what was used longest ago", func() error { return put(f, "c", 4) }, nil, "ac", 8},
		{"replace", func() error { return put(f, "a", 1) }, nil, "ac", 5},
		{"as many files as there may be", func() error { return put(f, "b", 1) }, nil, "abc", 6},
		{"one more", func() error { return put(f, "d", 1) }, nil, "abd", 3},
		{"larger than the folder", func() error { return put(f, "e", 11) }, cas.ErrFull, "abd", 3},
		{"reserve", func() error { return f.Reserve(7) }, nil, "abd", 10},
		{"no room beside the reservation", func() error { return put(f, "a", 4) }, cas.ErrFull, "", 7},
		{"release", func() error { f.Release(7); return put(f, "a", 4) }, nil, "a", 4},
		{"lose", func() error {
			err := os.Remove(filepath.Join(dir, "a"))
			_, _, _, lost := f.Open("a")
			return errors.Join(err, lost)
		}, cas.ErrNotFound, "", 0},
		{"shed", func() error { err := put(f, "a", 4); f.Shed(); return err }, nil, "", 0},
	} {
		if err := step.do(); !errors.Is(err, step.want) || step.want == nil && err != nil {
			t.Fatalf("%s: got error %v, want %v", step.name, err, step.want)
		}
		if got := names(f, "a", "b", "c", "d", "e"); got != step.there || f.Usage() != step.used {
			t.Fatalf("%s: got files %q of %d bytes, want %q of %d", step.name, got, f.Usage(), step.there, step.used)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("got %v, %v in the folder at the end, want nothing", left, err)
	}
}
