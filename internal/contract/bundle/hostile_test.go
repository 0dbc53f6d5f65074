// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package bundle_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/leatdev/leat/internal/contract/bundle"
)

func TestNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a", "a/b", "...", "..a", "a..", ".git/config", " ", "-rf", "a b", "日本", "a:b", "*"} {
		if err := bundle.CheckName(name); err != nil {
			t.Errorf("name %q: got %v, want it accepted", name, err)
		}
	}
	for _, name := range []string{
		"", "/", "/etc/passwd", "a//b", "a/", "//", ".", "..", "./a", "a/.", "a/./b", "../a", "a/..", "a/../b",
		"a\x00b", `a\b`, `..\a`, "a\xffb", "\xed\xa0\x80",
	} {
		if err := bundle.CheckName(name); !errors.Is(err, bundle.ErrMalformed) {
			t.Errorf("name %q: got %v, want ErrMalformed", name, err)
		}
	}
	if err := bundle.CheckName(strings.Repeat("a", bundle.MaxNameBytes+1)); !errors.Is(err, bundle.ErrTooLarge) {
		t.Errorf("name that is too long: got %v, want ErrTooLarge", err)
	}
}

func TestTargets(t *testing.T) {
	t.Parallel()
	for _, link := range [][2]string{
		{"l", "a"},
		{"l", "a/b"},
		{"l", "."},
		{"l", "./a"},
		{"l", "a/"},
		{"l", "a//b"},
		{"l", "missing"},
		{"l", "l"},
		{"a/l", ".."},
		{"a/l", "../b"},
		{"a/b/l", "../../c"},
		{"a/b/l", ".././../c"},
		{"a/l", "..."},
	} {
		if err := bundle.CheckTarget(link[0], link[1]); err != nil {
			t.Errorf("link %q to %q: got %v, want it accepted", link[0], link[1], err)
		}
	}
	for _, link := range [][2]string{
		{"l", ""},
		{"l", "/"},
		{"l", "/etc/passwd"},
		{"l", ".."},
		{"l", "../a"},
		{"a/l", "../../b"},
		{"a/l", "./../../b"},
		{"a/l", "b/../../.."},
		{"a/l", "b/../c"},
		{"l", "a/.."},
		{"l", "a\x00"},
		{"l", `..\a`},
		{"l", "\xff"},
	} {
		if err := bundle.CheckTarget(link[0], link[1]); !errors.Is(err, bundle.ErrMalformed) {
			t.Errorf("link %q to %q: got %v, want ErrMalformed", link[0], link[1], err)
		}
	}
}

func TestWriterRefuses(t *testing.T) {
	t.Parallel()
	small := bundle.Limits{Bytes: 4095, Files: 3, FileBytes: 1000}
	big := strings.Repeat("x", 1001)
	tests := map[string]struct {
		items []item
		limit bundle.Limit // empty: want ErrMalformed
	}{
		"wrong order":        {[]item{{name: "b"}, {name: "a"}}, ""},
		"folder order":       {[]item{{name: "a/b"}, {name: "a.b"}}, ""},
		"twice":              {[]item{{name: "a"}, {name: "a"}}, ""},
		"below a link":       {[]item{{name: "a", target: "b"}, {name: "a-b"}, {name: "a/b"}}, ""},
		"below a file":       {[]item{{name: "a"}, {name: "a/b/c"}}, ""},
		"deep below a link":  {[]item{{name: "a/b", target: "c"}, {name: "a/b/c/d"}}, ""},
		"bad name":           {[]item{{name: "../a"}}, ""},
		"bad name of a link": {[]item{{name: "../a", target: "b"}}, ""},
		"bad target":         {[]item{{name: "a", target: "/b"}}, ""},
		"too many":           {[]item{{name: "a"}, {name: "b"}, {name: "c"}, {name: "d"}}, bundle.LimitFiles},
		"file too large":     {[]item{{name: "a", content: big}}, bundle.LimitFileBytes},
		"all too large":      {[]item{{name: "a", content: big[:1000]}, {name: "b", content: big[:1000]}}, bundle.LimitBytes},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkRefusal(t, writeTo(io.Discard, small, test.items...), test.limit)
		})
	}
}

func checkRefusal(t *testing.T, err error, limit bundle.Limit) {
	t.Helper()
	if limit == "" {
		if !errors.Is(err, bundle.ErrMalformed) || errors.Is(err, bundle.ErrTooLarge) {
			t.Errorf("got %v, want ErrMalformed", err)
		}
		return
	}
	over, ok := errors.AsType[*bundle.LimitError](err)
	if !ok || over.Limit != limit || !errors.Is(err, bundle.ErrTooLarge) {
		t.Errorf("got %v, want a LimitError for %s", err, limit)
	}
}

