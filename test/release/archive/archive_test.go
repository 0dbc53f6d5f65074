// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package archive_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/test/release/archive"
)

// modified is the time in all archives, in a zone that is not UTC's and with a part of a second.
var modified = time.Date(2026, 3, 1, 12, 0, 0, 5, time.FixedZone("", 3600))

// want are the entries that the tests write, as the archives list them.
var want = []string{
	"drwxr-xr-x folder/ 2026-03-01T11:00:00Z ", "-rw-r--r-- folder/a 2026-03-01T11:00:00Z from memory", "-rwxr-xr-x folder/b 2026-03-01T11:00:00Z from a file",
}

// entries are not sorted, and the file has another time and mode than its entry.
func entries(t *testing.T) []archive.Entry {
	t.Helper()
	file := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(file, []byte("from a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	return []archive.Entry{
		{Name: "folder/b", Mode: 0o755, File: file}, {Name: "folder", Mode: fs.ModeDir | 0o755}, {Name: "folder/a", Mode: 0o644, Content: []byte("from memory")},
	}
}

// twice returns what write writes for the entries, which have to be the same bytes in both orders.
func twice(t *testing.T, write func(io.Writer, time.Time, []archive.Entry) error) []byte {
	t.Helper()
	var first, second bytes.Buffer
	reversed := entries(t)
	slices.Reverse(reversed)
	if err := errors.Join(write(&first, modified, entries(t)), write(&second, modified.UTC(), reversed)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("the same entries have two archives")
	}
	return first.Bytes()
}

func TestTar(t *testing.T) {
	t.Parallel()
	unzipped, err := gzip.NewReader(bytes.NewReader(twice(t, archive.TarGz)))
	if err != nil || !unzipped.ModTime.IsZero() || unzipped.Name != "" {
		t.Fatalf("got %v and the header %+v, want neither a time nor a name in it", err, unzipped.Header)
	}
	var got []string
	for reader := tar.NewReader(unzipped); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		content, readErr := io.ReadAll(reader)
		if err := errors.Join(err, readErr); err != nil {
			t.Fatal(err)
		}
		if header.Uname+header.Gname != "" || header.Uid+header.Gid != 0 || len(header.PAXRecords) > 0 {
			t.Errorf("%s: got %+v, want no names and nothing of the machine", header.Name, header)
		}
		got = append(got, fmt.Sprintf("%v %s %s %s", header.FileInfo().Mode(), header.Name, header.ModTime.UTC().Format(time.RFC3339Nano), content))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestZip(t *testing.T) {
	t.Parallel()
	content := twice(t, archive.Zip)
	reader, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range reader.File {
		member, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(member)
		if err := errors.Join(err, member.Close()); err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%v %s %s %s", f.Mode(), f.Name, f.Modified.UTC().Format(time.RFC3339Nano), content))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestMissingFile(t *testing.T) {
	t.Parallel()
	missing := []archive.Entry{{Name: "x", File: filepath.Join(t.TempDir(), "none")}}
	for name, write := range map[string]func(io.Writer, time.Time, []archive.Entry) error{"tar": archive.Tar, "tar.gz": archive.TarGz, "zip": archive.Zip} {
		if err := write(io.Discard, modified, missing); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: got %v, want the file missed", name, err)
		}
	}
}
