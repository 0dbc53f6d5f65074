// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/bundle"
	"github.com/leatdev/leat/internal/digest"
	"github.com/leatdev/leat/services/agent/internal/fingerprint"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/order"
	"github.com/leatdev/leat/services/agent/internal/render"
)

// run is one reconciliation of one service. It belongs to the unit's goroutine.
type run struct {
	unit    *unit
	engine  *Engine
	turn    *turn
	waited  time.Duration // for what others do
	service Service
	account Account // as whom everything is done
	cluster Cluster // as the account sees it
	arrived time.Time
	timings Timings
	leaving bool             // the service goes
	news    bool             // the plan brought something that is not applied yet
	asked   bool             // somebody asked for the run
	same    bool             // everything is as the run before has left it
	record  inventory.Record // as stored in the cluster, or about to be

	result      result
	rendered    time.Time
	schedule    order.Schedule
	desired     inventory.Set   // what the rendered objects are, filled while applying
	hooked      inventory.Set   // likewise the hooks
	tidying     []*hook         // those of the phase, to be deleted at its end if their policy says so
	rules       fingerprint.Sum // of what the policy says about conflicts
	lenient     leniency
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
		return r.verify(ctx)
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
	if err == nil || ctx.Err() != nil || r.record.Objects.Len() == 0 && !r.engine.inventories.keeps(r.unit.name) {
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
	started, sources := time.Now(), &clock{bundles: r.engine.params.Bundles, configs: r.engine.params.Configs}
	engine := r.engine.params.Render
	if engine.Builder != nil {
		engine.Builder = &steppingOut{builder: engine.Builder, turn: r.turn, waiting: &r.engine.waiting}
	}
	var err error
	r.result, err = renderAll(ctx, inputs{bundles: sources, configs: sources, render: engine}, r.service, r.record.Applied)
	r.rendered = time.Now()
	r.timings.Download, r.timings.Render = sources.took, r.rendered.Sub(started)-sources.took
	if err != nil {
		return err
	}
	return r.arrange()
}

// clock measures how long bundles and configurations take to come. It is for one goroutine.
type clock struct {
	bundles Bundles
	configs Configs
	took    time.Duration
}

// Open implements Bundles.
func (c *clock) Open(ctx context.Context, d, base digest.Digest) (io.ReadCloser, error) {
	started := time.Now()
	content, err := c.bundles.Open(ctx, d, base)
	c.took += time.Since(started)
	return content, err
}

// Config implements Configs.
func (c *clock) Config(ctx context.Context, s Service) (render.Variables, error) {
	started := time.Now()
	variables, err := c.configs.Config(ctx, s)
	c.took += time.Since(started)
	return variables, err
}

// result is what a service is to consist of.
type result struct {
	objects []*unstructured.Unstructured
	// tests are those that are run afterwards, in their order.
	tests []test
	// substitution knows the texts that secrets went into; nil where there is no configuration.
	substitution *render.Substitution
}

// confidential tells whether the object holds a secret of the configuration.
func (r result) confidential(o *unstructured.Unstructured) bool {
	return r.substitution.Tainted(o.Object)
}

// inputs are the sources of a service's objects.
type inputs struct {
	bundles Bundles
	configs Configs
	render  render.Engine
}

// inputs returns the inputs of the engine.
func (e *Engine) inputs() inputs {
	return inputs{bundles: e.params.Bundles, configs: e.params.Configs, render: e.params.Render}
}

// renderAll makes the objects of all sources of s; what is applied already helps to fetch them.
func renderAll(ctx context.Context, in inputs, s Service, applied inventory.Applied) (result, error) {
	var all result
	if s.ConfigDigest != "" {
		variables, err := in.configs.Config(ctx, s)
		if err != nil {
			return result{}, err
		}
		all.substitution = render.NewSubstitution(variables)
	}
	for i, b := range s.Bundles {
		files, err := readBundle(ctx, in, b, baseOf(applied, i))
		if err != nil {
			return result{}, err
		}
		if i == 0 {
			if files, err = all.readTests(ctx, in.render, files, b, s); err != nil {
				return result{}, err
			}
		}
		objects, err := in.render.Objects(ctx, files, b.Subpath, s.Spec.Renderer, all.substitution)
		if err != nil {
			return result{}, fmt.Errorf("read manifests of %s: %w", b.origin(), err)
		}
		all.objects = append(all.objects, objects...)
	}
	return all, all.setTestsApart()
}

// baseOf is what was applied last from the source at that place: what comes next differs little from it.
func baseOf(applied inventory.Applied, source int) digest.Digest {
	if source >= len(applied.Digests) {
		return digest.Digest{}
	}
	base, err := digest.Parse(applied.Digests[source])
	if err != nil {
		return digest.Digest{} // no base is as right as any
	}
	return base
}

func readBundle(ctx context.Context, in inputs, b Bundle, base digest.Digest) (*render.Files, error) {
	content, err := in.bundles.Open(ctx, b.Digest, base)
	if err != nil {
		return nil, unavailable(ctx, b, err)
	}
	defer content.Close()
	files, err := render.Read(bundle.NewReader(content, bundle.Limits{}), in.render.Limits)
	if invalid, limit := new(render.Error), new(render.LimitError); errors.As(err, &invalid) || errors.As(err, &limit) {
		return nil, fmt.Errorf("read manifests of %s: %w", b.origin(), err)
	}
	if err != nil {
		return nil, unavailable(ctx, b, err)
	}
	_, err = io.Copy(io.Discard, content)
	return files, err
}

// verify reads the bundles to their end, which is how they are compared with their digests. It stands for a whole run where that
// would make the same objects of the same bundles, and find each as it should be.
func (r *run) verify(ctx context.Context) error {
	for _, b := range r.service.Bundles {
		content, err := r.engine.params.Bundles.Open(ctx, b.Digest, b.Digest)
		if err != nil {
			return unavailable(ctx, b, err)
		}
		_, err = io.Copy(io.Discard, content)
		if err = errors.Join(err, content.Close()); err != nil {
			return unavailable(ctx, b, err)
		}
	}
	return nil
}

func unavailable(ctx context.Context, b Bundle, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("fetch bundle: %w", context.Cause(ctx))
	}
	return problemf(BundleUnavailable, "bundle %s of %s is not available, what was applied before stays: %v", b.Digest, b.origin(), err)
}

func (b Bundle) origin() string {
	switch {
	case b.Repository == "":
		return "the source"
	case b.Path == "" || b.Path == ".":
		return b.Repository
	default:
		return b.Repository + ":" + b.Path
	}
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
		if err := r.cluster.EnsureNamespace(ctx, r.service.Spec.namespace()); err != nil {
			r.noNamespace = fmt.Errorf("create namespace %s: %w", r.service.Spec.namespace(), err)
		}
	})
	return r.noNamespace
}

// save stores the record, and makes it known to the unit.
func (r *run) save(ctx context.Context) error {
	r.record.Service, r.record.ServiceUID = r.service.Name, r.service.UID
	r.record.Prune, r.record.Deletion = r.service.Spec.Prune, r.service.Spec.Policy.Deletion
	r.record.DependsOn, r.record.Account = needs(r.service.Spec), r.account.String()
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
	applied := r.service.inputs()
	applied.At, applied.Took = now, now.Sub(r.arrived)
	r.timings.Apply = now.Sub(r.rendered) - r.waited
	if sameInputs(applied, r.record.Applied) {
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
