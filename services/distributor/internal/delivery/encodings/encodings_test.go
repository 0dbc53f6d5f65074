// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package encodings_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/leatdev/leat/internal/bundle"
	"github.com/leatdev/leat/internal/cas"
	"github.com/leatdev/leat/internal/digest"
	"github.com/leatdev/leat/services/distributor/internal/delivery/encodings"
)

// stored is a bundle as the cache has it. The content need not be a tar here.
type stored struct {
	content, packed []byte
	opened          atomic.Int32
}

func newStored(t *testing.T, content string) *stored {
	t.Helper()
	var packed bytes.Buffer
	z, err := bundle.Compress(&packed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(z, content); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return &stored{content: []byte(content), packed: packed.Bytes()}
}

func (s *stored) digest() digest.Digest { return digest.FromBytes(s.content) }

type readSeekCloser struct{ *bytes.Reader }

func (readSeekCloser) Close() error { return nil }

func (s *stored) open(context.Context) (*cas.Blob, error) {
	s.opened.Add(1)
	return &cas.Blob{
		Info: cas.Info{
			Digest: s.digest(), StoredSize: int64(len(s.packed)), ContentSize: int64(len(s.content)), StoredDigest: digest.FromBytes(s.packed),
		},
		ReadSeekCloser: readSeekCloser{bytes.NewReader(s.packed)},
	}, nil
}

func newStore(t *testing.T, maxBytes int64) (*encodings.Store, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "encodings")
	s, err := encodings.Open(encodings.Config{Dir: dir, MaxBytes: maxBytes})
	if err != nil {
		t.Fatal(err)
	}
	return s, dir
}

// read reads the file of a bundle and checks what is said about it.
func read(t *testing.T, s *encodings.Store, b *stored, e encodings.Encoding) []byte {
	t.Helper()
	file, err := s.Open(t.Context(), b.digest(), e, b.open)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	return readFile(t, file)
}

func readFile(t *testing.T, file *encodings.File) []byte {
	t.Helper()
	got, err := io.ReadAll(file)
	if err != nil {
		t.Fatal(err)
	}
	if int64(len(got)) != file.Size || digest.FromBytes(got) != file.Sum {
		t.Errorf("got %d bytes with digest %s, want %d with %s", len(got), digest.FromBytes(got), file.Size, file.Sum)
	}
	return got
}

func unzip(t *testing.T, packed []byte) []byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// noise does not compress.
func noise(n int) string {
	random := rand.New(rand.NewPCG(1, uint64(n)))
	raw := make([]byte, n)
	for i := range raw {
		raw[i] = byte(random.Uint32())
	}
	return string(raw)
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func TestEncodings(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{"empty": "", "text": strings.Repeat("leat ", 100_000), "noise": noise(300_000)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _ := newStore(t, 0)
			b := newStored(t, content)
			if got := read(t, s, b, encodings.Plain); !bytes.Equal(got, b.content) {
				t.Error("plain: got other bytes")
			}
			packed := read(t, s, b, encodings.Gzip)
			if !bytes.Equal(unzip(t, packed), b.content) {
				t.Error("gzip: got other bytes")
			}
			if again := read(t, s, b, encodings.Gzip); !bytes.Equal(again, packed) || b.opened.Load() != 2 {
				t.Errorf("bundle opened %d times, want once per encoding", b.opened.Load())
			}
			other, _ := newStore(t, 0)
			if got := read(t, other, b, encodings.Gzip); !bytes.Equal(got, packed) {
				t.Error("gzip: another replica makes other bytes")
			}
		})
	}
}

func TestOneMakingForAllWhoWait(t *testing.T) {
	t.Parallel()
	s, _ := newStore(t, 0)
	b := newStored(t, noise(100_000))
	gate := make(chan struct{})
	slow := func(ctx context.Context) (*cas.Blob, error) {
		<-gate
		return b.open(ctx)
	}
	// The first caller gives up; what it began goes on.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Open(ctx, b.digest(), encodings.Gzip, slow); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the caller's own cancellation", err)
	}
	var group sync.WaitGroup
	for range 50 {
		group.Go(func() {
			file, err := s.Open(t.Context(), b.digest(), encodings.Gzip, slow)
			if err != nil {
				t.Error(err)
				return
			}
			defer file.Close()
			if content := unzip(t, readFile(t, file)); !bytes.Equal(content, b.content) {
				t.Error("got other bytes")
			}
		})
	}
	close(gate)
	group.Wait()
	if got := b.opened.Load(); got != 1 {
		t.Errorf("got %d makings, want 1", got)
	}
}

