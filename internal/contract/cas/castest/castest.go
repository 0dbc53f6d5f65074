// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package castest is the test suite that every implementation of [cas.Store] must pass.
package castest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/internal/contract/cas"
	"github.com/leatdev/leat/internal/contract/digest"
)

// MaxContentBytes is the bound on one content that a store under test must be configured with.
const MaxContentBytes = 4 << 20

// Run tests the stores that newStore makes. Each must be empty, have room for 16 MiB, and accept
// contents of up to exactly MaxContentBytes.
func Run(t *testing.T, newStore func(t testing.TB) cas.Store) {
	t.Helper()
	for name, prove := range map[string]func(*testing.T, cas.Store){
		"put then open":                 putThenOpen,
		"seek":                          seek,
		"put again":                     putAgain,
		"absent":                        absent,
		"refused content":               refusedContent,
		"failing source":                failingSource,
		"cancelled":                     cancelled,
		"delete":                        deletion,
		"open survives delete":          openSurvivesDelete,
		"usage":                         usage,
		"everybody at once":             everybodyAtOnce,
		"same digest, other zstd":       otherCompression,
		"follow":                        follow,
		"follow a failure":              followFailure,
		"follow a cancelled one":        followCancelled,
		"small drafts are not followed": smallDraft,
		"fill takes the place":          fillReplaces,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			prove(t, newStore(t))
		})
	}
}

