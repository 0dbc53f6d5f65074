// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package execute carries out one run of one service: it applies the service, removes it, hands its
// objects over, or says what a run would do.
//
// A run is a value in (Job) and a value out (Outcome). It holds nobody's lock. What others may see
// before its end goes through Progress and through the Objects and the Member of the job, which have
// locks of their own.
//
// Promises, whatever happens in between, the death of the process included:
//   - the stored inventory grows before the cluster does, and shrinks after it, so that every object
//     in the cluster is listed somewhere;
//   - a manifest that is invalid, or names an object twice, changes nothing;
//   - an object of another service, or one that Leat did not create and may not adopt, is not changed;
//   - nothing is deleted before everything else is applied, nor more than the guard allows;
//   - a hook runs once for a change; see hooks.go for the one exception.
//
// One goroutine carries out a run. It works on several objects at once; what it shares between them is
// in record, which has a lock.
package execute

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/reason"
	"github.com/leatdev/leat/internal/syncpolicy"
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

// Params are what all runs share. All are required.
type Params struct {
	Cluster     k8s.API
	Inventories *inventory.Cache
	Renderer    manifest.Renderer
	Ownership   *ownership.Registry
	// Judge returns the verdict on a live object.
	Judge func(o *unstructured.Unstructured) health.Verdict
	// Owner returns the uid that the hub gave the cluster, or "" if it is unknown.
	Owner  func() string
	Guard  inventory.Guard
	Logger *slog.Logger
}

// Executor carries out runs. It is safe for concurrent use, with one run of a service at a time.
type Executor struct {
	params  Params
	waiting atomic.Int64 // bytes of the files of runs that build without a slot

	mu             sync.RWMutex // guards what follows
	defaultAccount string
	isLockedDown   bool // nothing is applied with the agent's own rights
}

// New returns an Executor.
func New(p Params) *Executor { return &Executor{params: p} }

// Configure takes over as whom the agent applies services that name no account.
func (x *Executor) Configure(s syncpolicy.AgentSettings) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.defaultAccount, x.isLockedDown = s.DefaultServiceAccount, s.LockDown
}

// As returns as whom a service is applied, and the cluster as that account uses it. Error:
// TenantForbidden, if the service must name an account and names none.
func (x *Executor) As(s plan.Spec) (k8s.Account, k8s.API, error) {
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
	text := s.Policy.ServiceAccount
	if text == "" {
		text = x.defaultAccount
	}
	if text == "" && x.isLockedDown {
		return k8s.Account{}, reason.Errorf(reason.TenantForbidden, "this cluster applies nothing with the agent's own rights, and the service names "+
			"no service account; set its policy.serviceAccount")
	}
	return k8s.ParseAccount(text, s.NamespaceOrDefault()), nil
}

// Job is one run of one service.
type Job struct {
	// Name is the service's name.
	Name string
	// Service is the plan's entry. Zero: the service left the plan before this process began.
	Service plan.Service
	// Rules are the policy of Service, compiled.
	Rules submit.Rules
	// Record is the stored inventory. It belongs to the run.
	Record inventory.Record
	// Objects is what is known of the service's objects, Member the service among others.
	Objects *observe.Objects
	Member  *ownership.Member
	// Arrived is when Service arrived, Timings what is known of its change.
	Arrived time.Time
	Timings report.Timings
	// IsChange means that the plan brings something that is not applied yet, IsRequested that a person
	// asked for the run. Hooks run, and people are told, in such runs only.
	IsChange, IsRequested bool
	// Turn is the run's right to work on the cluster. The run has a slot at its beginning and end.
	Turn *slots.Turn
	// Progress learns what others may see before the end.
	Progress Progress
}

// Progress is how a run and its unit meet while it is under way: the unit publishes what is known so
// far, and wakes the run when watches have news. It learns of a run before its end. Only the goroutine of the run calls Saved, SaveFingerprints
// and Await; Announce and Wake may be called concurrently.
type Progress interface {
	// Saved is called after the inventory was stored.
	Saved(record inventory.Record)
	// SaveFingerprints stores what is known of the objects for the next process.
	SaveFingerprints(ctx context.Context)
	// Announce publishes an event of one object.
	Announce(ref inventory.Ref, message string)
	// Await blocks until the condition holds. It asks again after every Wake and observation, and after
	// new orders. Error: the cause, if ctx ends before.
	Await(ctx context.Context, holds func() bool) error
	// Wake has Await ask again.
	Wake()
}

// Outcome is what a run has come to, also if it failed.
type Outcome struct {
	// Record is the inventory as the run has left it.
	Record inventory.Record
	// Timings are those of the change.
	Timings report.Timings
}
