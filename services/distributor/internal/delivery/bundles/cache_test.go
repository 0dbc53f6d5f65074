// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package bundles_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"github.com/leatdev/leat/internal/contract/cas"
	"github.com/leatdev/leat/internal/contract/cas/casdisk"
	"github.com/leatdev/leat/internal/contract/cas/casmem"
	"github.com/leatdev/leat/internal/contract/cas/castest"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/services/distributor/internal/delivery/bundles"
	"github.com/leatdev/leat/services/distributor/internal/delivery/plan"
)

// origin hands out the test's bytes, and counts.
type origin struct {
	download func(ctx context.Context, bundle plan.Bundle) (io.Reader, error)

	mu                   sync.Mutex
	total, running, most int
}

// Download implements bundles.Upstream.
func (u *origin) Download(ctx context.Context, bundle plan.Bundle) (io.ReadCloser, error) {
	u.mu.Lock()
	u.total++
	u.running++
	u.most = max(u.most, u.running)
	u.mu.Unlock()
	r, err := u.download(ctx, bundle)
	if err != nil {
		u.closed()
		return nil, err
	}
	return closer{r, u.closed}, nil
}

func (u *origin) closed() {
	u.mu.Lock()
	u.running--
	u.mu.Unlock()
}

func (u *origin) counts() (total, running, most int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.total, u.running, u.most
}

// closer calls back when it is closed.
type closer struct {
	io.Reader

	close func()
}

// Close implements io.Closer.
func (c closer) Close() error {
	c.close()
	return nil
}

// item is a bundle and its bytes.
type item struct {
	plan.Bundle

	content, stored []byte
}

func newItem(t *testing.T, seed uint64, size int) item {
	t.Helper()
	content := castest.Noise(seed, size)
	return item{plan.Bundle{Digest: digest.FromBytes(content)}, content, castest.Zstd(t, content)}
}

// gate lets the first bytes of an item pass, and the rest, or an error, when it is opened.
type gate struct {
	open chan struct{}
	rest io.Reader
}

func newGate(rest io.Reader) *gate {
	return &gate{open: make(chan struct{}), rest: rest}
}

// Read implements io.Reader.
func (g *gate) Read(p []byte) (int, error) {
	<-g.open
	return g.rest.Read(p)
}

func newCache(t *testing.T, store cas.Store, u *origin) *bundles.Cache {
	t.Helper()
	cache, err := bundles.NewCache(store, u, telemetry.Noop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cache.Close)
	return cache
}

// read reads a bundle, whole or growing, and closes it.
func read(content bundles.Content) ([]byte, error) {
	defer func() { _ = content.Close() }()
	if content.Blob != nil {
		return io.ReadAll(content.Blob)
	}
	return io.ReadAll(content.Growing)
}

// TestManyCallersOneDownload misses one bundle many times at once, in both ways, and with a first
// caller that gives up.
func TestManyCallersOneDownload(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		want := newItem(t, 1, 1<<20)
		gate := newGate(bytes.NewReader(want.stored[300<<10:]))
		u := &origin{download: func(context.Context, plan.Bundle) (io.Reader, error) {
			return io.MultiReader(bytes.NewReader(want.stored[:300<<10]), gate), nil
		}}
		cache := newCache(t, casmem.New(casmem.Config{}), u)
		ctx, cancel := context.WithCancelCause(t.Context())
		gone, first := errors.New("gone"), make(chan error)
		go func() {
			_, err := cache.Open(ctx, want.Bundle)
			first <- err
		}()
		synctest.Wait()
		cancel(gone)
		if err := <-first; !errors.Is(err, gone) {
			t.Errorf("a caller that gives up: got %v, want its own cause", err)
		}
		var callers sync.WaitGroup
		for range 20 {
			callers.Go(func() {
				blob, err := cache.Open(t.Context(), want.Bundle)
				if err != nil {
					t.Errorf("open: %v", err)
					return
				}
				if got, err := read(bundles.Content{Blob: blob}); err != nil || !bytes.Equal(got, want.stored) {
					t.Errorf("open: got %d bytes and %v, want all %d", len(got), err, len(want.stored))
				}
			})
			callers.Go(func() {
				content, err := cache.Stream(t.Context(), want.Bundle)
				if err != nil || content.Growing == nil {
					t.Errorf("stream: got %+v and %v, want what is growing", content, err)
					return
				}
				if got, err := read(content); err != nil || !bytes.Equal(got, want.stored) {
					t.Errorf("stream: got %d bytes and %v, want all %d", len(got), err, len(want.stored))
				}
			})
		}
		synctest.Wait()
		close(gate.open)
		callers.Wait()
		if content, err := cache.Stream(t.Context(), want.Bundle); err != nil || content.Blob == nil {
			t.Errorf("stream of what is there: got %+v and %v, want the blob", content, err)
		}
		if total, running, _ := u.counts(); total != 1 || running != 0 {
			t.Errorf("downloads: got %d, %d of them open, want one and that closed", total, running)
		}
	})
}

