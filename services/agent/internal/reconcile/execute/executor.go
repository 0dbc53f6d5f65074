// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package execute carries out one run of one service: it applies the service, removes it, hands its
// objects over, or computes what a run would change.
//
// A run takes a value (Job) and returns a value (Outcome). It holds no lock of its caller. Anything
// that others may see before its end goes through Progress, and through the Objects and the Member
// of the job, which have locks of their own.
//
// Promises, at any point of failure, including the death of the process:
//
//   - The stored inventory grows before the cluster does, and shrinks after it, so every object in
//     the cluster is listed in some inventory.
//   - A manifest that is invalid, or names an object twice, changes nothing.
//   - An object of another service, or one that Leat did not create and may not adopt, is not
//     changed.
//   - Nothing is deleted before everything else is applied, and never more than the guard allows.
//   - Nothing that the running agent is made of is deleted, stopped, or taken its rights from.
//   - A hook runs once for a change; hooks.go describes the one exception.
//
// A run of Sync goes through these states, and a later process can continue after a crash in any of
// them: checked (nothing has changed), listed (the inventory has the objects, and is marked as
// touched), applied, pruned, and recorded (the inventory names the applied inputs). Only the last
// state counts as success. A run that ends before repeats all steps, but an object that is already
// in the desired state costs no request.
//
// One goroutine carries out a run. It works on several objects concurrently; the state that these
// share is in record, which has a lock.
package execute

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/agent/internal/accounts"
	"github.com/leatdev/leat/services/agent/internal/confine"
	"github.com/leatdev/leat/services/agent/internal/health"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/manifest"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/reconcile/observe"
	"github.com/leatdev/leat/services/agent/internal/reconcile/ownership"
	"github.com/leatdev/leat/services/agent/internal/reconcile/slots"
	"github.com/leatdev/leat/services/agent/internal/reconcile/submit"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// Params are shared by all runs. All are required, except Self.
type Params struct {
	Cluster k8s.API
	// Self returns what the running agent is made of. Nil: it is in another cluster.
	Self func(ctx context.Context) (k8s.Self, error)
	// Namespace is the agent's own.
	Namespace string
	// Lock is the cluster's own bound of accounts, which no plan widens.
	Lock        accounts.Lock
	Inventories *inventory.Cache
	Renderer    manifest.Renderer
	Ownership   *ownership.Registry
	// Judge returns the verdict on a live object, as people are shown it.
	Judge func(o *unstructured.Unstructured) health.Verdict
	// Shown returns the verdict on an object of a service as people are shown it, without the
	// secrets of the service.
	Shown func(service string, v health.Verdict) health.Verdict
	// Owner returns the uid that the hub gave the cluster, or "" if it is unknown.
	Owner  func() string
	Guard  inventory.Guard
	Logger *slog.Logger
}

// Executor carries out runs. It is safe for concurrent use, with one run of a service at a time.
type Executor struct {
	params  Params
	self    *self
	waiting atomic.Int64 // bytes of the files of runs that build without a slot

	mu        sync.RWMutex // guards what follows
	hub       accounts.Hub
	heldSince time.Time
}

// New returns an Executor.
func New(p Params) *Executor {
	return &Executor{params: p, self: &self{params: &p}}
}

// Configure sets the hub's rules for the accounts of services, within Params.Lock.
func (x *Executor) Configure(s syncpolicy.AgentSettings) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.hub = accounts.Hub{IsLocked: s.LockDown, Default: s.DefaultServiceAccount}
}

// HoldRemovals has every prune wait for a person's agreement, because the hub was restored from a
// backup at that time: what a service lacks now may have been added after the backup. The zero time
// ends that. It reports whether prunes that were held may continue.
func (x *Executor) HoldRemovals(since time.Time) (isReleased bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	isReleased = !x.heldSince.IsZero() && since.IsZero()
	x.heldSince = since
	return isReleased
}

// holds reports whether a prune needs a person's agreement. If that is because the hub was
// restored, since is when.
func (x *Executor) holds(d inventory.Departure) (isHeld bool, since time.Time) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return !x.heldSince.IsZero() || x.params.Guard.Holds(d), x.heldSince
}

// Reader returns what reads the cluster on behalf of a service. Error: TenantForbidden, if the
// service must name an account and names none.
func (x *Executor) Reader(s plan.Service) (*confine.Reader, error) {
	account, cluster, err := x.as(s.Spec)
	if err != nil {
		return nil, err
	}
	return confine.New(cluster, confine.Bounds{Service: s.Name, Account: account, Limits: s.Spec.Policy.Limits, Home: x.params.Namespace}), nil
}

// as returns the account of a service, and the cluster as that account uses it. A run uses it for
// the service's own objects: the objects of its manifests, after checkLimits or complete has
// admitted them, and the objects of its inventory. Everything else is read by Reader.
func (x *Executor) as(s plan.Spec) (k8s.Account, k8s.API, error) {
	account, err := x.account(s)
	if err != nil {
		return k8s.Account{}, nil, err
	}
	cluster, err := x.params.Cluster.As(account)
	return account, cluster, err
}

func (x *Executor) account(s plan.Spec) (k8s.Account, error) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return accounts.Choose(x.params.Lock, x.hub, s.Policy.ServiceAccount, s.NamespaceOrDefault())
}

// Job is one run of one service.
type Job struct {
	// Name is the service's name.
	Name string
	// Service is the plan's entry. It is zero if the service left the plan before this process
	// began.
	Service plan.Service
	// Rules are the compiled policy of Service.
	Rules submit.Rules
	// Record is the stored inventory. It belongs to the run.
	Record inventory.Record
	// Objects is the known state of the service's objects, Member the service's part in ownership.
	Objects *observe.Objects
	Member  *ownership.Member
	// Arrived is when Service arrived, Timings the known timings of its change.
	Arrived time.Time
	Timings report.Timings
	// IsChange means that the plan brings a change that is not applied yet, IsRequested that a
	// person asked for the run. Only such runs execute hooks and notify people.
	IsChange, IsRequested bool
	// Turn is the run's right to work on the cluster. The run has a slot at its beginning and end.
	Turn *slots.Turn
	// Progress receives the state that others may see before the end.
	Progress Progress
	// Rendered is called after each render with its result. The manifests of a failed one hold what
	// was known when it failed. Nil is not called.
	Rendered func(ctx context.Context, manifests manifest.Manifests, err error)
}

// Progress connects a run with its unit until its end: the unit publishes the current state, and
// wakes the run when watches report a change. Only the goroutine of the run calls Saved,
// SaveFingerprints and Await. Announce and Wake may be called concurrently.
type Progress interface {
	// Saved is called after the inventory was stored.
	Saved(record inventory.Record)
	// SaveFingerprints stores the known state of the objects for the next process.
	SaveFingerprints(ctx context.Context)
	// Announce publishes an event of one object.
	Announce(ref inventory.Ref, message string)
	// Await blocks until the condition holds. It evaluates the condition again after every Wake,
	// observation and order. Error: the cause, if ctx ends before.
	Await(ctx context.Context, holds func() bool) error
	// Wake makes Await evaluate its condition again.
	Wake()
}

// Outcome is the result of a run, also of a failed one.
type Outcome struct {
	// Record is the inventory at the end of the run.
	Record inventory.Record
	// Timings are the times of the change.
	Timings report.Timings
	// Spent is what the run spent its time on.
	Spent Spent
}
