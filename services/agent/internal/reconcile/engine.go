// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package reconcile makes one cluster run what its plan says.
//
// Every service has a goroutine of its own, which waits, retries and times out by itself; what it does to the cluster
// it does in one of a bounded number of slots. A service that fails, or takes long, thus never delays another beyond
// holding its slot, and a newer plan entry ends the run of an older one.
package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"golang.org/x/sync/errgroup"

	"github.com/leatdev/leat/internal/backoff"
	"github.com/leatdev/leat/internal/reason"
	"github.com/leatdev/leat/services/agent/internal/fingerprint"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/manifest"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/reconcile/ownership"
	"github.com/leatdev/leat/services/agent/internal/render"
)

// Params are the collaborators and settings of an Engine. Collaborators are required; a zero setting takes its default.
type Params struct {
	Cluster     k8s.API
	Bundles     manifest.Bundles
	Configs     manifest.Configs
	Inventories inventory.Store
	Reporter    Reporter
	Watches     Watches
	// Render turns bundles into objects.
	Render render.Engine
	// Fingerprints keeps what was applied. Nil keeps it nowhere: a restart applies everything again.
	Fingerprints fingerprint.Store
	// Owner is the uid that the hub gave the cluster. Nil, or an empty answer: unknown, and every inventory is one's own.
	Owner    func() string
	Observer Observer
	// Tracer records a span for each run. Nil records nothing.
	Tracer   trace.Tracer
	Logger   *slog.Logger
	Settings Settings
}

// Observer is told how long runs take. A nil Observer is not called.
type Observer func(ctx context.Context, took time.Duration, problem *reason.Problem)

// Settings bound the work.
type Settings struct {
	// Workers is how many services are worked on at once. Zero: 16.
	Workers int
	// Refresh is how often an unchanged service is looked at again, ±25 %. Zero: 2 h.
	Refresh time.Duration
	// ApplyTimeout bounds a run, and each of its stages where it has several. Waiting for health does not count. Zero: 5 min.
	ApplyTimeout time.Duration
	// Guard stops prunes inside a service. Zero: inventory.DefaultGuard.
	Guard inventory.Guard
	// ServiceGuard stops a plan from which too many services vanish at once. Zero: inventory.DefaultGuard.
	ServiceGuard inventory.Guard
	// Retry spaces runs of a failing service. Zero: 1 s doubling to 5 min.
	Retry backoff.Policy
}

func (s Settings) withDefaults() Settings {
	if s.Workers <= 0 {
		s.Workers = 16
	}
	if s.Refresh <= 0 {
		s.Refresh = 2 * time.Hour
	}
	if s.ApplyTimeout <= 0 {
		s.ApplyTimeout = 5 * time.Minute
	}
	if s.Guard == (inventory.Guard{}) {
		s.Guard = inventory.DefaultGuard()
	}
	if s.ServiceGuard == (inventory.Guard{}) {
		s.ServiceGuard = inventory.DefaultGuard()
	}
	if s.Retry == (backoff.Policy{}) {
		s.Retry = backoff.Policy{Initial: time.Second, Max: 5 * time.Minute, Multiplier: 2}
	}
	return s
}

// ErrUnknownService means that neither the plan nor the cluster has a service of that name.
var ErrUnknownService = errors.New("unknown service")

// Engine works on all services of one cluster. Its methods are safe for concurrent use.
type Engine struct {
	params      Params
	slots       *slots // held by what is worked on
	inventories *inventory.Cache
	tenancy     tenancy
	waiting     atomic.Int64 // bytes of the files of services that are being built; see steppingOut
	refresh     atomic.Int64 // how often everything is looked at again, in nanoseconds
	bench       *bench
	events      events

	relations relations

	planned chan struct{} // one token when plan was replaced

	ownership  *ownership.Registry
	generation int64 // of the newest plan that was handed out; used by adopt alone

	mu    sync.Mutex // guards what follows
	plan  *plan.Plan // the newest; nil before the first
	units map[string]*unit
	kinds map[string]kindSet // by service
}