// TestStreamsWhileItFills reads the first bytes of a bundle before its last ones have been sent.
func TestStreamsWhileItFills(t *testing.T) {
	t.Parallel()
	want := newItem(t, 1, 1<<20)
	gate := newGate(bytes.NewReader(want.stored[500<<10:]))
	u := &origin{download: func(context.Context, plan.Bundle) (io.Reader, error) {
		return io.MultiReader(bytes.NewReader(want.stored[:500<<10]), gate), nil
	}}
	store, err := casdisk.Open(casdisk.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	content, err := newCache(t, store, u).Stream(t.Context(), want.Bundle)
	if err != nil || content.Growing == nil {
		t.Fatalf("got %+v and %v, want what is growing", content, err)
	}
	head := make([]byte, 400<<10)
	if _, err := io.ReadFull(content.Growing, head); err != nil {
		t.Fatal(err)
	}
	close(gate.open)
	rest, err := read(content)
	if got := append(head, rest...); err != nil || !bytes.Equal(got, want.stored) {
		t.Errorf("got %d bytes and %v, want all %d", len(got), err, len(want.stored))
	}
}

// TestFailedFills lets downloads fail early, late, and with wrong bytes. No reader gets to the end,
// and the next one succeeds.
func TestFailedFills(t *testing.T) {
	t.Parallel()
	large, small, other := newItem(t, 1, 1<<20), newItem(t, 2, 1000), newItem(t, 3, 1<<20)
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		wanted item
		source func() (io.Reader, error)
		err    error
		early  bool // whether the error comes before any byte
	}{
		"no download":     {large, func() (io.Reader, error) { return nil, broken }, broken, true},
		"broken at once":  {large, func() (io.Reader, error) { return iotest.ErrReader(broken), nil }, broken, true},
		"small and wrong": {small, func() (io.Reader, error) { return bytes.NewReader(castest.Zstd(t, []byte("x"))), nil }, digest.ErrMismatch, true},
		"broken half way": {large, func() (io.Reader, error) {
			return io.MultiReader(bytes.NewReader(large.stored[:500<<10]), iotest.ErrReader(broken)), nil
		}, broken, false},
		"other content": {large, func() (io.Reader, error) { return bytes.NewReader(other.stored), nil }, digest.ErrMismatch, false},
		"cut off":       {large, func() (io.Reader, error) { return bytes.NewReader(large.stored[:900<<10]), nil }, cas.ErrCorrupt, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mended := false
			u := &origin{download: func(context.Context, plan.Bundle) (io.Reader, error) {
				if mended {
					return bytes.NewReader(test.wanted.stored), nil
				}
				return test.source()
			}}
			cache := newCache(t, casmem.New(casmem.Config{}), u)
			if _, err := cache.Open(t.Context(), test.wanted.Bundle); !errors.Is(err, test.err) {
				t.Errorf("open: got %v, want %v", err, test.err)
			}
			content, err := cache.Stream(t.Context(), test.wanted.Bundle)
			if test.early && err == nil {
				t.Errorf("stream: got %+v, want an error before any byte", content)
			}
			if err == nil {
				var got []byte
				got, err = read(content)
				if len(got) >= len(test.wanted.stored) {
					t.Errorf("stream: got %d bytes, want the last ones held back", len(got))
				}
			}
			if !errors.Is(err, test.err) {
				t.Errorf("stream: got %v, want %v", err, test.err)
			}
			mended = true
			content, err = cache.Stream(t.Context(), test.wanted.Bundle)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := read(content); err != nil || !bytes.Equal(got, test.wanted.stored) {
				t.Errorf("once the upstream mended: got %d bytes and %v, want all %d", len(got), err, len(test.wanted.stored))
			}
		})
	}
}

