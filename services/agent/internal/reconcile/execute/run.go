// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package execute

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/manifest"
	"github.com/leatdev/leat/services/agent/internal/order"
	"github.com/leatdev/leat/services/agent/internal/reconcile/follow"
	"github.com/leatdev/leat/services/agent/internal/reconcile/submit"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// errImpatient ends a wait that has taken too long.
var errImpatient = errors.New("waited too long")

// run is the state that the steps of one run share. The goroutine of the run changes it, while no
// object is being worked on; record has a lock of its own.
type run struct {
	Job

	x       *Executor
	account k8s.Account
	cluster k8s.API
	record  record
	isTrial bool // nothing will be applied

	manifests manifest.Manifests
	schedule  order.Schedule
	started   time.Time
	rendered  time.Time
	waited    time.Duration // in await
	applied   atomic.Int32  // number of applied objects
	kept      atomic.Int32  // number of objects of which nothing differed
	spent     Spent
}

// newRun returns a run that acts as the account.
func (x *Executor) newRun(job Job, account k8s.Account, cluster k8s.API) *run {
	if cluster != nil {
		cluster = sparing{API: cluster, self: x.self}
	}
	return &run{Job: job, x: x, account: account, cluster: cluster, record: record{Record: job.Record}, started: time.Now()}
}

func (r *run) outcome() Outcome {
	spent := r.spent
	spent.Applied, spent.Kept = int(r.applied.Load()), int(r.kept.Load())
	return Outcome{Record: r.record.Record, Timings: r.Timings, Spent: spent}
}

// step is one operation of a run, with its name for errors.
type step struct {
	name string
	do   func(context.Context) error
}

// take executes the steps in order. A failed step is the last.
func (r *run) take(ctx context.Context, steps []step) error {
	for _, s := range steps {
		began, waited := time.Now(), r.waited
		err := s.do(ctx)
		r.spent.spend(s.name, time.Since(began), r.waited-waited, err)
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%s: %w", s.name, context.Cause(ctx))
		}
	}
	return nil
}

// validate fails if this agent cannot reconcile the service as requested.
func (r *run) validate(context.Context) error {
	if r.Service.Refused != nil {
		return r.Service.Refused
	}
	if err := r.Rules.Err(); err != nil {
		return Refuse(err)
	}
	return nil
}

// Refuse returns the problem of a service whose policy this agent does not support. The service is
// left unchanged: the unsupported part may be what keeps something from being overwritten or
// deleted.
func Refuse(err error) *reason.Problem {
	return reason.Errorf(reason.Unimplemented,
		"the service is left as it is, because this agent does not understand its policy; upgrade the agent: spec.policy.%v", err)
}

// render turns the sources into objects, and orders them. It changes nothing in the cluster.
func (r *run) render(ctx context.Context) error {
	started, renderer := time.Now(), r.x.params.Renderer
	renderer.IsTrial = r.isTrial
	if renderer.Engine.Others != nil && r.Turn != nil {
		renderer.Engine.Others = &unslotted{renderer: renderer.Engine.Others, run: r}
	}
	var err error
	var waited atomic.Int64
	r.manifests, err = renderer.Render(render.WithWait(ctx, &waited), r.Service, r.record.Applied)
	r.rendered = time.Now()
	if r.Rendered != nil {
		r.Rendered(ctx, r.manifests, err)
	}
	r.record.AsksFacts = r.record.AsksFacts && err != nil || r.manifests.AsksFacts
	r.record.HasGenerated = r.record.HasGenerated || r.manifests.HasGenerated
	r.Timings.Download, r.Timings.RenderWait = r.manifests.Download, time.Duration(waited.Load())
	r.Timings.Render = r.rendered.Sub(started) - r.Timings.Download - r.Timings.RenderWait
	if err != nil {
		return err
	}
	r.record.Warnings = report.Warnings(r.manifests.Warnings)
	if r.IsChange || r.IsRequested {
		for _, warning := range r.manifests.Warnings {
			r.log(ctx, slog.LevelWarn, "rendered with a warning", slog.String("warning", warning))
		}
	}
	r.schedule, err = order.New(r.manifests.Objects, r.record.Applied.At.IsZero())
	return err
}

// maxWaiting bounds the total bytes of files that runs without a slot hold in memory.
const maxWaiting = 64 << 20