func TestBound(t *testing.T) {
	t.Parallel()
	const bound = 250_000
	s, dir := newStore(t, bound)
	first, second, third := newStored(t, noise(100_000)), newStored(t, noise(100_001)), newStored(t, noise(100_002))
	read(t, s, first, encodings.Plain)
	read(t, s, second, encodings.Plain)
	held, err := s.Open(t.Context(), second.digest(), encodings.Plain, second.open)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	read(t, s, first, encodings.Plain) // so that second is the one to go
	read(t, s, third, encodings.Plain)
	if s.Usage() > bound || len(files(t, dir)) != 2 {
		t.Errorf("got %d bytes in %v, want at most %d", s.Usage(), files(t, dir), bound)
	}
	if got := readFile(t, held); !bytes.Equal(got, second.content) {
		t.Error("a file that is open was not readable after its eviction")
	}
	read(t, s, first, encodings.Plain)
	if first.opened.Load() != 1 || second.opened.Load() != 1 {
		t.Errorf("made %d and %d times, want the one that was read last kept", first.opened.Load(), second.opened.Load())
	}
	read(t, s, second, encodings.Plain)
	if second.opened.Load() != 2 {
		t.Errorf("made %d times, want again after the eviction", second.opened.Load())
	}
	huge := newStored(t, noise(bound+1))
	if _, err := s.Open(t.Context(), huge.digest(), encodings.Gzip, huge.open); !errors.Is(err, cas.ErrFull) {
		t.Errorf("got %v, want ErrFull", err)
	}
	if s.Usage() > bound {
		t.Errorf("got %d bytes after a refusal, want at most %d", s.Usage(), bound)
	}
}

func TestManyAtOnceStayWithinTheBound(t *testing.T) {
	t.Parallel()
	const bound = 300_000
	s, _ := newStore(t, bound)
	var group sync.WaitGroup
	for i := range 12 {
		b := newStored(t, noise(50_000+i))
		for _, e := range []encodings.Encoding{encodings.Plain, encodings.Gzip} {
			group.Go(func() {
				for range 5 {
					file, err := s.Open(t.Context(), b.digest(), e, b.open)
					if errors.Is(err, cas.ErrNotFound) { // evicted by the others each time
						continue
					}
					if err != nil {
						t.Error(err)
						return
					}
					readFile(t, file)
					_ = file.Close()
					if used := s.Usage(); used > bound {
						t.Errorf("got %d bytes, want at most %d", used, bound)
					}
				}
			})
		}
	}
	group.Wait()
}

func TestDamageIsNotPassedOn(t *testing.T) {
	t.Parallel()
	s, dir := newStore(t, 0)
	b, other := newStored(t, noise(100_000)), newStored(t, noise(99_999))
	good := b.packed
	cases := map[string]struct {
		packed []byte
		want   error
	}{
		"other content": {other.packed, digest.ErrMismatch},
		"no zstd":       {[]byte("not zstd"), cas.ErrCorrupt},
		"cut off":       {good[:len(good)/2], cas.ErrCorrupt},
	}
	for name, c := range cases {
		b.packed = c.packed
		for _, e := range []encodings.Encoding{encodings.Plain, encodings.Gzip} {
			if _, err := s.Open(t.Context(), b.digest(), e, b.open); !errors.Is(err, c.want) {
				t.Errorf("%s, %s: got %v, want %v", name, e, err, c.want)
			}
		}
	}
	if left := files(t, dir); len(left) != 0 || s.Usage() != 0 {
		t.Errorf("got %v and %d bytes, want nothing left", left, s.Usage())
	}
	b.packed = good
	if got := read(t, s, b, encodings.Plain); !bytes.Equal(got, b.content) {
		t.Error("got other bytes once the bundle was mended")
	}
}

func TestFolderIsEmptiedAndMayVanish(t *testing.T) {
	t.Parallel()
	s, dir := newStore(t, 0)
	b := newStored(t, "content")
	read(t, s, b, encodings.Gzip)
	for _, name := range files(t, dir) {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if got := unzip(t, read(t, s, b, encodings.Gzip)); !bytes.Equal(got, b.content) {
		t.Error("got other bytes after somebody cleared the folder")
	}
	if _, err := encodings.Open(encodings.Config{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	if left := files(t, dir); len(left) != 0 {
		t.Errorf("got %v after a restart, want an empty folder", left)
	}
}