// New returns an Engine that does nothing before Run.
func New(p Params) *Engine {
	p.Settings = p.Settings.withDefaults()
	if p.Observer == nil {
		p.Observer = func(context.Context, time.Duration, *reason.Problem) {}
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
	inventories := inventory.NewCache(p.Inventories)
	p.Inventories = inventories
	e := &Engine{
		params: p, inventories: inventories,
		slots:   newSlots(p.Settings.Workers),
		planned: make(chan struct{}, 1),
		bench:   newBench(),
		units:   map[string]*unit{},
		kinds:   map[string]kindSet{},
	}
	e.refresh.Store(int64(p.Settings.Refresh))
	e.ownership = ownership.New(e.renderer(), p.Cluster)
	return e
}

// SetPlan replaces the plan. It returns at once, and may be called before Run.
func (e *Engine) SetPlan(p plan.Plan) {
	e.mu.Lock()
	e.plan = &p
	e.mu.Unlock()
	signal(e.planned)
}

// Reconcile applies a service again although nothing changed. For a service whose removal the guard holds back, it is
// the confirmation of that removal, as a mark on its inventory is. Error: ErrUnknownService.
func (e *Engine) Reconcile(service string) error {
	u, err := e.unit(service)
	if err != nil {
		return err
	}
	u.force()
	return nil
}

// Run reads the inventories and works on plans until ctx is done. It returns nil then; runs that are under way end first. It returns
// an error when a run does not end although it has to: the process must end then.
func (e *Engine) Run(ctx context.Context) error {
	records, err := e.load(ctx)
	if err != nil {
		return nil // only the end of ctx ends the loading, and being stopped is no failure
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, record := range records {
		e.start(ctx, group, record)
	}
	for _, record := range records { // only now: what a watch sees of a service that is not known is lost
		e.watch(record.Service, record.Objects)
	}
	confirm := time.NewTicker(confirmInterval)
	defer confirm.Stop()
	stuck := make(chan error, 1)
	go func() { stuck <- e.supervise(ctx) }()
	for {
		select {
		case <-ctx.Done():
			return group.Wait()
		case err := <-stuck:
			if err != nil {
				return err // at once: what is stuck is not waited for
			}
		case <-e.planned:
			e.adopt(ctx, group)
		case <-confirm.C:
			e.confirm(ctx)
		}
	}
}

// load reads all inventories, however long the cluster takes to answer: without them nothing may be pruned.
func (e *Engine) load(ctx context.Context) (records []inventory.Record, err error) {
	err = backoff.Retry(ctx, e.params.Settings.Retry, func(ctx context.Context) error {
		records, err = e.params.Inventories.List(ctx)
		if err != nil && ctx.Err() == nil {
			e.params.Logger.WarnContext(ctx, "inventories cannot be read, retrying", slog.Any("error", err))
		}
		return err
	})
	return records, err
}

// start makes the unit of a service and its goroutine.
func (e *Engine) start(ctx context.Context, group *errgroup.Group, record inventory.Record) *unit {
	var table fingerprint.Table
	if record.Objects.Len() > 0 {
		table = e.params.Fingerprints.Load(ctx, record.Service)
	}
	u := newUnit(e, record, table)
	u.member = e.ownership.Join(u.name, u)
	e.relations.join(u, record.DependsOn)
	for _, o := range record.Objects.Objects() {
		if o.UID != "" { // otherwise it may be another's: this one has only been about to make it
			e.ownership.Claim(o.Key, record.Service)
		}
	}
	for _, o := range record.Hooks.Objects {
		e.ownership.Claim(o.Key, record.Service)
	}
	e.mu.Lock()
	e.units[u.name] = u
	e.mu.Unlock()
	group.Go(func() error {
		u.run(ctx)
		return nil
	})
	return u
}

// adopt gives every unit its order under the newest plan.
func (e *Engine) adopt(ctx context.Context, group *errgroup.Group) {
	e.ownership.HandOut(func() { e.handOut(ctx, group) })
}

func (e *Engine) handOut(ctx context.Context, group *errgroup.Group) {
	e.generation++
	plan, known := e.snapshot()
	e.learn(ctx, plan)
	e.adjust(plan.Settings)
	now := time.Now()
	e.relations.plan(plan.Services)
	for _, s := range plan.Services {
		u := known[s.Name]
		delete(known, s.Name)
		if u == nil || !u.follow(s, plan.Time, now, e.generation) {
			e.start(ctx, group, inventory.Record{Service: s.Name, ServiceUID: s.UID}).follow(s, plan.Time, now, e.generation)
		}
	}
	e.dismiss(ctx, known)
	e.params.Reporter.Adopted(plan.Version)
}

// dismiss removes the services that are not in the plan, unless they are suspiciously many.
func (e *Engine) dismiss(ctx context.Context, vanished map[string]*unit) {
	e.mu.Lock()
	total := len(e.units)
	e.mu.Unlock()
	owner := e.params.Owner()
	for name, u := range vanished {
		if u.foreign(owner) {
			delete(vanished, name)
			total--
			e.params.Logger.WarnContext(ctx, "inventory belongs to another hub's agent, leaving it alone", slog.String("leat.service", name))
		}
	}
	var fresh int // those whose removal nobody has confirmed or started yet
	for _, u := range vanished {
		if !u.leaving() {
			fresh++
		}
	}
	held := e.params.Settings.ServiceGuard.Stops(total, fresh)
	if held {
		e.params.Logger.ErrorContext(ctx, "plan drops too many services at once, keeping them",
			slog.Int("vanished", fresh), slog.Int("known", total),
			slog.Any("services", slices.Sorted(maps.Keys(vanished))), slog.String("advice", howToConfirm))
	}
	e.relations.leave(vanished)
	for _, u := range vanished {
		u.dismiss(e.generation, held, fmt.Sprintf("%d of %d services left the plan at once", fresh, total))
	}
}

// forget drops a service whose removal is complete. It reports false when the plan has taken it up again meanwhile.
func (e *Engine) forget(u *unit) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !u.close() {
		return false
	}
	delete(e.units, u.name)
	e.ownership.Leave(u.name)
	e.relations.forget(u.name)
	e.bench.forget(u.name)
	return true
}

func (e *Engine) snapshot() (plan.Plan, map[string]*unit) {
	e.mu.Lock()
	defer e.mu.Unlock()
	known := make(map[string]*unit, len(e.units))
	for name, u := range e.units {
		known[name] = u
	}
	return *e.plan, known
}

func (e *Engine) unit(service string) (*unit, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	u, ok := e.units[service]
	if !ok {
		return nil, fmt.Errorf("%w %q", ErrUnknownService, service)
	}
	return u, nil
}

// all lists the units by name.
func (e *Engine) all() []*unit {
	e.mu.Lock()
	defer e.mu.Unlock()
	units := make([]*unit, 0, len(e.units))
	for _, u := range e.units {
		units = append(units, u)
	}
	slices.SortFunc(units, func(a, b *unit) int { return strings.Compare(a.name, b.name) })
	return units
}

// signal puts a token into c unless there is one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
