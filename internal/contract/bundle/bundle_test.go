// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package bundle_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/internal/contract/digest"
)

// item is one entry with its content.
type item struct {
	name    string
	exec    bool
	content string
	target  string
}

// write writes a bundle of the items in the given order.
func write(t testing.TB, items ...item) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := writeTo(&out, bundle.Limits{}, items...); err != nil {
		t.Fatalf("write bundle: %v", err)
	}
	return out.Bytes()
}

func writeTo(w io.Writer, limits bundle.Limits, items ...item) error {
	writer := bundle.NewWriter(w, limits)
	for _, i := range items {
		var err error
		if i.target != "" {
			err = writer.WriteSymlink(i.name, i.target)
		} else {
			err = writer.WriteFile(i.name, i.exec, int64(len(i.content)), strings.NewReader(i.content))
		}
		if err != nil {
			return err
		}
	}
	return writer.Close()
}

// read reads a whole bundle.
func read(r io.Reader, limits bundle.Limits) ([]item, error) {
	reader := bundle.NewReader(r, limits)
	var items []item
	for {
		entry, err := reader.Next()
		if err == io.EOF {
			return items, nil
		}
		if err != nil {
			return items, err
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			return items, err
		}
		items = append(items, item{name: entry.Name, exec: entry.Executable, content: string(content), target: entry.Target})
	}
}

// tricky are entries for which tar permits several encodings. Their digests are the format:
// changing one here changes the digest of every such folder in the world.
func tricky() map[string]struct {
	items  []item
	length int
	digest string
} {
	long := strings.Repeat("d", 90) + "/"
	type golden = struct {
		items  []item
		length int
		digest string
	}
	return map[string]golden{
		"empty bundle": {nil, 1024, "sha256:5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef"},
		"empty file":   {[]item{{name: "empty"}}, 1536, "sha256:30035e2c75862c634cfa3e1b9ceec1444e935f1d0278c86f1bd85ca5b9944a0f"},
		"example": {[]item{
			{name: "a.txt", content: "hello\n"},
			{name: "bin/run", exec: true, content: "#!/bin/sh\n"},
			{name: "link", target: "a.txt"},
		}, 3584, "sha256:033d79e0307dc877c1a3065c4c9feefaf63a118eb5ff4351da11454f3449138e"},
		"full block":       {[]item{{name: "f", content: strings.Repeat("x", 512)}}, 2048, "sha256:3f5c7db00462ac7975d2871cef32cada5175bdb5772f4b0a4ab7195404a39810"},
		"bytewise order":   {[]item{{name: "A"}, {name: "a"}, {name: "a-b"}, {name: "a.b/c"}, {name: "aa"}, {name: "b/c"}}, 4096, "sha256:796dec4021bae6507e024c6ae42896cb541c96dda3251c90f5265da1247006fc"},
		"name of 100":      {[]item{{name: strings.Repeat("n", 100)}}, 1536, "sha256:f0bdbc85156b6bd656f8517ad18ad5ba3259fe8374ebfa7693e214d2a4aef57b"},
		"name of 101":      {[]item{{name: strings.Repeat("n", 101)}}, 2560, "sha256:c893c0079dfbb293f782bc9e7d586435f2354f57d390b576cdff4380ce47796a"},
		"prefix":           {[]item{{name: long + strings.Repeat("n", 100)}}, 1536, "sha256:475b183483cd6faabdce61fcf9aa71718b1d7d6269fef6151ce55b0d4810e8f7"},
		"prefix of 155":    {[]item{{name: strings.Repeat("p", 155) + "/" + strings.Repeat("n", 100)}}, 1536, "sha256:a6744e4d3f9768af471f7de7619a28eb6ec96b89c8519c1380c45a05f4cc4563"},
		"prefix of 156":    {[]item{{name: strings.Repeat("p", 156) + "/n"}}, 2560, "sha256:8aa9b8cd909d10fa05a1e7ea48ead8a93e536162b326d8daa357335a96872e87"},
		"longest prefix":   {[]item{{name: strings.Repeat("ab/", 50) + "n"}}, 1536, "sha256:b8ee8f377452861ae86a0b840388269023815e1934166809b6a407845e8727e0"},
		"name of 4096":     {[]item{{name: strings.Repeat("n", 4096)}}, 6656, "sha256:24d8cfaad25a5891d168b5e86fec9be95b87245f7d20fb00b0ee78b490c95a53"},
		"name in UTF-8":    {[]item{{name: "größe/日本.yaml", content: "x"}}, 3072, "sha256:3bbf5fbe20555e735dfeb9cc198f80f0ced45a9fd3ffd89a6ad5dcead28ce07c"},
		"record length 99": {[]item{{name: "é" + strings.Repeat("n", 88)}}, 2560, "sha256:f91793fa2f75d08d17959c49443fad680666d11dd3efb4fe8e1dcbedc9d6f380"},
		"target of 100":    {[]item{{name: "l", target: strings.Repeat("t", 100)}}, 1536, "sha256:e7a4e830b4d13dc6cc3ff942ea633301c74ce45f3476d5ce3a8a4c7e3e7644f9"},
		"target of 101":    {[]item{{name: "l", target: strings.Repeat("t", 101)}}, 2560, "sha256:6822844c5484abff0e5cb831b589133c6b9d66a717e18e2c81d5b90a7a8e8a91"},
		"both long":        {[]item{{name: strings.Repeat("n", 101), target: "ü/" + strings.Repeat("t", 101)}}, 2560, "sha256:54a5a710870f9690ff5a1e96ea3861852b5e723cc9307447ff77606e342568e2"},
		"climbing target":  {[]item{{name: "a/b/l", target: "../../c/./d//"}}, 1536, "sha256:4007683610128af2ba6305a14286287bc355bf85ff47f7a27095351fca00ee06"},
		"control bytes":    {[]item{{name: "Icon\r", content: "\x00"}, {name: "a\nb"}}, 2560, "sha256:affd8d3d02c5423e8e5b70ba623c871204a2bd153021f31a88749eb7348ba069"},
	}
}

