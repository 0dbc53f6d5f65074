// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package lfs_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/services/gitcache/internal/lfs"
)

const oid = "4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393"

func TestParse(t *testing.T) {
	t.Parallel()
	// The specification's own example.
	const spec = "version https://git-lfs.github.com/spec/v1\noid sha256:" + oid + "\nsize 12345\n"
	for name, c := range map[string]struct {
		file string
		want error
	}{
		"the specification's":     {spec, nil},
		"without a last newline":  {strings.TrimSuffix(spec, "\n"), nil},
		"with carriage returns":   {strings.ReplaceAll(spec, "\n", "\r\n"), nil},
		"with an extension":       {strings.Replace(spec, "oid", "ext-0-foo sha256:"+oid+"\noid", 1), lfs.ErrExtended},
		"empty":                   {"", lfs.ErrNotPointer},
		"text":                    {"version of mine\n", lfs.ErrNotPointer},
		"another version":         {strings.Replace(spec, "v1", "v2", 1), lfs.ErrNotPointer},
		"keys in another order":   {"version https://git-lfs.github.com/spec/v1\nsize 12345\noid sha256:" + oid + "\n", lfs.ErrNotPointer},
		"one key more":            {spec + "tail 1\n", lfs.ErrNotPointer},
		"an extension at the end": {spec + "ext-0-foo sha256:" + oid + "\n", lfs.ErrNotPointer},
		"another hash":            {strings.Replace(spec, "sha256", "sha512", 1), lfs.ErrNotPointer},
		"a short oid":             {strings.Replace(spec, oid, oid[1:], 1), lfs.ErrNotPointer},
		"an oid in capitals":      {strings.Replace(spec, oid, strings.ToUpper(oid), 1), lfs.ErrNotPointer},
		"a negative size":         {strings.Replace(spec, "12345", "-1", 1), lfs.ErrNotPointer},
		"no size":                 {strings.Replace(spec, "size 12345\n", "", 1), lfs.ErrNotPointer},
		"too long":                {spec + strings.Repeat("\n", lfs.MaxPointerBytes), lfs.ErrNotPointer},
	} {
		got, err := lfs.Parse([]byte(c.file))
		if !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
		if want := (lfs.Pointer{OID: oid, Size: 12345}); err == nil && got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}

func open(t *testing.T, dir string) *lfs.Store {
	t.Helper()
	s, err := lfs.OpenStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func pointer(content string) lfs.Pointer {
	return lfs.Pointer{OID: gittest.LFSOID(content), Size: int64(len(content))}
}

func read(t *testing.T, s *lfs.Store, uid string, p lfs.Pointer) (string, error) {
	t.Helper()
	body, err := s.Open(uid, p)
	if err != nil {
		return "", err
	}
	defer func() { _ = body.Close() }()
	data, err := io.ReadAll(body)
	return string(data), err
}

func TestStoreHoldsOnlyWhatIsWhole(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	p := pointer("content")
	for name, body := range map[string]io.Reader{
		"shorter": strings.NewReader("conten"), "longer": strings.NewReader("content!"), "another": strings.NewReader("CONTENT"),
	} {
		if err := s.Put("uid", p, body); !errors.Is(err, digest.ErrMismatch) {
			t.Errorf("%s: got %v, want a mismatch", name, err)
		}
	}
	broken := errors.New("line cut")
	if err := s.Put("uid", p, io.MultiReader(strings.NewReader("con"), errorReader{broken})); !errors.Is(err, broken) {
		t.Errorf("got %v, want the reader's error", err)
	}
	if _, err := read(t, s, "uid", p); !errors.Is(err, lfs.ErrAbsent) || s.Has("uid", p) {
		t.Errorf("got %v before anything whole was stored, want ErrAbsent", err)
	}
	if err := s.Put("uid", p, strings.NewReader("content")); err != nil {
		t.Fatal(err)
	}
	if got, err := read(t, s, "new", pointer("")); err != nil || got != "" || !s.Has("new", pointer("")) {
		t.Errorf("got %q, %v for the empty object, want it without storing it", got, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "uid", "tmp-left"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir)
	if got, err := read(t, s, "uid", p); err != nil || got != "content" {
		t.Errorf("got %q, %v after a restart, want the content", got, err)
	}
	held, err := s.List("uid")
	if diff := cmp.Diff([]lfs.Pointer{p}, held); diff != "" {
		t.Errorf("held (-want +got, %v):\n%s", err, diff)
	}
	other := pointer("other")
	if a, b := lfs.Fingerprint([]lfs.Pointer{p, other}), lfs.Fingerprint([]lfs.Pointer{other, p}); a != b || a == lfs.Fingerprint(held) {
		t.Errorf("got fingerprints %s and %s of the same set, and %s of another", a, b, lfs.Fingerprint(held))
	}
	if _, err := os.Stat(filepath.Join(dir, "uid", "tmp-left")); !os.IsNotExist(err) {
		t.Errorf("got %v for what a crash left, want it swept", err)
	}
	if _, err := read(t, s, "other", p); !errors.Is(err, lfs.ErrAbsent) {
		t.Errorf("got %v for another repository, want ErrAbsent", err)
	}
	if err := errors.Join(s.Remove("uid"), s.Remove("uid")); err != nil || s.Has("uid", p) {
		t.Errorf("got %v, still held %v, want it removed", err, s.Has("uid", p))
	}
	if err := s.Put("../uid", p, strings.NewReader("content")); err == nil {
		t.Error("got no error for a uid that leads elsewhere")
	}
}

// TestRotIsNotDelivered changes one byte on disk.
func TestRotIsNotDelivered(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	p := pointer("content")
	if err := s.Put("uid", p, strings.NewReader("content")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "uid", p.OID), []byte("cOntent"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := read(t, s, "uid", p); !errors.Is(err, digest.ErrMismatch) {
		t.Errorf("got %v, want a mismatch", err)
	}
	if s.Has("uid", p) {
		t.Error("the damaged object is still held")
	}
}

type errorReader struct{ err error }

func (r errorReader) Read([]byte) (int, error) { return 0, r.err }