// TestFillsAreBounded misses more bundles than may be filled at once.
func TestFillsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const many, most = 40, 16
		items := make(map[digest.Digest]item)
		for n := range many {
			one := newItem(t, uint64(n), 1000)
			items[one.Digest] = one
		}
		open := make(chan struct{})
		u := &origin{download: func(_ context.Context, bundle plan.Bundle) (io.Reader, error) {
			return &gate{open: open, rest: bytes.NewReader(items[bundle.Digest].stored)}, nil
		}}
		cache := newCache(t, casmem.New(casmem.Config{}), u)
		var callers sync.WaitGroup
		for _, one := range items {
			callers.Go(func() {
				content, err := cache.Stream(t.Context(), one.Bundle)
				if err != nil {
					t.Errorf("stream: %v", err)
					return
				}
				if got, err := read(content); err != nil || !bytes.Equal(got, one.stored) {
					t.Errorf("stream: got %d bytes and %v, want %d", len(got), err, len(one.stored))
				}
			})
		}
		synctest.Wait()
		if _, running, _ := u.counts(); running != most {
			t.Errorf("downloads at once: got %d, want %d", running, most)
		}
		close(open)
		callers.Wait()
		if total, _, most := u.counts(); total != many || most != 16 {
			t.Errorf("downloads: got %d, at most %d at once, want %d and 16", total, most, many)
		}
	})
}

func TestCloseEndsFills(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		want := newItem(t, 1, 1<<20)
		u := &origin{download: func(ctx context.Context, _ plan.Bundle) (io.Reader, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}}
		cache := newCache(t, casmem.New(casmem.Config{}), u)
		opened := make(chan error)
		go func() {
			_, err := cache.Open(t.Context(), want.Bundle)
			opened <- err
		}()
		synctest.Wait()
		go cache.Close()
		if err := <-opened; err == nil {
			t.Error("got a bundle, want the fill ended")
		}
		cache.Close()
		if _, err := cache.Stream(t.Context(), want.Bundle); err == nil {
			t.Error("got a bundle from a closed cache, want an error")
		}
		if total, running, _ := u.counts(); total != 1 || running != 0 {
			t.Errorf("downloads: got %d, %d of them open, want one and that ended", total, running)
		}
	})
}

// TestRefetch loses a bundle that was asked for, and one that never was.
func TestRefetch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		want := newItem(t, 1, 1000)
		u := &origin{download: func(context.Context, plan.Bundle) (io.Reader, error) { return bytes.NewReader(want.stored), nil }}
		store := casmem.New(casmem.Config{})
		cache := newCache(t, store, u)
		blob, err := cache.Open(t.Context(), want.Bundle)
		if err != nil {
			t.Fatal(err)
		}
		_ = blob.Close()
		if err := store.Delete(t.Context(), want.Digest); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second time it is there
			cache.Refetch(t.Context(), want.Digest)
			cache.Refetch(t.Context(), digest.FromBytes([]byte("never asked for")))
			synctest.Wait()
			castest.Check(t, store, want.content)
		}
		if total, _, _ := u.counts(); total != 2 {
			t.Errorf("downloads: got %d, want the one lost bundle fetched again", total)
		}
	})
}
