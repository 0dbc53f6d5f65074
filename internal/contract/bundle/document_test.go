// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package bundle_test

import (
	"encoding/hex"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// TestDocumentIsTrue runs the example of docs/reference/protocol/bundle.md as a reader would, and
// compares every digest in it with the goldens.
func TestDocumentIsTrue(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile("../../../docs/reference/protocol/bundle.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(document), "```sh\n")
	script, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("the document has no example")
	}
	command := exec.CommandContext(t.Context(), "sh", "-eu", "-c", "umask 022\n"+script)
	command.Dir = t.TempDir()
	got, err := command.CombinedOutput()
	want := strings.TrimPrefix(tricky()["example"].digest, "sha256:")
	if err != nil || strings.TrimSpace(string(got)) != want+"  -" {
		t.Errorf("the example prints %q, %v, want %q", got, err, want+"  -")
	}

	golden := make(map[string]bool)
	for _, test := range tricky() {
		golden[strings.TrimPrefix(test.digest, "sha256:")] = true
	}
	digests := regexp.MustCompile(`\b[0-9a-f]{64}\b`).FindAllString(string(document), -1)
	if len(digests) < 7 {
		t.Errorf("digests in the document: got %d, want at least 7", len(digests))
	}
	for _, d := range digests {
		if !golden[d] {
			t.Errorf("digest %s of the document is not one of the goldens", d)
		}
	}
}

// TestDeltaDocumentIsTrue makes the example delta of docs/reference/protocol/delta.md.
func TestDeltaDocumentIsTrue(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile("../../../docs/reference/protocol/delta.md")
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(document), "```\n")
	example, _, _ = strings.Cut(example, "```")
	from := write(t, item{name: "a.txt", content: "hello\n"}, item{name: "link", target: "a.txt"})
	to := write(t, item{name: "a.txt", content: "hello, world\n"})
	got := hex.EncodeToString(delta(t, from, to))
	if want := strings.ReplaceAll(example, "\n", ""); got != want {
		t.Errorf("delta: got %s, want %s", got, want)
	}
}
