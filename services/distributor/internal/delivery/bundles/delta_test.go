// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package bundles_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/internal/contract/cas"
	"github.com/leatdev/leat/internal/contract/cas/casmem"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/services/distributor/internal/delivery/bundles"
	"github.com/leatdev/leat/services/distributor/internal/delivery/plan"
)

// contents holds bundles, and counts how often they are opened.
type contents struct {
	cas.Store

	mu     sync.Mutex
	opened int
	err    error
	gate   chan struct{} // openings wait for it; nil: they do not
}

// Open implements bundles.Opener.
func (c *contents) Open(ctx context.Context, b plan.Bundle) (*cas.Blob, error) {
	c.mu.Lock()
	c.opened++
	err, gate := c.err, c.gate
	c.mu.Unlock()
	if gate != nil {
		<-gate
	}
	if err != nil {
		return nil, err
	}
	return c.Store.Open(ctx, b.Digest)
}

func (c *contents) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.opened
}

func newContents() *contents { return &contents{Store: casmem.New(casmem.Config{})} }

// jumble does not compress.
func jumble(n int) string {
	content := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(content)
	return string(content)
}

// add stores a bundle of one file.
func (c *contents) add(t testing.TB, content string) plan.Bundle {
	t.Helper()
	var plain, packed bytes.Buffer
	w := bundle.NewWriter(&plain, bundle.Limits{})
	err := w.WriteFile("a", false, int64(len(content)), strings.NewReader(content))
	z, err2 := bundle.Compress(&packed)
	if err := errors.Join(err, err2, w.Close()); err != nil {
		t.Fatal(err)
	}
	_, err = z.Write(plain.Bytes())
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	d := digest.FromBytes(plain.Bytes())
	if _, err := c.Put(t.Context(), d, &packed); err != nil {
		t.Fatal(err)
	}
	return plan.Bundle{Digest: d}
}

func openDeltas(t testing.TB, c bundles.Opener, maxBytes int64) (*bundles.Deltas, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "deltas")
	deltas, err := bundles.OpenDeltas(bundles.DeltaParams{Bundles: c, Dir: dir, MaxBytes: maxBytes, Telemetry: telemetry.Noop()})
	if err != nil {
		t.Fatal(err)
	}
	return deltas, dir
}

// readDelta returns a delta's bytes; nil when there is none.
func readDelta(t testing.TB, delta *bundles.Delta) []byte {
	t.Helper()
	if delta == nil {
		return nil
	}
	defer func() { _ = delta.Close() }()
	content, err := io.ReadAll(delta)
	if err != nil || int64(len(content)) != delta.Size || delta.Size >= delta.Full {
		t.Errorf("delta: got %d bytes and %v, want the %d of it, less than the bundle's %d", len(content), err, delta.Size, delta.Full)
	}
	return content
}