// Zstd compresses content the way bundles are compressed.
func Zstd(t testing.TB, content []byte) []byte {
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

// Put stores content and returns its digest; a failure ends the test.
func Put(t testing.TB, store cas.Store, content []byte) digest.Digest {
	t.Helper()
	d := digest.FromBytes(content)
	if _, err := store.Put(t.Context(), d, bytes.NewReader(Zstd(t, content))); err != nil {
		t.Fatalf("put %q: %v", shorten(content), err)
	}
	return d
}

// Check fails the test unless the store holds content and hands out zstd bytes that decompress to
// it.
func Check(t testing.TB, store cas.Store, content []byte) {
	t.Helper()
	blob, err := store.Open(t.Context(), digest.FromBytes(content))
	if err != nil {
		t.Errorf("open %q: %v", shorten(content), err)
		return
	}
	defer blob.Close()
	checkBlob(t, blob, content)
}

func checkBlob(t testing.TB, blob *cas.Blob, content []byte) {
	t.Helper()
	stored, err := io.ReadAll(blob)
	if err != nil {
		t.Errorf("read %q: %v", shorten(content), err)
		return
	}
	r, err := bundle.Decompress(bytes.NewReader(stored), int64(len(content)))
	if err != nil {
		t.Errorf("decompress %q: %v", shorten(content), err)
		return
	}
	defer r.Close()
	got, err := io.ReadAll(r)
	if err != nil || !bytes.Equal(got, content) {
		t.Errorf("content: got %q and %v, want %q", shorten(got), err, shorten(content))
	}
	want := infoOf(content, stored)
	if blob.Info != want {
		t.Errorf("info: got %+v, want %+v", blob.Info, want)
	}
}

// infoOf describes content that is stored as these bytes.
func infoOf(content, stored []byte) cas.Info {
	return cas.Info{
		Digest: digest.FromBytes(content), StoredSize: int64(len(stored)), ContentSize: int64(len(content)),
		StoredDigest: digest.FromBytes(stored),
	}
}

// CheckAbsent fails the test if the store has the blob.
func CheckAbsent(t testing.TB, store cas.Store, d digest.Digest) {
	t.Helper()
	if blob, err := store.Open(t.Context(), d); !errors.Is(err, cas.ErrNotFound) {
		t.Errorf("open %s: got %v, want ErrNotFound", d, err)
		if err == nil {
			_ = blob.Close()
		}
	}
	if _, err := store.Stat(t.Context(), d); !errors.Is(err, cas.ErrNotFound) {
		t.Errorf("stat %s: got %v, want ErrNotFound", d, err)
	}
}

func shorten(content []byte) string {
	const enough = 40
	if len(content) > enough {
		return fmt.Sprintf("%s… (%d bytes)", content[:enough], len(content))
	}
	return string(content)
}

func putThenOpen(t *testing.T, store cas.Store) {
	for _, content := range []string{"", "hello", strings.Repeat("01234567", MaxContentBytes/8)} {
		stored := Zstd(t, []byte(content))
		want := infoOf([]byte(content), stored)
		info, err := store.Put(t.Context(), want.Digest, iotest.HalfReader(bytes.NewReader(stored)))
		if err != nil || info != want {
			t.Errorf("put: got %+v, %v, want %+v", info, err, want)
		}
		if info, err := store.Stat(t.Context(), want.Digest); err != nil || info != want {
			t.Errorf("stat: got %+v, %v, want %+v", info, err, want)
		}
		Check(t, store, []byte(content))
		Check(t, store, []byte(content))
	}
}

func seek(t *testing.T, store cas.Store) {
	content := []byte("some content to seek in")
	stored := Zstd(t, content)
	blob, err := store.Open(t.Context(), Put(t, store, content))
	if err != nil {
		t.Fatal(err)
	}
	defer blob.Close()
	if end, err := blob.Seek(0, io.SeekEnd); err != nil || end != blob.StoredSize {
		t.Errorf("seek to the end: got %d, %v, want %d", end, err, blob.StoredSize)
	}
	if _, err := blob.Seek(5, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(blob); err != nil || !bytes.Equal(got, stored[5:]) {
		t.Errorf("read from byte 5: got %x, %v, want %x", got, err, stored[5:])
	}
}

func putAgain(t *testing.T, store cas.Store) {
	content := []byte("twice")
	first := Put(t, store, content)
	Put(t, store, content)
	Check(t, store, content)
	got, err := store.Usage(t.Context())
	if info, _ := store.Stat(t.Context(), first); err != nil || got.Blobs != 1 || got.Bytes != info.StoredSize {
		t.Errorf("usage: got %+v, %v, want one blob of %d bytes", got, err, info.StoredSize)
	}
}

// otherCompression stores one content from different zstd bytes. The first ones stay.
func otherCompression(t *testing.T, store cas.Store) {
	content := []byte(strings.Repeat("content ", 100))
	d := Put(t, store, content)
	before, _ := store.Stat(t.Context(), d)
	other := append(Zstd(t, content[:10]), Zstd(t, content[10:])...)
	info, err := store.Put(t.Context(), d, bytes.NewReader(other))
	if err != nil || info != before {
		t.Errorf("put of the same content in two frames: got %+v, %v, want %+v", info, err, before)
	}
	Check(t, store, content)
}

func absent(t *testing.T, store cas.Store) {
	CheckAbsent(t, store, digest.FromBytes([]byte("absent")))
	CheckAbsent(t, store, digest.Digest{})
	if err := store.Delete(t.Context(), digest.FromBytes([]byte("absent"))); err != nil {
		t.Errorf("delete of an absent blob: got %v, want nil", err)
	}
}

func refusedContent(t *testing.T, store cas.Store) {
	content := []byte(strings.Repeat("content ", 1000))
	stored := Zstd(t, content)
	flipped := bytes.Clone(stored)
	flipped[len(flipped)-2] ^= 1
	want := digest.FromBytes(content)
	for name, test := range map[string]struct {
		want   digest.Digest
		stored []byte
		err    error
	}{
		"other content": {digest.FromBytes([]byte("else")), stored, digest.ErrMismatch},
		"zero digest":   {digest.Digest{}, stored, digest.ErrMismatch},
		"not zstd":      {want, content, cas.ErrCorrupt},
		"nothing":       {want, nil, cas.ErrCorrupt},
		"cut off":       {want, stored[:len(stored)-1], cas.ErrCorrupt},
		"flipped":       {want, flipped, cas.ErrCorrupt},
		"bomb":          {want, Zstd(t, make([]byte, MaxContentBytes+1)), cas.ErrTooLarge},
	} {
		if _, err := store.Put(t.Context(), test.want, bytes.NewReader(test.stored)); !errors.Is(err, test.err) {
			t.Errorf("%s: got %v, want %v", name, err, test.err)
		}
		CheckAbsent(t, store, test.want)
	}
	checkEmpty(t, store)
	Put(t, store, content) // a refusal must not block the right bytes
	Check(t, store, content)
}

func checkEmpty(t *testing.T, store cas.Store) {
	t.Helper()
	if got, err := store.Usage(t.Context()); err != nil || got.Bytes != 0 || got.Blobs != 0 {
		t.Errorf("usage: got %+v, %v, want an empty store", got, err)
	}
}

func failingSource(t *testing.T, store cas.Store) {
	content := []byte("content")
	stored := Zstd(t, content)
	broken := errors.New("broken")
	source := io.MultiReader(bytes.NewReader(stored[:5]), iotest.ErrReader(broken))
	if _, err := store.Put(t.Context(), digest.FromBytes(content), source); !errors.Is(err, broken) {
		t.Errorf("put from a broken source: got %v, want its error", err)
	}
	CheckAbsent(t, store, digest.FromBytes(content))
	checkEmpty(t, store)
}

func cancelled(t *testing.T, store cas.Store) {
	ctx, cancel := context.WithCancel(t.Context())
	content := []byte("content")
	stored := Zstd(t, content)
	source := io.MultiReader(bytes.NewReader(stored[:5]), readerFunc(func([]byte) (int, error) {
		cancel()
		return 0, nil
	}), bytes.NewReader(stored[5:]))
	if _, err := store.Put(ctx, digest.FromBytes(content), source); !errors.Is(err, context.Canceled) {
		t.Errorf("put with a context that ends: got %v, want context.Canceled", err)
	}
	CheckAbsent(t, store, digest.FromBytes(content))
	checkEmpty(t, store)
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func deletion(t *testing.T, store cas.Store) {
	d := Put(t, store, []byte("content"))
	for range 2 {
		if err := store.Delete(t.Context(), d); err != nil {
			t.Errorf("delete: got %v, want nil", err)
		}
		CheckAbsent(t, store, d)
	}
	checkEmpty(t, store)
	Put(t, store, []byte("content"))
	Check(t, store, []byte("content"))
}

func openSurvivesDelete(t *testing.T, store cas.Store) {
	content := []byte("content")
	blob, err := store.Open(t.Context(), Put(t, store, content))
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Delete(t.Context(), blob.Digest); err != nil {
		t.Fatal(err)
	}
	checkBlob(t, blob, content)
	if err := blob.Close(); err != nil {
		t.Errorf("close: got %v, want nil", err)
	}
}

func usage(t *testing.T, store cas.Store) {
	checkEmpty(t, store)
	var want int64
	for n := range 5 {
		info, err := store.Stat(t.Context(), Put(t, store, fmt.Appendf(nil, "content %d", n)))
		if err != nil {
			t.Fatal(err)
		}
		want += info.StoredSize
	}
	got, err := store.Usage(t.Context())
	if err != nil || got.Bytes != want || got.Blobs != 5 || got.MaxBytes < got.Bytes {
		t.Errorf("usage: got %+v, %v, want 5 blobs of %d bytes in all", got, err, want)
	}
}

// everybodyAtOnce runs many writers, readers and removers on a few blobs at once. Every byte that a
// reader gets must be right.
func everybodyAtOnce(t *testing.T, store cas.Store) {
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			for round := range 20 {
				content := fmt.Appendf(nil, "content %d", (n+round)%4)
				d := digest.FromBytes(content)
				if _, err := store.Put(t.Context(), d, bytes.NewReader(Zstd(t, content))); err != nil {
					t.Errorf("put: %v", err)
				}
				blob, err := store.Open(t.Context(), d)
				if err == nil {
					checkBlob(t, blob, content)
					_ = blob.Close()
				} else if !errors.Is(err, cas.ErrNotFound) { // another goroutine may have removed it
					t.Errorf("open: %v", err)
				}
				if round%5 == 4 {
					if err := store.Delete(t.Context(), d); err != nil {
						t.Errorf("delete: %v", err)
					}
				}
			}
		})
	}
	all.Wait()
	for n := range 4 {
		content := fmt.Appendf(nil, "content %d", n)
		Put(t, store, content)
		Check(t, store, content)
	}
	if got, err := store.Usage(t.Context()); err != nil || got.Blobs != 4 {
		t.Errorf("usage: got %+v, %v, want 4 blobs", got, err)
	}
}
