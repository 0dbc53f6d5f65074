// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package castest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/leatdev/leat/internal/contract/cas"
	"github.com/leatdev/leat/internal/contract/digest"
)

// Noise returns n incompressible bytes.
func Noise(seed uint64, n int) []byte {
	content := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)}).Read(content)
	return content
}

// gated is a source that ends where the test wants, until the test allows more.
type gated struct {
	bytes []byte
	pass  chan int   // how many more bytes may be read
	end   chan error // once all have been read
	left  int
}

func newGated(stored []byte) *gated {
	return &gated{bytes: stored, pass: make(chan int), end: make(chan error, 1)}
}

func (g *gated) Read(p []byte) (int, error) {
	if len(g.bytes) == 0 {
		return 0, <-g.end
	}
	if g.left == 0 {
		g.left = <-g.pass
	}
	n := copy(p[:min(len(p), g.left)], g.bytes)
	g.bytes = g.bytes[n:]
	g.left -= n
	return n, nil
}

// filling begins to store content from a gated source.
func filling(t *testing.T, store cas.Store, want digest.Digest, stored []byte) (source *gated, draft *cas.Draft, wait func() error) {
	t.Helper()
	source, draft = newGated(stored), store.Begin(want)
	filled := make(chan error, 1)
	go func() {
		_, err := draft.Fill(t.Context(), source)
		filled <- err
	}()
	return source, draft, func() error { return <-filled }
}

// follow has many readers read a growing blob from its beginning. They see the last bytes only when
// it is stored.
func follow(t *testing.T, store cas.Store) {
	content := Noise(1, 1<<20)
	stored := Zstd(t, content)
	source, draft, filled := filling(t, store, digest.FromBytes(content), stored)
	first := draft.Follow(t.Context())
	defer first.Close()
	source.pass <- len(stored) / 2
	if stored, err := draft.Ready(t.Context()); stored || err != nil || draft.Ended() {
		t.Errorf("half way: got stored %t and %v, want something to read", stored, err)
	}
	half := make([]byte, len(stored)/4)
	if _, err := io.ReadFull(first, half); err != nil || !bytes.Equal(half, stored[:len(half)]) {
		t.Errorf("read half way: got %v, want the first bytes", err)
	}
	CheckAbsent(t, store, digest.FromBytes(content))
	var readers sync.WaitGroup
	for range 4 {
		late := draft.Follow(t.Context())
		readers.Go(func() {
			defer late.Close()
			if got, err := io.ReadAll(late); err != nil || !bytes.Equal(got, stored) {
				t.Errorf("follow from half way on: got %d bytes and %v, want all %d", len(got), err, len(stored))
			}
		})
	}
	source.pass <- len(stored)
	before := make([]byte, len(stored)-len(half)-cas.HoldBack)
	if _, err := io.ReadFull(first, before); err != nil {
		t.Errorf("read up to what is held back: %v", err)
	}
	if got := len(readable(t, draft)); got != len(stored)-cas.HoldBack {
		t.Errorf("before the end: got %d of %d bytes, want all but %d", got, len(stored), cas.HoldBack)
	}
	source.end <- io.EOF
	if err := filled(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(first); err != nil || !bytes.Equal(rest, stored[len(stored)-cas.HoldBack:]) {
		t.Errorf("read to the end: got %d bytes and %v, want the held-back bytes", len(rest), err)
	}
	readers.Wait()
	if stored, err := draft.Ready(t.Context()); !stored || err != nil || !draft.Ended() {
		t.Errorf("at the end: got stored %t and %v, want it stored", stored, err)
	}
	Check(t, store, content)
}

// readable returns what a draft's readers can read at this moment.
func readable(t *testing.T, draft *cas.Draft) []byte {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	reader := draft.Follow(ctx)
	defer reader.Close()
	got, err := io.ReadAll(reader)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("read the available bytes: got %v, want to wait for more", err)
	}
	return got
}