func TestGolden(t *testing.T) {
	t.Parallel()
	for name, test := range tricky() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := write(t, test.items...)
			if d := digest.FromBytes(got).String(); d != test.digest || len(got) != test.length {
				t.Errorf("bundle: got %s of %d bytes, want %s of %d", d, len(got), test.digest, test.length)
			}
			back, err := read(bytes.NewReader(got), bundle.Limits{})
			if err != nil {
				t.Fatalf("read it back: %v", err)
			}
			if diff := cmp.Diff(test.items, back, cmp.AllowUnexported(item{})); diff != "" {
				t.Errorf("read back (-want +got):\n%s", diff)
			}
		})
	}
}

// TestArchiveTarAgrees reads our bytes with the standard library: they must be a plain tar with the
// intended content.
func TestArchiveTarAgrees(t *testing.T) {
	t.Parallel()
	for name, test := range tricky() {
		reader := tar.NewReader(bytes.NewReader(write(t, test.items...)))
		for _, want := range test.items {
			header, err := reader.Next()
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			content, err := io.ReadAll(reader)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			got := item{name: header.Name, exec: header.Mode == 0o755, content: string(content), target: header.Linkname}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(item{})); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
			if header.Uid != 0 || header.Gid != 0 || header.Uname != "" || header.Gname != "" || header.ModTime.Unix() != 0 {
				t.Errorf("%s: got header %+v, want no owner and no time", name, header)
			}
		}
		if _, err := reader.Next(); err != io.EOF {
			t.Errorf("%s: after the last entry: got %v, want io.EOF", name, err)
		}
	}
}

// TestArchiveTarWritesTheSame compares our USTAR headers with the standard library's. For names
// without an extended header they must be equal byte for byte, which the format's description
// relies on.
func TestArchiveTarWritesTheSame(t *testing.T) {
	t.Parallel()
	for name, test := range tricky() {
		var want bytes.Buffer
		writer := tar.NewWriter(&want)
		plain := true
		for _, i := range test.items {
			header := &tar.Header{Name: i.name, Mode: 0o644, Size: int64(len(i.content)), Typeflag: tar.TypeReg, Format: tar.FormatUSTAR}
			if i.exec {
				header.Mode = 0o755
			}
			if i.target != "" {
				header.Mode, header.Typeflag, header.Linkname = 0o777, tar.TypeSymlink, i.target
			}
			if err := writer.WriteHeader(header); err != nil {
				plain = false // does not fit USTAR
				break
			}
			if _, err := io.WriteString(writer, i.content); err != nil {
				t.Fatal(err)
			}
		}
		if !plain {
			continue
		}
		if err := writer.Close(); err != nil {
			t.Fatal(err)
		}
		if got := write(t, test.items...); !bytes.Equal(got, want.Bytes()) {
			t.Errorf("%s: bytes differ from archive/tar's", name)
		}
	}
}

// TestTarProgramAgrees lists the bundles with the machine's tar.
func TestTarProgramAgrees(t *testing.T) {
	t.Parallel()
	for name, test := range tricky() {
		command := exec.CommandContext(t.Context(), "tar", "-t", "-f", "-", "--quoting-style=literal", "--null")
		command.Stdin = bytes.NewReader(write(t, test.items...))
		command.Env = []string{"LC_ALL=C.UTF-8", "PATH=/usr/bin:/bin"}
		got, err := command.CombinedOutput()
		if err != nil {
			t.Errorf("%s: tar: %v: %s", name, err, got)
			continue
		}
		var want strings.Builder
		for _, i := range test.items {
			want.WriteString(i.name + "\n")
		}
		if string(got) != want.String() {
			t.Errorf("%s: tar lists %q, want %q", name, got, want.String())
		}
	}
}

func TestDigestMismatchReachesTheCaller(t *testing.T) {
	t.Parallel()
	tarred := write(t, item{name: "a", content: "x"})
	verifier := digest.NewVerifier(bytes.NewReader(tarred), digest.FromBytes(nil))
	if _, err := read(verifier, bundle.Limits{}); !errors.Is(err, digest.ErrMismatch) {
		t.Errorf("read of other content: got %v, want a mismatch", err)
	}
}