func TestWriterErrorsStick(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	writer := bundle.NewWriter(&out, bundle.Limits{})
	err := writer.WriteFile("short", false, 10, strings.NewReader("four"))
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("short content: got %v, want io.ErrUnexpectedEOF", err)
	}
	if again := writer.WriteSymlink("z", "a"); !errors.Is(again, io.ErrUnexpectedEOF) {
		t.Errorf("write after a failure: got %v, want the failure again", again)
	}
	if again := writer.Close(); !errors.Is(again, io.ErrUnexpectedEOF) {
		t.Errorf("close after a failure: got %v, want the failure again", again)
	}
	if _, err := read(&out, bundle.Limits{}); !errors.Is(err, bundle.ErrMalformed) {
		t.Errorf("read of an unfinished bundle: got %v, want ErrMalformed", err)
	}

	writer = bundle.NewWriter(io.Discard, bundle.Limits{})
	if err := writer.WriteFile("a", false, -1, nil); !errors.Is(err, bundle.ErrMalformed) {
		t.Errorf("negative size: got %v, want ErrMalformed", err)
	}
	writer = bundle.NewWriter(io.Discard, bundle.Limits{})
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	if writer.Close() == nil || writer.WriteFile("a", false, 0, nil) == nil || writer.WriteSymlink("a", "b") == nil {
		t.Error("use after close: want errors")
	}
}

func TestWriterTakesOnlyTheSize(t *testing.T) {
	t.Parallel()
	source := strings.NewReader("0123456789")
	writer := bundle.NewWriter(io.Discard, bundle.Limits{})
	if err := writer.WriteFile("a", false, 4, source); err != nil {
		t.Fatal(err)
	}
	if source.Len() != 6 {
		t.Errorf("left of the source: got %d bytes, want 6", source.Len())
	}
}

// foreign writes a tar with the standard library, which permits more than a bundle does.
func foreign(t *testing.T, headers ...*tar.Header) []byte {
	t.Helper()
	var out bytes.Buffer
	writer := tar.NewWriter(&out)
	for _, header := range headers {
		if header.Mode == 0 && header.Typeflag != tar.TypeXGlobalHeader {
			header.Mode = 0o644
		}
		if err := writer.WriteHeader(header); err != nil {
			t.Fatalf("write %q: %v", header.Name, err)
		}
		if _, err := writer.Write(make([]byte, header.Size)); err != nil {
			t.Fatalf("write %q: %v", header.Name, err)
		}
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestReaderRefusesForeignEntries(t *testing.T) {
	t.Parallel()
	const file, link = tar.TypeReg, tar.TypeSymlink
	tests := map[string][]*tar.Header{
		"absolute":        {{Typeflag: file, Name: "/etc/passwd"}},
		"climbing":        {{Typeflag: file, Name: "../a"}},
		"dot":             {{Typeflag: file, Name: "./a"}},
		"backslash":       {{Typeflag: file, Name: `..\a`}},
		"not UTF-8":       {{Typeflag: file, Name: "a\xff", Format: tar.FormatGNU}},
		"directory":       {{Typeflag: tar.TypeDir, Name: "a/"}},
		"directory, bare": {{Typeflag: tar.TypeDir, Name: "a"}},
		"hard link":       {{Typeflag: file, Name: "a"}, {Typeflag: tar.TypeLink, Name: "b", Linkname: "a"}},
		"device":          {{Typeflag: tar.TypeChar, Name: "a"}},
		"block device":    {{Typeflag: tar.TypeBlock, Name: "a"}},
		"pipe":            {{Typeflag: tar.TypeFifo, Name: "a"}},
		"absolute link":   {{Typeflag: link, Name: "a", Linkname: "/etc", Mode: 0o777}},
		"escaping link":   {{Typeflag: link, Name: "a", Linkname: "../b", Mode: 0o777}},
		"empty link":      {{Typeflag: link, Name: "a", Linkname: "", Mode: 0o777}},
		"below a link":    {{Typeflag: link, Name: "a", Linkname: "b", Mode: 0o777}, {Typeflag: file, Name: "a/c"}},
		"below a file":    {{Typeflag: file, Name: "a"}, {Typeflag: file, Name: "a/c"}},
		"twice":           {{Typeflag: file, Name: "a"}, {Typeflag: file, Name: "a"}},
		"wrong order":     {{Typeflag: file, Name: "b"}, {Typeflag: file, Name: "a"}},
		"owner":           {{Typeflag: file, Name: "a", Uid: 1}},
		"owner's name":    {{Typeflag: file, Name: "a", Uname: "root"}},
		"setuid":          {{Typeflag: file, Name: "a", Mode: 0o4755}},
		"other mode":      {{Typeflag: file, Name: "a", Mode: 0o600}},
		"link's mode":     {{Typeflag: link, Name: "a", Linkname: "b", Mode: 0o644}},
		"GNU":             {{Typeflag: file, Name: "a", Format: tar.FormatGNU}},
		"needless record": {{Typeflag: file, Name: "a", Format: tar.FormatPAX, PAXRecords: map[string]string{"LEAT.x": "y"}}},
		"global header":   {{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"path": "b"}}, {Typeflag: file, Name: "a"}},
		"other PAX name":  {{Typeflag: file, Name: "ü", Format: tar.FormatPAX}},
	}
	for name, headers := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			items, err := read(bytes.NewReader(foreign(t, headers...)), bundle.Limits{})
			if !errors.Is(err, bundle.ErrMalformed) {
				t.Errorf("got %v after %d entries, want ErrMalformed", err, len(items))
			}
		})
	}
}