// unslotted renders while its run has no slot. Renders queue for the workers, and each may take the
// whole timeout: with slots, they would delay services with plain manifests. If too many bytes are
// in memory already, the run keeps its slot.
type unslotted struct {
	renderer render.Renderer
	run      *run
}

// Render implements render.Renderer.
func (u *unslotted) Render(ctx context.Context, in render.Input) (out render.Output, err error) {
	bytes, waiting := in.Files.Size(), &u.run.x.waiting
	defer waiting.Add(-bytes)
	if waiting.Add(bytes) > maxWaiting {
		return u.renderer.Render(ctx, in)
	}
	var rendered time.Time
	err = u.run.withoutSlot(ctx, func() error {
		out, err = u.renderer.Render(ctx, in)
		rendered = time.Now()
		return err
	})
	render.AddWait(ctx, time.Since(rendered)) // for the slot
	return out, err
}

// withoutSlot calls do while the run has no slot. If the run continues, it has a slot again
// afterwards. Every wait for others goes through here. A run that waits with a slot delays services
// that could work, and 16 runs that wait for each other's objects would block each other
// permanently.
func (r *run) withoutSlot(ctx context.Context, do func() error) error {
	r.Turn.Release()
	err := do()
	if !r.Turn.Take() && err == nil {
		<-ctx.Done() // the run's context
		err = context.Cause(ctx)
	}
	return err
}

// await blocks until the condition holds. Meanwhile the run has no slot, and the time does not
// count for its timeout. Error: the cause, if ctx ends before; a newer plan ends it at once.
func (r *run) await(ctx context.Context, holds func() bool) error {
	if holds() {
		return nil
	}
	return r.withoutSlot(ctx, func() error {
		began := time.Now()
		defer func() { r.waited += time.Since(began) }()
		return r.Progress.Await(ctx, holds)
	})
}

// follow follows objects that are not permanently among the service's objects. Every change of one
// makes await evaluate its condition again.
func (r *run) follow(ctx context.Context, refs []inventory.Ref) *follow.Follower {
	return follow.Start(ctx, r.cluster, refs, func(inventory.Ref, follow.Sight) { r.Progress.Wake() })
}

// store stores the record as it is.
func (r *run) store(ctx context.Context) error {
	r.record.Once = r.Objects.Once()
	if err := r.x.params.Inventories.Save(ctx, r.record.Record); err != nil {
		return fmt.Errorf("store inventory: %w", err)
	}
	r.Progress.Saved(r.record.Record)
	return nil
}

// save stores the record with the spec's wish for the service's removal.
func (r *run) save(ctx context.Context) error {
	r.record.Service, r.record.ServiceUID = r.Service.Name, r.Service.UID
	r.record.Prune, r.record.Deletion = r.Service.Spec.Prunes(), r.Service.Spec.Policy.Deletion
	r.record.DependsOn, r.record.Account = r.Service.Spec.ServicesNeeded(), r.account.String()
	if owner := r.x.params.Owner(); owner != "" {
		r.record.Owner = owner
	}
	return r.store(ctx)
}

// salvage stores the results of a failed run: the UIDs of applied objects, and the removed ones. An
// object whose UID is not stored is found again by its label. But that costs a request, and a prune
// that may not adopt would leave the object behind. If ctx ended, another run, or the next process,
// does it.
func (r *run) salvage(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil || r.record.Objects.Len() == 0 && !r.x.params.Inventories.MayHold(r.Name) {
		return err
	}
	return errors.Join(err, r.store(ctx))
}

// announce publishes a decision about an object, and logs it.
func (r *run) announce(ctx context.Context, ref inventory.Ref, decision string) {
	r.log(ctx, slog.LevelInfo, "decided about an object of others", slog.String("object", ref.String()), slog.String("decision", decision))
	r.Progress.Announce(ref, decision)
}

func (r *run) log(ctx context.Context, level slog.Level, message string, attrs ...slog.Attr) {
	r.x.params.Logger.LogAttrs(ctx, level, message, append([]slog.Attr{slog.String("leat.service", r.Name)}, attrs...)...)
}

// submitter returns the submitter for objects of this run.
func (r *run) submitter() submit.Submitter {
	return submit.Submitter{
		Cluster: r.cluster, Spec: r.Service.Spec, Rules: r.Rules, IsConfidential: r.manifests.IsConfidential, Announce: r.announce,
	}
}