func files(t testing.TB, dir string) int {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func TestDeltaIsBuiltOnce(t *testing.T) {
	t.Parallel()
	c, content := newContents(), jumble(32<<10)
	from, to := c.add(t, content), c.add(t, content+"more")
	deltas, dir := openDeltas(t, c, 0)
	first := readDelta(t, deltas.Open(t.Context(), from, to))
	again := readDelta(t, deltas.Open(t.Context(), from, to))
	if len(first) == 0 || !bytes.Equal(first, again) || c.count() != 2 {
		t.Errorf("got %d and %d bytes from %d openings of bundles, want the same delta from 2", len(first), len(again), c.count())
	}
	if got := files(t, dir); got != 1 {
		t.Errorf("files: got %d, want 1", got)
	}
	other, err := bundles.OpenDeltas(bundles.DeltaParams{Bundles: c, Dir: dir, Telemetry: telemetry.Noop()})
	if err != nil || files(t, dir) != 0 {
		t.Errorf("files after a restart: got %d, %v, want none", files(t, dir), err)
	}
	if got := readDelta(t, other.Open(t.Context(), from, to)); !bytes.Equal(got, first) {
		t.Errorf("after a restart: got %d bytes, want the same delta", len(got))
	}
}

func TestNoDelta(t *testing.T) {
	t.Parallel()
	c, content := newContents(), jumble(32<<10)
	from, to := c.add(t, content), c.add(t, content+"more")
	small, unlike := c.add(t, "small"), c.add(t, strings.Repeat("nothing in common", 10)+jumble(40 << 10)[36<<10:])
	for name, pair := range map[string][2]plan.Bundle{
		"the same": {to, to}, "a small bundle": {from, small}, "nothing in common": {from, unlike},
	} {
		deltas, dir := openDeltas(t, c, 0)
		for range 2 {
			if got := readDelta(t, deltas.Open(t.Context(), pair[0], pair[1])); got != nil {
				t.Errorf("%s: got %d bytes, want no delta", name, len(got))
			}
		}
		if got := files(t, dir); got != 0 {
			t.Errorf("%s: got %d files, want none", name, got)
		}
	}
	before := c.count()
	deltas, _ := openDeltas(t, c, 0)
	for range 5 {
		deltas.Open(t.Context(), from, unlike)
	}
	if got := c.count() - before; got != 2 {
		t.Errorf("openings of bundles for a pair without a delta: got %d, want 2", got)
	}
}

// TestDeltasAreBounded keeps fewer deltas than are asked for, while some of them are being read.
func TestDeltasAreBounded(t *testing.T) {
	t.Parallel()
	c, content := newContents(), jumble(32<<10)
	from := c.add(t, content)
	const most = 4 << 10
	deltas, dir := openDeltas(t, c, most)
	var held []*bundles.Delta
	for n := range 20 {
		to := c.add(t, content+jumble(1000)+fmt.Sprint(n))
		delta := deltas.Open(t.Context(), from, to)
		if delta == nil {
			t.Fatalf("delta %d: got none", n)
		}
		held = append(held, delta)
		var used int64
		entries, _ := os.ReadDir(dir)
		for _, entry := range entries {
			info, err := entry.Info()
			if err != nil {
				t.Fatal(err)
			}
			used += info.Size()
		}
		if used > most || used == 0 {
			t.Fatalf("bytes on disk: got %d, want at most %d", used, most)
		}
	}
	for _, delta := range held {
		if len(readDelta(t, delta)) == 0 {
			t.Error("an evicted delta that is open cannot be read")
		}
	}
	big := c.add(t, content+jumble(60 << 10)[40<<10:56<<10])
	if got := readDelta(t, deltas.Open(t.Context(), from, big)); got != nil {
		t.Errorf("got a delta of %d bytes, want none beyond the bound", len(got))
	}
}

// TestLostDeltaIsBuiltAgain removes the file from under the store.
func TestLostDeltaIsBuiltAgain(t *testing.T) {
	t.Parallel()
	c, content := newContents(), jumble(32<<10)
	from, to := c.add(t, content), c.add(t, content+"more")
	deltas, dir := openDeltas(t, c, 0)
	first := readDelta(t, deltas.Open(t.Context(), from, to))
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Fatalf("files: got %v, %v, want one", entries, err)
	}
	if err := os.Remove(filepath.Join(dir, entries[0].Name())); err != nil {
		t.Fatal(err)
	}
	if got := readDelta(t, deltas.Open(t.Context(), from, to)); !bytes.Equal(got, first) {
		t.Errorf("got %d bytes, want the delta again", len(got))
	}
}

// TestPatience has bundles that take long to come: callers continue without a delta, which is there
// for later ones.
func TestPatience(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c, content := newContents(), jumble(32<<10)
	from, to := c.add(t, content), c.add(t, content+"more")
	synctest.Test(t, func(t *testing.T) {
		c.gate = make(chan struct{})
		deltas, err := bundles.OpenDeltas(bundles.DeltaParams{Bundles: c, Dir: filepath.Join(dir, "deltas"), Telemetry: telemetry.Noop()})
		if err != nil {
			t.Fatal(err)
		}
		started := time.Now()
		if got := readDelta(t, deltas.Open(t.Context(), from, to)); got != nil || time.Since(started) != 5*time.Second {
			t.Errorf("got %d bytes after %v, want none after 5 s", len(got), time.Since(started))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if got := readDelta(t, deltas.Open(ctx, from, to)); got != nil || time.Since(started) != 5*time.Second {
			t.Errorf("caller that gave up: got %d bytes after %v, want none at once", len(got), time.Since(started))
		}
		close(c.gate)
		synctest.Wait()
		if got := readDelta(t, deltas.Open(ctx, from, to)); got == nil || c.count() != 2 {
			t.Errorf("got %d bytes from %d openings, want the delta that was begun", len(got), c.count())
		}
	})
}

// TestFailureIsForgotten has bundles that cannot be had: the pair is left alone for a minute and
// then tried again.
func TestFailureIsForgotten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c, content := newContents(), jumble(32<<10)
	from, to := c.add(t, content), c.add(t, content+"more")
	synctest.Test(t, func(t *testing.T) {
		c.err = errors.New("gitcache is down")
		deltas, err := bundles.OpenDeltas(bundles.DeltaParams{Bundles: c, Dir: filepath.Join(dir, "deltas"), Telemetry: telemetry.Noop()})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if got := readDelta(t, deltas.Open(t.Context(), from, to)); got != nil || c.count() != 1 {
				t.Fatalf("got %d bytes and %d openings, want none and one", len(got), c.count())
			}
		}
		c.err = nil
		<-time.After(time.Minute + time.Second)
		if got := readDelta(t, deltas.Open(t.Context(), from, to)); got == nil {
			t.Error("got no delta after a minute, want one")
		}
	})
}
