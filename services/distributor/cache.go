// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor

import (
	"context"
	"fmt"
	"path/filepath"

	"go.opentelemetry.io/otel/metric"

	"github.com/leatdev/leat/internal/contract/cas"
	"github.com/leatdev/leat/internal/contract/cas/casdisk"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/runtime/instrument"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/services/distributor/internal/delivery/bundles"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
)

// openDisk opens the store of the bundle cache, which keeps what plans name.
func openDisk(cfg Config, view *fleet.View, tel *telemetry.Telemetry) (*casdisk.Store, error) {
	hooks, err := countDisk(tel.Meter(scope))
	if err != nil {
		return nil, err
	}
	disk, err := casdisk.Open(casdisk.Config{
		Dir: filepath.Join(cfg.DataDir, "bundles"), MaxBytes: int64(cfg.BundleCache), Pinned: view.Pinned, Logger: tel.Logger(),
		Hooks: hooks,
	})
	if err != nil {
		return nil, fmt.Errorf("open bundle cache: %w", err)
	}
	return disk, nil
}

// countDisk counts what the store does by itself.
func countDisk(meter metric.Meter) (casdisk.Hooks, error) {
	set := instrument.New(meter)
	evicted := set.Int64Counter("leat.cas.evicted", "{blob}", "Bundles removed from the node's disk to make room.")
	corrupt := set.Int64Counter("leat.cas.corrupt", "{blob}", "Bundles removed from the node's disk because their bytes were damaged.")
	scrubbed := set.Int64Counter("leat.cas.scrubbed", "{blob}", "Bundles on the node's disk that were read again and found right.")
	add := func(counter metric.Int64Counter) { counter.Add(context.Background(), 1) }
	return casdisk.Hooks{
		Evicted:  func(cas.Info) { add(evicted) },
		Corrupt:  func(digest.Digest, error) { add(corrupt) },
		Scrubbed: func(cas.Info) { add(scrubbed) },
	}, set.Err()
}

// keepDisk lets the store keep house, and fetches again what it found damaged while a plan names
// it.
func keepDisk(ctx context.Context, disk *casdisk.Store, cache *bundles.Cache, view *fleet.View) error {
	return disk.Run(ctx, func(d digest.Digest) {
		if view.Pinned(d) {
			cache.Refetch(ctx, d)
		}
	})
}