// followFailure follows a blob with wrong bytes. No reader may reach the end.
func followFailure(t *testing.T, store cas.Store) {
	content := Noise(2, 1<<20)
	stored := Zstd(t, content)
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		want digest.Digest
		end  error
		err  error
	}{
		"other content": {digest.FromBytes([]byte("else")), io.EOF, digest.ErrMismatch},
		"broken source": {digest.FromBytes(content), broken, broken},
	} {
		source, draft, filled := filling(t, store, test.want, stored)
		reader := draft.Follow(t.Context())
		source.pass <- len(stored)
		source.end <- test.end
		got, err := io.ReadAll(reader)
		if !errors.Is(err, test.err) || len(got) > len(stored)-cas.HoldBack {
			t.Errorf("%s: got %d of %d bytes and %v, want fewer and %v", name, len(got), len(stored), err, test.err)
		}
		if err := filled(); !errors.Is(err, test.err) {
			t.Errorf("%s: got %v, want %v", name, err, test.err)
		}
		if stored, err := draft.Ready(t.Context()); stored || !errors.Is(err, test.err) {
			t.Errorf("%s: got stored %t and %v, want %v", name, stored, err, test.err)
		}
		_ = reader.Close()
		CheckAbsent(t, store, test.want)
	}
	checkEmpty(t, store)
	given := store.Begin(digest.FromBytes(content))
	given.Fail(broken)
	if _, err := given.Ready(t.Context()); !errors.Is(err, broken) || !given.Ended() {
		t.Errorf("a draft given up: got %v, want its error", err)
	}
}

func followCancelled(t *testing.T, store cas.Store) {
	content := Noise(3, 1<<20)
	stored := Zstd(t, content)
	source, draft, filled := filling(t, store, digest.FromBytes(content), stored)
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	reader := draft.Follow(ctx)
	cancel(gone)
	if _, err := io.ReadAll(reader); !errors.Is(err, gone) {
		t.Errorf("follow with a context that ends: got %v, want its cause", err)
	}
	if _, err := draft.Ready(ctx); !errors.Is(err, gone) {
		t.Errorf("wait with a context that ends: got %v, want its cause", err)
	}
	for range 2 {
		if err := reader.Close(); err != nil {
			t.Errorf("close: got %v, want nil", err)
		}
	}
	source.pass <- len(stored)
	source.end <- io.EOF
	if err := filled(); err != nil { // one reader's context is not the draft's
		t.Error(err)
	}
	Check(t, store, content)
}

// smallDraft waits for a blob that is held back entirely.
func smallDraft(t *testing.T, store cas.Store) {
	content := []byte("content")
	stored := Zstd(t, content)
	source, draft, filled := filling(t, store, digest.FromBytes(content), stored)
	reader := draft.Follow(t.Context())
	source.pass <- len(stored)
	if got := readable(t, draft); len(got) != 0 {
		t.Errorf("got %d bytes of a small draft, want them held back", len(got))
	}
	source.end <- io.EOF
	if stored, err := draft.Ready(t.Context()); !stored || err != nil {
		t.Errorf("got stored %t and %v, want to have waited until it is stored", stored, err)
	}
	if got, err := io.ReadAll(reader); err != nil || !bytes.Equal(got, stored) {
		t.Errorf("follow: got %x and %v, want %x", got, err, stored)
	}
	_ = reader.Close()
	if err := filled(); err != nil {
		t.Error(err)
	}
	Check(t, store, content)
}

// fillReplaces fills a draft of a blob that the store already has.
func fillReplaces(t *testing.T, store cas.Store) {
	content := Noise(4, 1000)
	d := Put(t, store, content)
	old, err := store.Open(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	other := append(Zstd(t, content[:10]), Zstd(t, content[10:])...)
	want := infoOf(content, other)
	if info, err := store.Begin(d).Fill(t.Context(), bytes.NewReader(other)); err != nil || info != want {
		t.Errorf("fill: got %+v, %v, want %+v", info, err, want)
	}
	if info, err := store.Stat(t.Context(), d); err != nil || info != want {
		t.Errorf("stat: got %+v, %v, want %+v", info, err, want)
	}
	if usage, err := store.Usage(t.Context()); err != nil || usage.Blobs != 1 || usage.Bytes != want.StoredSize {
		t.Errorf("usage: got %+v, %v, want the one blob", usage, err)
	}
	Check(t, store, content)
	checkBlob(t, old, content)
}
