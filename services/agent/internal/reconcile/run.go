// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/manifest"
	"github.com/leatdev/leat/services/agent/internal/order"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/reconcile/submit"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// run is one reconciliation of one service. It belongs to the unit's goroutine.
type run struct {
	unit    *unit
	mu      sync.Mutex // guards record.Objects and record.Pruned, going and inherited while objects are worked on concurrently
	engine  *Engine
	turn    *turn
	waited  time.Duration // for what others do
	service plan.Service
	account k8s.Account // as whom everything is done
	cluster k8s.API     // as the account sees it
	arrived time.Time
	timings report.Timings
	leaving bool             // the service goes
	news    bool             // the plan brought something that is not applied yet
	asked   bool             // somebody asked for the run
	same    bool             // everything is as the run before has left it
	record  inventory.Record // as stored in the cluster, or about to be

	result      manifest.Manifests
	rendered    time.Time
	schedule    order.Schedule
	desired     inventory.Set // what the rendered objects are, filled while applying
	hooked      inventory.Set // likewise the hooks
	tidying     []*hook       // those of the phase, to be deleted at its end if their policy says so
	rules       submit.Rules
	strangers   strangers
	namespace   sync.Once
	noNamespace error        // why there is none
	wrote       atomic.Int32 // how many objects were applied

	going     inventory.Set // whose deletion has begun, or is over
	wave      int           // of the stage that is being applied
	inherited inherited     // taken over from other services, and not stored yet
}

// step is one verb of a reconciliation.
type step struct {
	name string
	do   func(context.Context) error
}

func (r *run) sync(ctx context.Context) error {
	if r.same {
		return r.engine.renderer().Verify(ctx, r.service)
	}
	err := r.take(ctx, []step{
		{"understand", r.understand},
		{"render", r.render},
		{"create namespace", r.createNamespace},
		{"concede", r.concede},
		{"apply", r.apply},
		{"prune", r.prune},
		{"finish", r.finish},
		{"expect tests", r.expectTests},
		{"stash entry", r.stash},
		{"record", r.complete},
	})
	return r.salvage(ctx, err)
}

func (r *run) remove(ctx context.Context) error {
	r.leaving = true
	err := r.take(ctx, []step{
		{"mark inventory", r.withdraw},
		{"delete tests", r.deleteTests},
		{"hand over objects", r.handOver},
		{"run PreDelete hooks", r.preDelete},
		{"delete objects", r.deleteAll},
		{"run PostDelete hooks", r.postDelete},
		{"delete hooks", r.deleteHooks},
		{"delete inventory", r.deleteRecord},
	})
	return r.salvage(ctx, err)
}

// salvage stores what a run has come to that failed: the UIDs of what was applied all the same, and what has left.
func (r *run) salvage(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil || r.record.Objects.Len() == 0 && !r.engine.inventories.MayHold(r.unit.name) {
		return err
	}
	return errors.Join(err, r.store(ctx))
}

// take does the steps in order; the first that fails is the last.
func (r *run) take(ctx context.Context, steps []step) error {
	for _, s := range steps {
		if err := s.do(ctx); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%s: %w", s.name, context.Cause(ctx))
		}
	}
	return nil
}

// render makes the objects of all sources. It changes nothing in the cluster.
func (r *run) render(ctx context.Context) error {
	started, renderer := time.Now(), r.engine.renderer()
	if renderer.Engine.Builder != nil {
		renderer.Engine.Builder = &steppingOut{builder: renderer.Engine.Builder, turn: r.turn, waiting: &r.engine.waiting}
	}
	var err error
	r.result, err = renderer.Render(ctx, r.service, r.record.Applied)
	r.rendered = time.Now()
	r.timings.Download, r.timings.Render = r.result.Download, r.rendered.Sub(started)-r.result.Download
	if err != nil {
		return err
	}
	return r.arrange()
}

func (r *run) createNamespace(ctx context.Context) error {
	if !r.service.Spec.CreateNamespace || !r.news {
		return nil // a run that brings nothing new creates it if it has something to put into it
	}
	return r.ensureNamespace(ctx)
}

// ensureNamespace creates the service's namespace, once a run. It may be called concurrently.
func (r *run) ensureNamespace(ctx context.Context) error {
	r.namespace.Do(func() {
		if err := r.cluster.EnsureNamespace(ctx, r.service.Spec.NamespaceOrDefault()); err != nil {
			r.noNamespace = fmt.Errorf("create namespace %s: %w", r.service.Spec.NamespaceOrDefault(), err)
		}
	})
	return r.noNamespace
}

// save stores the record, and makes it known to the unit.
func (r *run) save(ctx context.Context) error {
	r.record.Service, r.record.ServiceUID = r.service.Name, r.service.UID
	r.record.Prune, r.record.Deletion = r.service.Spec.Prune, r.service.Spec.Policy.Deletion
	r.record.DependsOn, r.record.Account = r.service.Spec.ServicesNeeded(), r.account.String()
	if owner := r.engine.params.Owner(); owner != "" {
		r.record.Owner = owner
	}
	if err := r.store(ctx); err != nil {
		return err
	}
	r.engine.watch(r.service.Name, r.record.Objects)
	return nil
}

// store stores the record as it is.
func (r *run) store(ctx context.Context) error {
	if err := r.engine.params.Inventories.Save(ctx, r.record); err != nil {
		return fmt.Errorf("store inventory: %w", err)
	}
	r.unit.keep(r.record)
	return nil
}

// complete records that everything was applied. A run that has brought nothing new, and was not asked for, leaves no trace.
func (r *run) complete(ctx context.Context) error {
	now := time.Now()
	applied := r.service.Inputs()
	applied.At, applied.Took = now, now.Sub(r.arrived)
	r.timings.Apply = now.Sub(r.rendered) - r.waited
	if applied.SameInputs(r.record.Applied) {
		applied.Took = r.record.Applied.Took // the figure of the change is the one of interest
		if !r.news && !r.asked {
			applied = r.record.Applied
		}
	}
	r.record.Applied, r.record.Base, r.record.Guarded, r.record.Touched = applied, r.record.Objects.Len(), "", false
	r.startCounting()
	if err := r.save(ctx); err != nil {
		return err
	}
	r.engine.params.Logger.Log(ctx, r.level(), "service applied", slog.String("leat.service", r.service.Name),
		slog.Int("objects", r.record.Objects.Len()), slog.Int("written", int(r.wrote.Load())), slog.Duration("took", applied.Took))
	return nil
}

// level is that of the line about a run that went well: nobody wants to read that nothing happened.
func (r *run) level() slog.Level {
	if r.news || r.asked || r.wrote.Load() > 0 {
		return slog.LevelInfo
	}
	return slog.LevelDebug
}

// renderer returns what turns sources into objects.
func (e *Engine) renderer() manifest.Renderer {
	return manifest.Renderer{Bundles: e.params.Bundles, Configs: e.params.Configs, Engine: e.params.Render}
}
