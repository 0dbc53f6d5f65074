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

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/contract/bundle"
)

// FuzzWriter looks for entries that the writer accepts and a reader, ours or the standard
// library's, does not return. Each line of the input is an entry: "name", "name\tcontent",
// "name\t!content" for an executable or "name\t@target".
func FuzzWriter(f *testing.F) {
	for _, test := range tricky() {
		var text strings.Builder
		for _, i := range test.items {
			text.WriteString(i.name + "\t" + strings.ReplaceAll(i.content, "\n", " ") + "\n")
		}
		f.Add(text.String())
	}
	f.Add("a\t@b\na.b\t!#!/bin/sh\na/b\t\n")
	f.Add("a/l\t@../../x\n../a\na\x00b\n\xff\n" + strings.Repeat("ü", 200) + "\t" + strings.Repeat("x", 513))
	limits := bundle.Limits{Bytes: 1 << 20, Files: 100, FileBytes: 1 << 16}
	f.Fuzz(func(t *testing.T, text string) {
		items := parseItems(text)
		var out bytes.Buffer
		err := writeTo(&out, limits, items...)
		if err != nil {
			if !errors.Is(err, bundle.ErrMalformed) && !errors.Is(err, bundle.ErrTooLarge) {
				t.Fatalf("untyped error: %v", err)
			}
			return
		}
		if int64(out.Len()) > limits.Bytes {
			t.Fatalf("wrote %d bytes, want at most %d", out.Len(), limits.Bytes)
		}
		back, err := read(bytes.NewReader(out.Bytes()), limits)
		if err != nil {
			t.Fatalf("read the written bundle: %v", err)
		}
		if diff := gocmp.Diff(items, back, gocmp.AllowUnexported(item{})); diff != "" {
			t.Fatalf("read back (-want +got):\n%s", diff)
		}
		standard, err := readStandard(&out)
		if err != nil {
			t.Fatalf("archive/tar: %v", err)
		}
		if diff := gocmp.Diff(items, standard, gocmp.AllowUnexported(item{})); diff != "" {
			t.Fatalf("read by archive/tar (-want +got):\n%s", diff)
		}
	})
}

func parseItems(text string) []item {
	var items []item
	for line := range strings.Lines(text) {
		name, content, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		i := item{name: name, content: content}
		switch {
		case strings.HasPrefix(content, "@") && len(content) > 1:
			i.content, i.target = "", content[1:]
		case strings.HasPrefix(content, "!"):
			i.content, i.exec = content[1:], true
		}
		items = append(items, i)
	}
	return items
}

func readStandard(r io.Reader) ([]item, error) {
	var items []item
	for in := tar.NewReader(r); ; {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			return items, nil
		}
		if err != nil {
			return nil, err
		}
		i := item{name: header.Name, exec: header.Typeflag == tar.TypeReg && header.Mode&0o100 != 0, target: header.Linkname}
		body, err := io.ReadAll(in)
		if err != nil {
			return nil, err
		}
		i.content = string(body)
		items = append(items, i)
	}
}
