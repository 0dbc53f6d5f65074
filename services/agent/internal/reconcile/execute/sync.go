// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package execute

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/order"
)

// Sync applies a service. Errors include *Failures, *HeldPrune and the errors of rendering; if ctx
// ended, the error is its cause or wraps it.
func (x *Executor) Sync(ctx context.Context, job Job) (Outcome, error) {
	account, cluster, err := x.as(job.Service.Spec)
	r := x.newRun(job, account, cluster)
	if err != nil {
		return r.outcome(), err
	}
	s := newStager(r)
	done := completion{r}
	err = r.take(ctx, append(preparation(r), []step{
		{"keep agent", r.keepAgent},
		// Objects that other services have taken over leave the inventory even if the rest of the
		// run fails, because those services rely on it.
		{"create namespace", s.applier.createNamespace},
		{"drop transferred objects", handover{r}.dropTransferred},
		{"keep skipped objects", func(ctx context.Context) error { return r.keepSkipped(ctx, &s.reached.desired) }},
		{"begin hooks", s.hooks.begin},
		// Nothing is deleted before everything is applied: if a service moves from one object to
		// another, both exist for a while, and never none.
		{"apply", func(ctx context.Context) error {
			return s.applyPhases(ctx, order.Foundation, order.PreSync, order.Sync)
		}},
		{"prune", func(ctx context.Context) error {
			return (&pruner{r: r, desired: s.reached.desired, created: s.reached.created}).prune(ctx)
		}},
		{"finish", func(ctx context.Context) error { return s.applyPhases(ctx, order.PostSync) }},
		{"sweep hooks", s.hooks.sweep},
		// From here on only the record changes. It is stored once, with all changes.
		{"expect tests", done.expectTests},
		{"record entry", done.recordEntry},
		{"record", done.recordSuccess},
	}...))
	err = r.salvage(ctx, err)
	return r.outcome(), err
}

// Verify compares the bundles of a service with their digests. It replaces Sync if a run would make
// the same objects from the same bundles, and each object is in the desired state.
func (x *Executor) Verify(ctx context.Context, job Job) (Outcome, error) {
	if _, err := x.account(job.Service.Spec); err != nil {
		return Outcome{Record: job.Record, Timings: job.Timings}, err // the lock came after the service
	}
	return Outcome{Record: job.Record, Timings: job.Timings, Spent: Spent{Kept: job.Record.Objects.Len()}}, x.params.Renderer.Verify(ctx, job.Service)
}

// completion records that everything was applied.
type completion struct{ r *run }

// expectTests records that the tests must run for the applied change.
func (c completion) expectTests(ctx context.Context) error {
	r := c.r
	if !r.IsChange && !r.IsRequested {
		return nil
	}
	tests, run := inventory.Tests{Objects: r.record.Tests.Objects}, rand.Text()
	for i, t := range r.manifests.Tests {
		o, err := completeTest(ctx, r.cluster, r.Service, t, run, i)
		if isFatal(ctx, err) {
			return err
		}
		if err == nil && !r.Service.Spec.HasTestsDisabled() {
			tests = tests.With(inventory.RefOf(o))
		}
	}
	if len(tests.Objects) > 0 { // possibly only objects to delete
		tests.Run, tests.Due = run, true
	}
	r.record.Tests = tests
	return nil
}

// recordEntry records the applied entry of the plan, for a later process.
func (c completion) recordEntry(context.Context) error {
	r := c.r
	if !r.IsChange && len(r.record.Entry) > 0 {
		return nil
	}
	entry, err := json.Marshal(r.Service)
	if err != nil {
		return fmt.Errorf("encode entry: %w", err)
	}
	r.record.Entry = entry
	return nil
}

// recordSuccess records that everything was applied. A run without a change or a request does not
// change the record.
func (c completion) recordSuccess(ctx context.Context) error {
	r := c.r
	now, record := time.Now(), &r.record
	applied := r.Service.Inputs()
	applied.At, applied.Took, applied.First = now, now.Sub(r.Arrived), record.Applied.Installs(applied)
	r.Timings.Apply = now.Sub(r.rendered) - r.waited
	if applied.SameInputs(record.Applied) {
		applied.Took = record.Applied.Took // people look for the duration of the change
		if !r.IsChange && !r.IsRequested {
			applied = record.Applied
		}
	}
	record.Applied, record.Base, record.Guarded, record.Touched = applied, record.Objects.Len(), "", false
	record.resetCount()
	if err := r.save(ctx); err != nil {
		return err
	}
	level := slog.LevelDebug // a run without a change is not worth a line
	if r.IsChange || r.IsRequested || r.applied.Load() > 0 {
		level = slog.LevelInfo
	}
	r.log(ctx, level, "service applied", slog.Int("objects", record.Objects.Len()),
		slog.Int("written", int(r.applied.Load())), slog.Duration("took", now.Sub(r.started)))
	return nil
}
