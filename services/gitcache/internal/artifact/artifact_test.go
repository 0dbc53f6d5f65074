// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package artifact_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/gitcache/internal/artifact"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// collected is the result of unpacking an archive: name → content, with "x " before an executable's
// and "-> " before a link's target.
type collected map[string]string

func (c collected) Add(e bundle.Entry, body io.Reader) error {
	data, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	if int64(len(data)) != e.Size {
		return fmt.Errorf("got %d bytes of %s, want %d", len(data), e.Name, e.Size)
	}
	text := string(data)
	switch {
	case e.IsSymlink():
		text = "-> " + e.Target
	case e.Executable:
		text = "x " + text
	}
	c[e.Name] = text
	return nil
}

func pack(t testing.TB, headers ...tar.Header) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, h := range headers {
		body := h.PAXRecords["body"]
		h.PAXRecords = nil
		if h.Size == 0 {
			h.Size = int64(len(body))
		}
		if h.Mode == 0 {
			h.Mode = 0o644
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, body); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err == nil {
		_ = w.Close() // a body may be missing on purpose
	}
	return out.Bytes()
}

func file(name, body string) tar.Header {
	return tar.Header{Name: name, Typeflag: tar.TypeReg, PAXRecords: map[string]string{"body": body}}
}

func zipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestUnpack(t *testing.T) {
	t.Parallel()
	plain := pack(t,
		tar.Header{Name: "./", Typeflag: tar.TypeDir}, file("./b/c.yaml", "c"), tar.Header{Name: "b", Typeflag: tar.TypeDir},
		tar.Header{Name: "run", Typeflag: tar.TypeReg, Mode: 0o700, PAXRecords: map[string]string{"body": "#!"}},
		tar.Header{Name: "b/link", Typeflag: tar.TypeSymlink, Linkname: "../run"}, file("a", ""),
	)
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	want := collected{"b/c.yaml": "c", "run": "x #!", "b/link": "-> ../run", "a": ""}
	for name, data := range map[string][]byte{"plain": plain, "gzip": zipped(t, plain), "zstd": encoder.EncodeAll(plain, nil)} {
		got := collected{}
		if err := artifact.Unpack(t.Context(), iotest.OneByteReader(bytes.NewReader(data)), artifact.Params{}, got); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	chart := collected{}
	data := zipped(t, pack(t, file("web/Chart.yaml", "name: web"), file("web/templates/x.yaml", "x")))
	if err := artifact.Unpack(t.Context(), bytes.NewReader(data), artifact.Params{Chart: true}, chart); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(collected{"Chart.yaml": "name: web", "templates/x.yaml": "x"}, chart); diff != "" {
		t.Errorf("chart (-want +got):\n%s", diff)
	}
}

// TestSecHostileArchives refuses what a bundle must not hold, and archives that take more than they
// declare.
func TestSecHostileArchives(t *testing.T) {
	t.Parallel()
	link := func(kind byte, target string) []byte {
		return pack(t, file("x", "x"), tar.Header{Name: "l", Typeflag: kind, Linkname: target})
	}
	small := bundle.Limits{Bytes: 8 << 10, Files: 3, FileBytes: 2 << 10}
	for name, test := range map[string]struct {
		data  []byte
		chart bool
		want  reason.Reason
	}{
		"climbs":                   {pack(t, file("../x", "x")), false, reason.ContentUnsupported},
		"climbs inside":            {pack(t, file("a/../../x", "x")), false, reason.ContentUnsupported},
		"absolute":                 {pack(t, file("/etc/passwd", "x")), false, reason.ContentUnsupported},
		"backslash":                {pack(t, file(`a\b`, "x")), false, reason.ContentUnsupported},
		"no UTF-8":                 {pack(t, file("a\xff", "x")), false, reason.ContentUnsupported},
		"twice":                    {pack(t, file("x", "1"), file("./x", "2")), false, reason.ContentUnsupported},
		"hard link":                {link(tar.TypeLink, "x"), false, reason.ContentUnsupported},
		"device":                   {link(tar.TypeChar, ""), false, reason.ContentUnsupported},
		"pipe":                     {link(tar.TypeFifo, ""), false, reason.ContentUnsupported},
		"link out":                 {link(tar.TypeSymlink, "../../x"), false, reason.ContentUnsupported},
		"link to the root":         {link(tar.TypeSymlink, "/etc"), false, reason.ContentUnsupported},
		"too many files":           {pack(t, file("1", ""), file("2", ""), file("3", ""), file("4", "")), false, reason.BundleTooLarge},
		"too long a file":          {pack(t, file("1", strings.Repeat("x", 3<<10))), false, reason.BundleTooLarge},
		"too much together":        {pack(t, file("1", strings.Repeat("x", 2<<10)), file("2", strings.Repeat("x", 2<<10)), file("3", strings.Repeat("x", 2<<10)), file("4", "")), false, reason.BundleTooLarge},
		"bomb":                     {zipped(t, pack(t, tar.Header{Name: "d", Typeflag: tar.TypeDir}, file("1", strings.Repeat("\x00", 64<<10)))), false, reason.BundleTooLarge},
		"bomb of folders":          {zipped(t, bytes.Repeat(pack(t, tar.Header{Name: "d", Typeflag: tar.TypeDir})[:512], 1000)), false, reason.BundleTooLarge},
		"no archive":               {[]byte("hello"), false, reason.ContentUnsupported},
		"nothing":                  {nil, false, reason.ContentUnsupported},
		"half of gzip":             {zipped(t, pack(t, file("x", "x")))[:20], false, reason.ContentUnsupported},
		"half of a tar":            {pack(t, file("x", strings.Repeat("x", 1000)))[:700], false, reason.ContentUnsupported},
		"chart without Chart.yaml": {pack(t, file("web/values.yaml", "")), true, reason.ContentUnsupported},
		"chart in two folders":     {pack(t, file("web/Chart.yaml", ""), file("other/x", "")), true, reason.ContentUnsupported},
		"chart without a folder":   {pack(t, file("Chart.yaml", "")), true, reason.ContentUnsupported},
	} {
		_, err := artifact.Consume(bytes.NewReader(test.data), sum(test.data), 1<<20, func(r io.Reader) error {
			return artifact.Unpack(t.Context(), r, artifact.Params{Chart: test.chart, Limits: small}, collected{})
		})
		bad, ok := errors.AsType[*mirror.ArtifactError](artifact.Unusable(err))
		if !ok || bad.Reason != test.want || bad.Message == "" {
			t.Errorf("%s: got %v, want %s", name, err, test.want)
		}
	}
}

func sum(data []byte) string {
	s := sha256.Sum256(data)
	return hex.EncodeToString(s[:])
}

// TestConsume judges what was sent before its content.
func TestConsume(t *testing.T) {
	t.Parallel()
	data := zipped(t, pack(t, file("x", strings.Repeat("content ", 100))))
	unpack := func(r io.Reader) error { return artifact.Unpack(t.Context(), r, artifact.Params{}, collected{}) }
	if got, err := artifact.Consume(bytes.NewReader(data), "", 1<<20, unpack); err != nil || got != sum(data) {
		t.Errorf("got %s (%v), want %s", got, err, sum(data))
	}
	_, err := artifact.Consume(bytes.NewReader(data[:30]), sum(data), 1<<20, unpack)
	if wrong, ok := errors.AsType[*artifact.MismatchError](err); !ok || wrong.Got != sum(data[:30]) {
		t.Errorf("got %v of half a download, want a mismatch", err)
	}
	broken := errors.New("connection reset")
	_, err = artifact.Consume(io.MultiReader(bytes.NewReader(data[:30]), iotest.ErrReader(broken)), sum(data), 1<<20, unpack)
	if !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
	_, err = artifact.Consume(bytes.NewReader(data), sum(data), 10, unpack)
	if long, ok := errors.AsType[*mirror.ArtifactError](err); !ok || long.Reason != reason.BundleTooLarge {
		t.Errorf("got %v, want the download cut off", err)
	}
}

func TestIDs(t *testing.T) {
	t.Parallel()
	digest := strings.Repeat("0a", 32)
	for text, want := range map[string]artifact.Layer{
		digest:                                {},
		digest + ":unpack:application/x+gzip": {MediaType: "application/x+gzip"},
		digest + ":copy:application/wasm":     {MediaType: "application/wasm", Copy: true},
		digest + ":copy:":                     {Copy: true},
		digest + ":files":                     {Files: true},
	} {
		id, err := artifact.ParseID(text)
		if err != nil || id != (artifact.ID{Digest: digest, Layer: want}) || id.String() != text {
			t.Errorf("%s: got %v (%v), want %v", text, id, err, want)
		}
	}
	for _, text := range []string{
		"", digest[:40], digest + ":", digest + ":unpack", digest + ":unpack:", digest + ":files:", digest + ":files:a/b", digest + ":copy",
		digest + ":copy:a", digest + ":copy:a/b/../c", strings.ToUpper(digest), digest + "\n", digest + ":unpack:a/b:c",
	} {
		if id, err := artifact.ParseID(text); err == nil {
			t.Errorf("%q: got %v, want an error", text, id)
		}
	}
	for _, layer := range []artifact.Layer{{Files: true, Copy: true}, {MediaType: "x"}, {MediaType: "a/" + strings.Repeat("b", 200)}} {
		if layer.Problem() == "" {
			t.Errorf("%v: got no problem, want one", layer)
		}
	}
}

func TestListing(t *testing.T) {
	t.Parallel()
	files := []artifact.File{
		{Name: "b/c/d", Size: 3, Sum: sum([]byte("abc"))},
		{Name: "a", Kind: content.KindExecutable, Size: 1, Sum: sum([]byte("x"))},
		{Name: "b-", Size: 1, Sum: sum([]byte("x"))},
		{Name: "b/a", Kind: content.KindSymlink, Size: 4, Sum: sum([]byte("../a"))},
	}
	l, err := artifact.NewListing(files)
	if err != nil {
		t.Fatal(err)
	}
	root, _ := l.Folder("")
	got := map[string]string{}
	var walk func(tree, prefix string)
	walk = func(tree, prefix string) {
		entries, ok := l.Entries(tree)
		if !ok {
			t.Fatalf("no tree %s at %q", tree, prefix)
		}
		for _, e := range entries {
			if e.Kind == content.KindFolder {
				if id, ok := l.Folder(prefix + e.Name); !ok || id != e.ID {
					t.Errorf("got the tree %s at %s, want %s", id, prefix+e.Name, e.ID)
				}
				walk(e.ID, prefix+e.Name+"/")
				continue
			}
			got[prefix+e.Name] = fmt.Sprint(e.Kind, " ", e.ID)
		}
	}
	walk(root, "")
	want := map[string]string{}
	for _, f := range files {
		want[f.Name] = fmt.Sprint(f.Kind, " ", f.Sum)
	}
	if diff := cmp.Diff(want, got); diff != "" || l.Size() != 9 {
		t.Errorf("got %d bytes, files (-want +got):\n%s", l.Size(), diff)
	}
	again, err := artifact.NewListing([]artifact.File{files[2], files[3], files[0], files[1]})
	if other, _ := again.Folder(""); err != nil || other != root {
		t.Errorf("got the root %s (%v) in another order, want %s", other, err, root)
	}
	for at, want := range map[int64]int64{0: 0, 1: 1, 2: 0} { // "x" is at 0 and 1
		if offset, size, ok := l.Locate(sum([]byte("x")), at); !ok || size != 1 || offset != want {
			t.Errorf("got offset %d (%v) from %d on, want %d", offset, ok, at, want)
		}
	}
	for _, names := range [][]string{{"a", "a"}, {"a", "a/b"}, {"a", "a-", "a/b"}} {
		var files []artifact.File
		for _, name := range names {
			files = append(files, artifact.File{Name: name})
		}
		if _, err := artifact.NewListing(files); !errors.Is(err, bundle.ErrMalformed) {
			t.Errorf("%v: got %v, want it refused", names, err)
		}
	}
}

// FuzzSecUnpack compares with package tar: every unpacked file is in the archive, under names that
// a bundle may hold, and every archive ends within its limits.
func FuzzSecUnpack(f *testing.F) {
	f.Add(pack(f, file("a/b", "x"), tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "a/b"}), false)
	f.Add(zipped(f, pack(f, file("web/Chart.yaml", "x"), file("web/a", "y"))), true)
	f.Add(pack(f, tar.Header{Name: strings.Repeat("n", 300), Typeflag: tar.TypeReg, Format: tar.FormatGNU}), false)
	f.Fuzz(func(t *testing.T, data []byte, chart bool) {
		limits := bundle.Limits{Bytes: 64 << 10, Files: 50, FileBytes: 32 << 10}
		got := collected{}
		if artifact.Unpack(t.Context(), bytes.NewReader(data), artifact.Params{Chart: chart, Limits: limits}, got) != nil {
			return
		}
		var size int64
		var files []artifact.File
		for name, text := range maps.All(got) {
			if err := bundle.CheckName(name); err != nil {
				t.Errorf("got the name %q: %v", name, err)
			}
			if target, ok := strings.CutPrefix(text, "-> "); ok && !bytes.Contains(data, []byte("-> ")) {
				if err := bundle.CheckTarget(name, target); err != nil {
					t.Errorf("got the target %q: %v", target, err)
				}
			}
			size += int64(len(text))
			files = append(files, artifact.File{Name: name, Size: int64(len(text)), Sum: sum([]byte(text))})
		}
		if size > limits.Bytes || len(got) > limits.Files {
			t.Errorf("got %d files of %d bytes, want them within the limits", len(got), size)
		}
		if l, err := artifact.NewListing(files); err == nil && l.Size() != size {
			t.Errorf("got a listing of %d bytes, want %d", l.Size(), size)
		}
	})
}
