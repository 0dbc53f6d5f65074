// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package history_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/services/gitcache/internal/content"
)

// member is an entry of a tar.
type member struct {
	Executable bool
	Target     string
	Hash       string // of a file's content
}

// gitArchives returns what git archive makes of whole trees, which are in a folder.
func gitArchives(t *testing.T, repo *gittest.Repo, folder string) map[string]map[string]member {
	t.Helper()
	return perTree(t, readTar(t, strings.NewReader(repo.GitRaw(t, "-c", "tar.umask=0022", "archive", "--format=tar", folder))))
}

// compareArchives compares the canonical tar of a commit's tree with git archive's. Files that a
// bundle cannot hold have to be refused, by name; the rest is compared without them. Submodules are
// in neither.
func compareArchives(t *testing.T, c gitCommit, entries []entry, want map[string]member) {
	t.Helper()
	for path, m := range want {
		if refused(path, m.Target) {
			if strings.HasPrefix(path, "tidy/") {
				t.Errorf("the history has %q → %q among what every bundle holds", path, m.Target)
			}
			delete(want, path)
		}
	}
	got := readTar(t, bytes.NewReader(canonicalTar(t, entries)))
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("archive of commit %s (-git +got):\n%s", c.id, diff)
	}
}

// readTar reads files and symbolic links.
func readTar(t *testing.T, stream io.Reader) map[string]member {
	t.Helper()
	members := map[string]member{}
	for in := tar.NewReader(stream); ; {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			return members
		}
		if err != nil {
			t.Fatal(err)
		}
		switch header.Typeflag {
		case tar.TypeSymlink:
			members[header.Name] = member{Target: header.Linkname}
		case tar.TypeReg:
			h := sha1.New()
			fmt.Fprintf(h, "blob %d\x00", header.Size)
			if _, err := io.Copy(h, in); err != nil {
				t.Fatal(err)
			}
			members[header.Name] = member{Executable: header.Mode&0o100 != 0, Hash: hex.EncodeToString(h.Sum(nil))}
		case tar.TypeDir, tar.TypeXGlobalHeader:
		default:
			t.Fatalf("got an entry of type %q in an archive", header.Typeflag)
		}
	}
}

// refused tells, in the plainest words there are, what no bundle holds.
func refused(path, target string) bool {
	for _, text := range []string{path, target} {
		if !utf8.ValidString(text) || strings.Contains(text, `\`) || len(text) > bundle.MaxNameBytes {
			return true
		}
	}
	// From where the link is, ".." may come first only, and may not lead above the root.
	at := strings.Split(path, "/")
	at = at[:len(at)-1]
	down := false
	for _, element := range strings.Split(target, "/") {
		switch element {
		case "", ".":
		case "..":
			if down || len(at) == 0 {
				return true
			}
			at = at[:len(at)-1]
		default:
			down = true
		}
	}
	return strings.HasPrefix(target, "/")
}

// canonicalTar writes the bundle of a tree without what has to be refused, and makes sure that it
// is.
func canonicalTar(t *testing.T, entries []entry) []byte {
	t.Helper()
	var out bytes.Buffer
	size := 0
	for _, e := range entries {
		size += len(e.body) + 2048 // the header, and the padding
	}
	out.Grow(size)
	w := bundle.NewWriter(&out, bundle.Limits{})
	for _, e := range entries {
		target := ""
		if e.kind == content.KindSymlink {
			target = string(e.body)
		}
		if e.kind == content.KindSubmodule {
			continue
		}
		if refused(e.path, target) {
			wantRefusal(t, e)
			continue
		}
		if err := write(w, e); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func write(w *bundle.Writer, e entry) error {
	if e.kind == content.KindSymlink {
		return w.WriteSymlink(e.path, string(e.body))
	}
	return w.WriteFile(e.path, e.kind == content.KindExecutable, int64(len(e.body)), bytes.NewReader(e.body))
}

func wantRefusal(t *testing.T, e entry) {
	t.Helper()
	err := write(bundle.NewWriter(io.Discard, bundle.Limits{}), e)
	refusal, ok := errors.AsType[*bundle.EntryError](err)
	if !ok || refusal.Name != e.path || refusal.Reason == "" {
		t.Errorf("got %v for %q with %.40q, want it refused by name", err, e.path, e.body)
	}
}
