// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"cmp"
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

	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/internal/contract/cas"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/internal/kit/flight"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/services/agent/internal/manifest"
)

const (
	partialDir = "partial"
	// downloadTimeout bounds one download, including all its attempts.
	downloadTimeout = 5 * time.Minute
	// partialMaxAge is the age at which an incomplete download is no longer resumed.
	partialMaxAge = 24 * time.Hour
	// maxPartials bounds the number of incomplete downloads, well above the number of concurrent
	// ones.
	maxPartials = 64
	// maxRebuilds bounds how many bundles are rebuilt from deltas at once: each needs some 40 MiB.
	maxRebuilds = 2
	// defaultRecheck is the age at which stored bytes are verified again. Services are refreshed
	// every two hours, ±25 %, and each refresh should verify them.
	defaultRecheck = time.Hour
)

// BundleParams are the settings and collaborators of OpenBundles.
type BundleParams struct {
	// Dir is the folder for incomplete downloads.
	Dir string
	// BaseURL is the hub's base URL.
	BaseURL string
	// HTTP sends requests with the agent's token.
	HTTP  *http.Client
	Store cas.Store
	// Yield is called when the store is full. It may make room by unpinning bundles. Nil: no
	// bundles are unpinned.
	Yield     func()
	Telemetry *telemetry.Telemetry
	// Retry spaces attempts of one download. Zero: four attempts, with growing pauses from 200 ms.
	Retry backoff.Policy
	// Recheck is how long a bundle is read from disk before its bytes are compared with its digest
	// again. Zero: 1 h.
	Recheck time.Duration
}

// Bundles downloads, verifies and stores bundles. It is safe for concurrent use.
type Bundles struct {
	params  BundleParams
	logger  *slog.Logger
	metrics bundleMetrics
	fetches *flight.Group[digest.Digest, struct{}]
	slots   *semaphore.Weighted // of rebuilds

	mu      sync.Mutex
	checked map[digest.Digest]time.Time // when the stored bytes were last verified
}

var _ manifest.Bundles = (*Bundles)(nil)

// OpenBundles creates the folder for downloads, and removes old incomplete ones.
func OpenBundles(p BundleParams) (*Bundles, error) {
	p.Dir = filepath.Join(p.Dir, partialDir)
	if err := os.MkdirAll(p.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make folder for downloads: %w", err)
	}
	p.Retry, p.Recheck = cmp.Or(p.Retry, backoff.Policy{MaxAttempts: 4}), cmp.Or(p.Recheck, defaultRecheck)
	if err := removeOld(p.Dir); err != nil {
		return nil, err
	}
	metrics, err := newBundleMetrics(p.Telemetry)
	if err != nil {
		return nil, err
	}
	return &Bundles{
		params: p, logger: p.Telemetry.Logger(), metrics: metrics, slots: semaphore.NewWeighted(maxRebuilds),
		fetches: flight.New[digest.Digest, struct{}](downloadTimeout), checked: map[digest.Digest]time.Time{},
	}, nil
}

// removeOld removes downloads that are too old to be resumed.
func removeOld(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("list downloads: %w", err)
	}
	var found []os.FileInfo
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil { // files that are gone by now are skipped
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

// Open implements manifest.Bundles. If the base is on disk, it requests only the difference from
// the hub.
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

// recheck compares stored bytes with their digest if the last check is too old. It removes damaged
// ones, and returns cas.ErrNotFound as if they had never been stored.
func (b *Bundles) recheck(ctx context.Context, d digest.Digest) error {
	blob, err := b.params.Store.Open(ctx, d)
	if err != nil {
		return fmt.Errorf("open bundle: %w", err)
	}
	defer func() { _ = blob.Close() }()
	if !b.isRecheckDue(ctx, d) {
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

// isRecheckDue reports whether a bundle's bytes should be verified. The first call returns false,
// because a store verifies what an earlier process left.
func (b *Bundles) isRecheckDue(ctx context.Context, d digest.Digest) bool {
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

// forgetEvicted removes the times of checks whose bundles are no longer stored.
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

// fetch downloads a bundle into the store. Callers share the download, which outlives the caller
// that began it.
func (b *Bundles) fetch(ctx context.Context, d, base digest.Digest) error {
	_, err := b.fetches.Do(ctx, d, func(ctx context.Context) (struct{}, error) {
		if err := removeOld(b.params.Dir); err != nil {
			return struct{}{}, err
		}
		return struct{}{}, backoff.Retry(ctx, b.params.Retry, func(ctx context.Context) error { return b.download(ctx, d, base) })
	})
	return err
}
