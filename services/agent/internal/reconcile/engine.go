// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package reconcile makes one cluster match its plan.
//
// Every service has a unit with a goroutine of its own, which waits, retries and times out
// independently. A unit changes the cluster only while it holds one of a bounded number of slots.
// So a service that fails, or takes long, delays another one only by holding its slot, and a newer
// plan entry ends the run of an older one.
//
// A unit repeats one cycle. Package decide chooses the next action, as a pure function of the
// unit's state and the time. Package execute carries it out, from a Job to an Outcome. Package
// observe keeps what watches and answers have shown of the objects, and package ownership decides
// which service an object belongs to. Any change of this input wakes the unit.
//
// Locks: a unit's lock is held during decisions, and never during a call to the cluster, the disk
// or another unit. The order of locks is Registry.HandOut, Engine.mu, unit.mu, then one of the
// parts (observe.Objects, ownership, relations, healthRules, watchedKinds, symptoms, secrets, events), which
// call nothing outside of themselves.
//
// Promises: a stored inventory lists a service's objects before they exist. The agent deletes
// nothing that the plan wants, and many objects at once only after a person's confirmation. After a
// crash at any point, the next process continues where this one was.
//
// This package does not implement Git, rendering and downloads (package manifest reads their
// results), the Kubernetes client (package k8s is the port), or leader election: only one Engine
// may run for a cluster.
package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"golang.org/x/sync/errgroup"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/internal/kit/wake"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/services/agent/internal/accounts"
	"github.com/leatdev/leat/services/agent/internal/fingerprint"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/manifest"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/reconcile/decide"
	"github.com/leatdev/leat/services/agent/internal/reconcile/execute"
	"github.com/leatdev/leat/services/agent/internal/reconcile/ownership"
	"github.com/leatdev/leat/services/agent/internal/reconcile/slots"
	"github.com/leatdev/leat/services/agent/internal/reconcile/symptoms"
)

// Params are the collaborators and settings of an Engine. Collaborators are required; a zero
// setting takes its default.
type Params struct {
	// Self returns what the running agent is made of. Nil: it does not run in the cluster.
	Self        func(ctx context.Context) (k8s.Self, error)
	Cluster     k8s.API
	Bundles     manifest.Bundles
	Configs     manifest.Configs
	Inventories inventory.Store
	Reporter    Reporter
	Watches     Watches
	// Facts answer templates' questions about the cluster.
	Facts manifest.Cluster
	// Generated keeps what templates generate.
	Generated manifest.GeneratedStore
	// Given keeps what the cluster gave services. Nil keeps nothing: a value that is gone does not
	// outlive the process.
	Given manifest.GivenStore
	// Namespace is the agent's own, whose Secrets no service may refer to.
	Namespace string
	// Lock is the cluster's own bound of the accounts that services may have.
	Lock accounts.Lock
	// Render turns bundles into objects.
	Render render.Split
	// Fingerprints stores the sums of applied objects. Nil stores nothing: a restart applies
	// everything again.
	Fingerprints fingerprint.Store
	// Owner returns the uid that the hub gave the cluster. Nil, or an empty answer: it is unknown,
	// and every inventory counts as the agent's own.
	Owner    func() string
	Observer Observer
	// Tracer records a span for each run. Nil records nothing.
	Tracer   trace.Tracer
	Logger   *slog.Logger
	Settings Settings
}

// Observer receives how long each run took, in all and by stage, and its problem. A nil Observer is not
// called.
type Observer func(ctx context.Context, took time.Duration, spent execute.Spent, problem *reason.Problem)

// Settings bound the work. A field that is zero takes the value that it has in [DefaultSettings].
type Settings struct {
	// Workers is how many services are worked on at once.
	Workers int
	// Refresh is how often an unchanged service is checked again, ±25 %.
	Refresh time.Duration
	// ApplyTimeout bounds a run, and each of its stages if it has several. Waiting for health does
	// not count.
	ApplyTimeout time.Duration
	// Guard stops prunes inside a service.
	Guard inventory.Guard
	// ServiceGuard stops a plan from which too many services vanish at once.
	ServiceGuard inventory.Guard
	// Retry spaces runs of a failing service.
	Retry backoff.Policy
	// HubRetry does so for a service that fails because the hub does not give what it needs. It is the pace of all such
	// services together.
	HubRetry backoff.Policy
}