// TestReaderRefusesEveryOtherByte flips each byte outside of contents: nothing but the canonical
// form may pass.
func TestReaderRefusesEveryOtherByte(t *testing.T) {
	t.Parallel()
	whole := write(t, item{name: "a", content: "hello"}, item{name: "ü", target: "a"}, item{name: "ü2", exec: true})
	contentStart, contentEnd := 512, 517
	for at := range whole {
		for _, flip := range []byte{1, 0x10, 0x80} {
			broken := bytes.Clone(whole)
			broken[at] ^= flip
			items, err := read(bytes.NewReader(broken), bundle.Limits{})
			inContent := at >= contentStart && at < contentEnd
			if inContent != (err == nil) {
				t.Fatalf("byte %d xor %#x: got %v and %d entries", at, flip, err, len(items))
			}
			if err != nil && !errors.Is(err, bundle.ErrMalformed) && !errors.Is(err, bundle.ErrTooLarge) {
				t.Fatalf("byte %d xor %#x: got untyped error %v", at, flip, err)
			}
		}
	}
}

func TestReaderRefusesOtherLengths(t *testing.T) {
	t.Parallel()
	whole := write(t, item{name: "a", content: "hello"}, item{name: "ü", target: "a"})
	for length := range len(whole) {
		if _, err := read(bytes.NewReader(whole[:length]), bundle.Limits{}); !errors.Is(err, bundle.ErrMalformed) ||
			!errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("first %d of %d bytes: got %v, want ErrMalformed by an early end", length, len(whole), err)
		}
	}
	for _, extra := range []string{"x", "\x00", strings.Repeat("\x00", 512), strings.Repeat("\x00", 10240)} {
		if _, err := read(strings.NewReader(string(whole)+extra), bundle.Limits{}); !errors.Is(err, bundle.ErrMalformed) {
			t.Errorf("%d bytes more: got %v, want ErrMalformed", len(extra), err)
		}
	}
}

func TestReaderLimits(t *testing.T) {
	t.Parallel()
	whole := write(t, item{name: "a", content: strings.Repeat("x", 600)}, item{name: "b"}, item{name: "ü"})
	exact := bundle.Limits{Bytes: int64(len(whole)), Files: 3, FileBytes: 600}
	if _, err := read(bytes.NewReader(whole), exact); err != nil {
		t.Errorf("exactly at the limits: got %v, want success", err)
	}
	for limit, limits := range map[bundle.Limit]bundle.Limits{
		bundle.LimitBytes:     {Bytes: exact.Bytes - 1, Files: 3, FileBytes: 600},
		bundle.LimitFiles:     {Bytes: exact.Bytes, Files: 2, FileBytes: 600},
		bundle.LimitFileBytes: {Bytes: exact.Bytes, Files: 3, FileBytes: 599},
	} {
		_, err := read(bytes.NewReader(whole), limits)
		checkRefusal(t, err, limit)
	}
}

func TestReaderPassesErrorsAndSkips(t *testing.T) {
	t.Parallel()
	whole := write(t, item{name: "a", content: strings.Repeat("x", 2000)}, item{name: "b", content: "y"})
	reader := bundle.NewReader(iotest.OneByteReader(bytes.NewReader(whole)), bundle.Limits{})
	for _, want := range []string{"a", "b"} {
		if entry, err := reader.Next(); err != nil || entry.Name != want {
			t.Fatalf("next: got %q, %v, want %q without reading the contents", entry.Name, err, want)
		}
	}
	broken := errors.New("broken")
	for _, length := range []int{0, 100, 512, 700, 3584, len(whole)} {
		source := io.MultiReader(bytes.NewReader(whole[:length]), iotest.ErrReader(broken))
		if _, err := read(source, bundle.Limits{}); !errors.Is(err, broken) || errors.Is(err, bundle.ErrMalformed) {
			t.Errorf("source that breaks after %d bytes: got %v, want its own error", length, err)
		}
	}
}
