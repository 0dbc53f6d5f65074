// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package golden compares the output of a test with a file that holds the expected output.
//
// Run the tests with -update to write the files again, and read the difference before committing
// it.
package golden

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// update is a flag, and flags of a test binary must exist before it starts.
var update = flag.Bool("update", false, "rewrite the golden files")

// Assert compares got with testdata/name, relative to the package under test, and fails the test
// with a line-by-line difference. With -update it writes the file instead.
func Assert(t testing.TB, name string, got []byte) {
	t.Helper()
	compare(t, filepath.Join("testdata", filepath.FromSlash(name)), got, *update)
}

// AssertSection compares got with a section of a page that is otherwise written by hand: the text
// between the lines "<!-- NAME -->" and "<!-- end of NAME -->". The page's path is relative to
// testdata. With -update it replaces the section.
func AssertSection(t testing.TB, page, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", filepath.FromSlash(page))
	content, err := os.ReadFile(path)
	if err != nil {
		t.Errorf("read page: %v", err)
		return
	}
	head, rest, began := bytes.Cut(content, []byte("<!-- "+name+" -->\n"))
	_, tail, ended := bytes.Cut(rest, []byte("<!-- end of "+name+" -->\n"))
	if !began || !ended {
		t.Errorf("%s has no section %q", path, name)
		return
	}
	page = fmt.Sprintf("%s<!-- %s -->\n%s<!-- end of %s -->\n%s", head, name, got, name, tail)
	compare(t, path, []byte(page), *update)
}

func compare(t testing.TB, path string, got []byte, write bool) {
	t.Helper()
	if write {
		replace(t, path, got)
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Errorf("read golden file: %v; run the test with -update to write it", err)
		return
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s\nrun the test with -update if this is meant", path, diff)
	}
}

func replace(t testing.TB, path string, content []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatalf("write golden file: %v", err)
	}
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatalf("write golden file: %v", err)
	}
}