// DefaultSettings returns the settings of an agent that is given none.
func DefaultSettings() Settings {
	return Settings{
		Workers: 16, Refresh: 2 * time.Hour, ApplyTimeout: 5 * time.Minute,
		Guard: inventory.DefaultGuard(), ServiceGuard: inventory.DefaultGuard(),
		Retry:    backoff.Policy{Initial: time.Second, Max: 5 * time.Minute, Multiplier: 2},
		HubRetry: backoff.Policy{Initial: time.Second, Max: 30 * time.Second, Multiplier: 2},
	}
}

func (s Settings) withDefaults() Settings {
	d := DefaultSettings()
	s.Workers, s.Refresh, s.ApplyTimeout = cmp.Or(s.Workers, d.Workers), cmp.Or(s.Refresh, d.Refresh), cmp.Or(s.ApplyTimeout, d.ApplyTimeout)
	s.Guard, s.ServiceGuard = cmp.Or(s.Guard, d.Guard), cmp.Or(s.ServiceGuard, d.ServiceGuard)
	s.Retry, s.HubRetry = cmp.Or(s.Retry, d.Retry), cmp.Or(s.HubRetry, d.HubRetry)
	return s
}

// Engine reconciles all services of one cluster. Its methods are safe for concurrent use.
type Engine struct {
	shared  *shared
	watches Watches

	planned    wake.Signal // one token when plan was replaced
	generation int64       // of the newest plan that was handed out; used by adopt alone

	facts *facts

	mu    sync.Mutex // guards what follows
	plan  *plan.Plan // the newest; nil before the first
	units map[string]*unit
}

// New returns an Engine that does nothing before Run.
func New(p Params) *Engine {
	p.Settings = p.Settings.withDefaults()
	if p.Observer == nil {
		p.Observer = func(context.Context, time.Duration, execute.Spent, *reason.Problem) {}
	}
	if p.Tracer == nil {
		p.Tracer = noop.NewTracerProvider().Tracer("")
	}
	if p.Fingerprints == nil {
		p.Fingerprints = fingerprint.Discard{}
	}
	if p.Owner == nil {
		p.Owner = func() string { return "" }
	}
	known, readers := &facts{Cluster: p.Facts}, &readers{}
	renderer := manifest.Renderer{
		Bundles: p.Bundles, Configs: p.Configs, Cluster: known, Readers: readers, Generated: manifest.NewGenerated(p.Generated), Engine: p.Render,
		Given: p.Given,
	}
	s := &shared{
		settings: p.Settings, ownership: ownership.New(renderer, p.Cluster), slots: slots.New(p.Settings.Workers), hub: newHubWait(p.Settings.HubRetry),
		rules: newHealthRules(), kinds: newWatchedKinds(p.Watches, p.Lock),
		inventories: inventory.NewCache(p.Inventories), fingerprints: p.Fingerprints,
		reporter: p.Reporter, observer: p.Observer, tracer: p.Tracer, owner: p.Owner, logger: p.Logger,
	}
	s.secrets = newSecrets(func(ctx context.Context, service plan.Service) (*render.Substitution, error) {
		return s.executor.Secrets(ctx, service)
	}, p.Logger)
	s.executor = execute.New(execute.Params{
		Cluster: p.Cluster, Self: p.Self, Namespace: p.Namespace, Lock: p.Lock, Inventories: s.inventories, Renderer: renderer, Ownership: s.ownership, Judge: s.secrets.judging(s.rules.judge), Shown: s.secrets.verdict,
		Owner: p.Owner, Guard: p.Settings.Guard, Logger: p.Logger,
	})
	readers.Executor = s.executor
	s.symptoms = symptoms.NewBoard(s.executor.Symptoms)
	s.refresh.Store(int64(p.Settings.Refresh))
	return &Engine{shared: s, facts: known, watches: p.Watches, planned: wake.NewSignal(), units: map[string]*unit{}}
}

