// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"

	"github.com/leatdev/leat/internal/backoff"
	"github.com/leatdev/leat/internal/bundle"
	"github.com/leatdev/leat/internal/cas"
	"github.com/leatdev/leat/internal/digest"
	"github.com/leatdev/leat/internal/telemetry"
	"github.com/leatdev/leat/services/agent/internal/manifest"
)

const (
	partialDir = "partial"
	// downloadTimeout bounds one download, all its attempts included.
	downloadTimeout = 5 * time.Minute
	// partialMaxAge is when what is left of a download is not worth going on with.
	partialMaxAge = 24 * time.Hour
	// maxPartials bounds how many there are, well above how many are worked on at once.
	maxPartials = 64
	// maxRebuilds bounds how many bundles are made of deltas at once: each holds some 40 MiB.
	maxRebuilds = 2
	// defaultRecheck is how old the last look at stored bytes may be: services are refreshed every two hours, give or take
	// a quarter, and each refresh is to look.
	defaultRecheck = time.Hour
)

// BundleParams are what OpenBundles needs.
type BundleParams struct {
	// Dir is where downloads are kept until they are complete.
	Dir string
	// BaseURL is the hub's.
	BaseURL string
	// HTTP sends requests with the agent's token.
	HTTP  *http.Client
	Store cas.Store
	// Yield is called when the store is full, and may make room by giving up what it pinned. Nil: there is nothing to give up.
	Yield     func()
	Telemetry *telemetry.Telemetry
	// Retry spaces attempts of one download. Zero: four attempts, 200 ms apart and growing.
	Retry backoff.Policy
	// Recheck is how long a bundle is read from disk before its bytes are compared with its digest again. Zero: 1 h.
	Recheck time.Duration
}

// Bundles downloads content and keeps it, verified. It is safe for concurrent use.
type Bundles struct {
	params  BundleParams
	logger  *slog.Logger
	metrics bundleMetrics
	flight  singleflight.Group
	slots   *semaphore.Weighted // of rebuilds

	mu      sync.Mutex
	checked map[digest.Digest]time.Time // when the stored bytes were last known to be right
}

var _ manifest.Bundles = (*Bundles)(nil)

// OpenBundles makes the folder for downloads, and removes what is left of old ones.
func OpenBundles(p BundleParams) (*Bundles, error) {
	p.Dir = filepath.Join(p.Dir, partialDir)
	if err := os.MkdirAll(p.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make folder for downloads: %w", err)
	}
	if p.Retry == (backoff.Policy{}) {
		p.Retry = backoff.Policy{MaxAttempts: 4}
	}
	if p.Recheck <= 0 {
		p.Recheck = defaultRecheck
	}
	if err := removeOld(p.Dir); err != nil {
		return nil, err
	}
	metrics, err := newBundleMetrics(p.Telemetry)
	if err != nil {
		return nil, err
	}
	return &Bundles{
		params: p, logger: p.Telemetry.Logger(), metrics: metrics, slots: semaphore.NewWeighted(maxRebuilds),
		checked: map[digest.Digest]time.Time{},
	}, nil
}

// removeOld removes what nobody is likely to go on with.
func removeOld(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("list downloads: %w", err)
	}
	var found []os.FileInfo
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil { // others are gone by now
			found = append(found, info)
		}
	}
	slices.SortFunc(found, func(a, b os.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	for i, info := range found {
		if i < maxPartials && time.Since(info.ModTime()) <= partialMaxAge {
			continue
		}
		if err := os.Remove(filepath.Join(dir, info.Name())); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove old download: %w", err)
		}
	}
	return nil
}

// Open implements manifest.Bundles. Where the base is on disk, it asks the hub for the difference only.
func (b *Bundles) Open(ctx context.Context, d, base digest.Digest) (io.ReadCloser, error) {
	err := b.recheck(ctx, d)
	if errors.Is(err, cas.ErrNotFound) {
		err = b.fetch(ctx, d, base)
	}
	if err != nil {
		return nil, err
	}
	return b.read(ctx, d)
}

// read opens a bundle that is on disk.
func (b *Bundles) read(ctx context.Context, d digest.Digest) (io.ReadCloser, error) {
	blob, err := b.params.Store.Open(ctx, d)
	if err != nil {
		return nil, fmt.Errorf("open bundle: %w", err)
	}
	content, err := bundle.Decompress(blob, bundle.DefaultLimits().Bytes)
	if err != nil {
		return nil, errors.Join(err, blob.Close())
	}
	return &openBundle{ReadCloser: content, blob: blob}, nil
}

// openBundle closes both layers.
type openBundle struct {
	io.ReadCloser
	blob io.Closer
}

func (o *openBundle) Close() error {
	return errors.Join(o.ReadCloser.Close(), o.blob.Close())
}

// recheck compares stored bytes with their digest where that was long ago. Damaged ones are dropped, and cas.ErrNotFound is the
// error as if they had never been there.
func (b *Bundles) recheck(ctx context.Context, d digest.Digest) error {
	blob, err := b.params.Store.Open(ctx, d)
	if err != nil {
		return fmt.Errorf("open bundle: %w", err)
	}
	defer func() { _ = blob.Close() }()
	if !b.due(ctx, d) {
		return nil
	}
	_, err = cas.Check(ctx, io.Discard, blob, d, bundle.DefaultLimits().Bytes)
	if err == nil {
		b.remember(d)
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	b.logger.WarnContext(ctx, "stored bundle is damaged, downloading it again",
		slog.String(telemetry.KeyDigest, d.String()), slog.Any("error", err))
	b.metrics.count(ctx, resultDamaged)
	return errors.Join(cas.ErrNotFound, b.params.Store.Delete(ctx, d))
}

// due tells whether it is time to look at a bundle's bytes. The first time is not: a store verifies what an earlier process left.
func (b *Bundles) due(ctx context.Context, d digest.Digest) bool {
	b.mu.Lock()
	at, known := b.checked[d]
	b.mu.Unlock()
	if !known {
		b.remember(d)
		b.forgetEvicted(ctx)
	}
	return known && time.Since(at) >= b.params.Recheck
}

func (b *Bundles) remember(d digest.Digest) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.checked[d] = time.Now()
}

// forgetEvicted keeps the memory of checks as small as the store.
func (b *Bundles) forgetEvicted(ctx context.Context) {
	usage, err := b.params.Store.Usage(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil || len(b.checked) <= 2*usage.Blobs {
		return
	}
	for d := range b.checked {
		if _, err := b.params.Store.Stat(ctx, d); errors.Is(err, cas.ErrNotFound) {
			delete(b.checked, d)
		}
	}
}

// fetch downloads a bundle into the store. The download is shared and outlives the caller that began it.
func (b *Bundles) fetch(ctx context.Context, d, base digest.Digest) error {
	done := b.flight.DoChan(d.Hex(), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), downloadTimeout)
		defer cancel()
		if err := removeOld(b.params.Dir); err != nil {
			return nil, err
		}
		return nil, backoff.Retry(ctx, b.params.Retry, func(ctx context.Context) error { return b.download(ctx, d, base) })
	})
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case result := <-done:
		return result.Err
	}
}
