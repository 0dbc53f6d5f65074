// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package golden

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// recorder is a test whose failures are inspected instead of reported.
type recorder struct {
	testing.TB
	failures []string
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func TestAssert(t *testing.T) {
	t.Parallel()
	Assert(t, "hello.golden", []byte("hello\n"))
}

func TestCompareTellsTheDifference(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "sub", "text.golden")
	rec := &recorder{TB: t}
	compare(rec, path, []byte("new"), false)
	if len(rec.failures) != 1 || !strings.Contains(rec.failures[0], "-update") {
		t.Errorf("without a file: got failures %q, want one that names -update", rec.failures)
	}
	compare(t, path, []byte("old\nline\n"), true)
	if content, err := os.ReadFile(path); err != nil || string(content) != "old\nline\n" {
		t.Errorf("after writing: got %q, %v, want the new content", content, err)
	}
	compare(t, path, []byte("old\nline\n"), false)
	rec = &recorder{TB: t}
	compare(rec, path, []byte("new\nline\n"), false)
	if len(rec.failures) != 1 || !strings.Contains(rec.failures[0], "new") || !strings.Contains(rec.failures[0], "old") {
		t.Errorf("with other content: got failures %q, want one that shows both", rec.failures)
	}
}