// SetPlan replaces the plan. It returns at once, and may be called before Run.
func (e *Engine) SetPlan(p plan.Plan) {
	e.mu.Lock()
	e.plan = &p
	e.mu.Unlock()
	e.planned.Set()
}

// HubAnswers has the services try again whose latest run failed because the hub did not give something. The caller
// calls it when a stream of the plan begins. It returns at once.
func (e *Engine) HubAnswers() { e.shared.hub.hail(time.Now()) }

// Run reads the inventories and follows plans until ctx is done. Then it waits for the end of
// active runs, and returns nil. It returns an error if a run does not end although it must; the
// process must end then.
func (e *Engine) Run(ctx context.Context) error {
	records, err := e.load(ctx)
	if err != nil {
		return nil // loading ends early only with ctx
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		e.shared.symptoms.Run(ctx)
		return nil
	})
	group.Go(func() error {
		e.shared.secrets.run(ctx)
		return nil
	})
	group.Go(func() error {
		e.watchFacts(ctx)
		return nil
	})
	defer e.shared.watched.close()
	units := make([]*unit, len(records))
	for i, record := range records {
		units[i] = e.start(ctx, group, record)
	}
	hidden := e.shared.kinds.load(records) // only now, because a watch's observations of an unknown service are lost
	for _, u := range units {
		hide(u.objects, hidden[u.name])
	}
	confirm := time.NewTicker(confirmInterval)
	defer confirm.Stop()
	stuck := make(chan error, 1)
	go func() { stuck <- e.shared.supervise(ctx) }()
	for {
		select {
		case <-ctx.Done():
			return group.Wait()
		case err := <-stuck:
			if err != nil {
				return err // without waiting for the run
			}
		case <-e.planned:
			e.adopt(ctx, group)
		case <-confirm.C:
			e.confirm(ctx)
		}
	}
}

// load reads all inventories, and retries until the cluster answers: without them nothing may be
// pruned.
func (e *Engine) load(ctx context.Context) (records []inventory.Record, err error) {
	err = backoff.Retry(ctx, e.shared.settings.Retry, func(ctx context.Context) error {
		records, err = e.shared.inventories.List(ctx)
		if err != nil && ctx.Err() == nil {
			e.shared.logger.WarnContext(ctx, "inventories cannot be read, retrying", slog.Any("error", err))
		}
		return err
	})
	return records, err
}

// start creates the unit of a service, and starts its goroutine.
func (e *Engine) start(ctx context.Context, group *errgroup.Group, record inventory.Record) *unit {
	u := e.join(ctx, record)
	group.Go(func() error {
		u.run(ctx, e.forget)
		return nil
	})
	return u
}

// join creates the unit of a service, with its claims.
func (e *Engine) join(ctx context.Context, record inventory.Record) *unit {
	var table fingerprint.Table
	if record.Objects.Len() > 0 {
		table = e.shared.fingerprints.Load(ctx, record.Service)
	}
	u := newUnit(e.shared, record, table)
	e.shared.secrets.add(record, u.Wake)
	u.member = e.shared.ownership.Join(u.name, u)
	e.shared.relations.join(u.name, u.Wake, record.DependsOn)
	for _, o := range record.Objects.Objects() {
		if o.UID != "" { // an object without a UID may be another service's: this one was only about to create it
			e.shared.ownership.Claim(o.Key, record.Service)
		}
	}
	for _, o := range record.Hooks.Objects {
		e.shared.ownership.Claim(o.Key, record.Service)
	}
	e.mu.Lock()
	e.units[u.name] = u
	e.mu.Unlock()
	return u
}

