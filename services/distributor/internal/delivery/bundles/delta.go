// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package bundles

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"golang.org/x/sync/semaphore"

	"github.com/leatdev/leat/internal/kit/flight"
	"github.com/leatdev/leat/internal/runtime/instrument"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/services/distributor/internal/delivery/plan"
)

const (
	// maxDeltaQueue bounds how many pairs are being built or wait for it. Callers that ask for
	// further ones get no delta.
	maxDeltaQueue = 256
	// deltaPatience is how long a caller waits for a delta before it gets the bundle itself.
	deltaPatience = 5 * time.Second
)

// DeltaParams are the arguments of OpenDeltas.
type DeltaParams struct {
	// Bundles has the bundles that deltas are built from.
	Bundles Opener
	// Dir is where deltas are kept. It must hold nothing else, and is emptied.
	Dir string
	// MaxBytes bounds the deltas on disk, except deltas that are being written. Zero: 512 MiB.
	MaxBytes  int64
	Telemetry *telemetry.Telemetry
}

// Deltas builds deltas between bundles and keeps them. A delta is never necessary: if anything goes
// wrong there is none, and the bundle itself is served. It is safe for concurrent use.
type Deltas struct {
	store   *deltaStore
	builder *deltaBuilder
	results metric.Int64Counter
	saved   metric.Int64Counter
	builds  *flight.Group[pair, struct{}]
	queued  atomic.Int64
}

// OpenDeltas empties the folder and returns Deltas that hold none.
func OpenDeltas(p DeltaParams) (*Deltas, error) {
	store, err := openDeltaStore(p.Dir, p.MaxBytes)
	if err != nil {
		return nil, fmt.Errorf("open deltas: %w", err)
	}
	set := instrument.New(p.Telemetry.Meter(scope))
	results := set.Int64Counter("leat.bundle.delta", "{delta}",
		"Deltas between bundles, by result: built, not smaller, failed; requests that ask for one: served, declined.")
	saved := set.Int64Counter("leat.bundle.delta.saved", "By",
		"Bytes saved by serving deltas instead of bundles.")
	if err := set.Err(); err != nil {
		return nil, err
	}
	return &Deltas{store: store, results: results, saved: saved, builder: &deltaBuilder{
		bundles: p.Bundles, store: store, tracer: p.Telemetry.Tracer(scope), logger: p.Telemetry.Logger(),
		slots: semaphore.NewWeighted(maxDeltaBuilds),
	}, builds: flight.New[pair, struct{}](deltaTimeout)}, nil
}

// Open returns the delta between two bundles. It builds it if there is none yet. The caller closes
// it. It returns nil if a delta would not be smaller, or cannot be had soon. Callers that ask for
// the same delta share the building, which continues when they give up.
func (d *Deltas) Open(ctx context.Context, from, to plan.Bundle) *Delta {
	p := pair{from.Digest, to.Digest}
	delta, known := d.store.open(p)
	if known || p.from == p.to || !d.wait(ctx, p, from, to) {
		return delta
	}
	delta, _ = d.store.open(p)
	return delta
}

// wait has a delta built, and reports whether that ended within deltaPatience.
func (d *Deltas) wait(ctx context.Context, p pair, from, to plan.Bundle) bool {
	if d.queued.Load() >= maxDeltaQueue {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, deltaPatience)
	defer cancel()
	_, err := d.builds.Do(ctx, p, func(ctx context.Context) (struct{}, error) {
		d.queued.Add(1)
		defer d.queued.Add(-1)
		d.count(ctx, d.builder.build(ctx, p, from, to))
		return struct{}{}, nil // the store knows the outcome
	})
	return err == nil
}

// Served counts an answer that was a delta, and the bytes that it was smaller than the bundle.
func (d *Deltas) Served(ctx context.Context, saved int64) {
	d.count(ctx, "served")
	d.saved.Add(ctx, saved)
}

// Declined counts a request for a delta that was answered with the bundle.
func (d *Deltas) Declined(ctx context.Context) { d.count(ctx, "declined") }

func (d *Deltas) count(ctx context.Context, result string) {
	d.results.Add(ctx, 1, metric.WithAttributes(attribute.String("leat.delta.result", result)))
}
