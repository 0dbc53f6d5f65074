// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package bundle_test

import (
	"bytes"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/zstd"

	"github.com/leatdev/leat/internal/contract/bundle"
)

func compress(t testing.TB, content []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := bundle.Compress(&out)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func decompress(r io.Reader, limit int64) ([]byte, error) {
	content, err := bundle.Decompress(r, limit)
	if err != nil {
		return nil, err
	}
	defer content.Close()
	return io.ReadAll(content)
}

func TestCompressRoundTrip(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, 1000, 1 << 20, 9 << 20} {
		content := bytes.Repeat([]byte("leat carries water\n"), size/19+1)[:size]
		stored := compress(t, content)
		got, err := decompress(iotest.HalfReader(bytes.NewReader(stored)), int64(size))
		if err != nil || !bytes.Equal(got, content) {
			t.Errorf("content of %d bytes: got %d bytes and %v, want it back", size, len(got), err)
		}
	}
}

func TestZstdProgramAgrees(t *testing.T) {
	t.Parallel()
	content := []byte(strings.Repeat("hello ", 1000))
	command := exec.CommandContext(t.Context(), "zstd", "-d", "-c")
	command.Stdin = bytes.NewReader(compress(t, content))
	if got, err := command.Output(); err != nil || !bytes.Equal(got, content) {
		t.Errorf("zstd -d: got %d bytes and %v, want the content (is zstd installed? `apt-get install zstd`)", len(got), err)
	}
}

func TestDecompressRefuses(t *testing.T) {
	t.Parallel()
	content := bytes.Repeat([]byte("0123456789"), 10_000)
	stored := compress(t, content)
	if _, err := decompress(bytes.NewReader(stored), int64(len(content))-1); !errors.Is(err, bundle.ErrTooLarge) {
		t.Errorf("one byte more than allowed: got %v, want ErrTooLarge", err)
	}
	flipped := bytes.Clone(stored)
	flipped[len(flipped)/2] ^= 1
	for name, data := range map[string][]byte{
		"empty": {}, "not zstd": []byte("hello"), "flipped": flipped, "cut off": stored[:len(stored)-1],
		"half": stored[:len(stored)/2], "garbage after": append(bytes.Clone(stored), "garbage"...), "huge window": hugeWindow(t),
	} {
		if _, err := decompress(bytes.NewReader(data), 1<<30); !errors.Is(err, bundle.ErrMalformed) {
			t.Errorf("%s: got %v, want ErrMalformed", name, err)
		}
	}
	broken := errors.New("broken")
	source := io.MultiReader(bytes.NewReader(stored[:20]), iotest.ErrReader(broken))
	if _, err := decompress(source, 1<<30); !errors.Is(err, broken) || errors.Is(err, bundle.ErrMalformed) {
		t.Errorf("broken source: got %v, want its own error", err)
	}
}

// hugeWindow returns a small stream whose reader would have to keep 64 MiB.
func hugeWindow(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := zstd.NewWriter(&out, zstd.WithWindowSize(64<<20), zstd.WithSingleSegment(false))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(make([]byte, 9<<20)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