// adopt gives every unit its order under the newest plan. HandOut keeps claims from seeing half of
// a plan: an object that moves between two services has its new owner and its old one in the same
// generation. A unit that is closing cannot follow, so adopt starts another one for the same
// service.
func (e *Engine) adopt(ctx context.Context, group *errgroup.Group) {
	e.shared.ownership.HandOut(func() {
		e.generation++
		p, known := e.snapshot()
		e.updateHealthRules(ctx, p)
		e.configure(p.Settings)
		if e.shared.executor.HoldRemovals(p.RemovalsHeldSince) {
			e.retryHeld()
		}
		if e.facts.set(p.Facts) {
			e.hastenAsking()
		}
		now := time.Now()
		e.shared.relations.setPlan(p.Services)
		for _, s := range p.Services {
			u := known[s.Name]
			delete(known, s.Name)
			if u == nil || !u.follow(s, p.Time, now, e.generation) {
				u = e.start(ctx, group, inventory.Record{Service: s.Name, ServiceUID: s.UID})
				u.follow(s, p.Time, now, e.generation)
			}
		}
		e.dismiss(ctx, known, p.RemovalsHeldSince)
		e.shared.reporter.Adopted(p.Version)
	})
}

// updateHealthRules replaces the health rules by a plan's. If they changed, all objects are judged
// again.
func (e *Engine) updateHealthRules(ctx context.Context, p plan.Plan) {
	if !e.shared.rules.update(p) {
		return
	}
	if err := errors.Join(e.shared.rules.fleetErrors()...); err != nil {
		e.shared.logger.ErrorContext(ctx, "fleet has invalid health rules, using the others", slog.Any("error", err))
	}
	e.watches.Recheck()
}

// dismiss removes the services that are not in the plan. If too many have vanished, it keeps all of
// them until a person confirms their removal: a plan that lost most of its services is more likely
// a mistake than a decision. It also keeps them if the hub was restored from a backup and the
// cluster was not released since: they may have been made after the backup. Inventories of another
// hub's agent are ignored, and do not count.
func (e *Engine) dismiss(ctx context.Context, vanished map[string]*unit, restoredAt time.Time) {
	e.mu.Lock()
	total := len(e.units)
	e.mu.Unlock()
	owner := e.shared.owner()
	for name, u := range vanished {
		if u.isForeign(owner) {
			delete(vanished, name)
			total--
			e.shared.logger.WarnContext(ctx, "inventory belongs to another hub's agent, leaving it alone",
				slog.String("leat.service", name))
		}
	}
	undecided := 0 // services whose removal was not confirmed or started yet
	for _, u := range vanished {
		if u.order() != decide.Leave {
			undecided++
		}
	}
	heldWhy := ""
	switch {
	case !restoredAt.IsZero() && undecided > 0:
		heldWhy = "the hub was restored from a backup at " + restoredAt.UTC().Format(time.RFC3339) + ", and its plan lacks the service"
		e.shared.logger.ErrorContext(ctx, "hub was restored from a backup and its plan lacks services, keeping them",
			slog.Any("services", slices.Sorted(maps.Keys(vanished))),
			slog.String("advice", "put them back into the fleet, or remove them all with leat cluster release; to remove one, "+decide.HowToConfirm))
	case e.shared.settings.ServiceGuard.Stops(total, undecided):
		heldWhy = fmt.Sprintf("%d of %d services left the plan at once", undecided, total)
		e.shared.logger.ErrorContext(ctx, "plan drops too many services at once, keeping them",
			slog.Int("vanished", undecided), slog.Int("known", total),
			slog.Any("services", slices.Sorted(maps.Keys(vanished))), slog.String("advice", decide.HowToConfirm))
	}
	e.shared.relations.setLeaving(slices.Collect(maps.Keys(vanished)))
	for _, u := range vanished {
		u.dismiss(heldWhy, e.generation)
	}
}

// forget drops a service whose removal is complete. It reports false if a newer plan has the
// service again.
func (e *Engine) forget(u *unit) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !u.close() {
		return false
	}
	delete(e.units, u.name)
	e.shared.ownership.Leave(u.name)
	e.shared.relations.leave(u.name)
	e.shared.rules.forget(u.name)
	e.shared.watched.forget(u.name)
	e.shared.symptoms.Remove(u.name)
	e.shared.secrets.forget(u.name)
	return true
}

// snapshot returns the newest plan, and a copy of the map of units.
func (e *Engine) snapshot() (plan.Plan, map[string]*unit) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return *e.plan, maps.Clone(e.units)
}

// all returns the units by name.
func (e *Engine) all() []*unit {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.SortedFunc(maps.Values(e.units), func(a, b *unit) int { return strings.Compare(a.name, b.name) })
}
