// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"crypto/rand"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/gen/go/leat/distributor/v1/distributorv1connect"
	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/internal/kit/wake"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/agent/internal/reconcile"
	"github.com/leatdev/leat/services/agent/internal/report"
)

const (
	// coalesce is how long a report waits for further changes. That is short enough for people who
	// watch, and long enough for the many changes after a new commit.
	coalesce = 200 * time.Millisecond
	// maxReport is the size above which a report omits details that the hub can request otherwise.
	maxReport = 4 << 20
	// fewObjects is how many objects that need attention a service keeps in a report that is too
	// large.
	fewObjects = 3
)

// ReportParams are the collaborators of NewReports.
type ReportParams struct {
	// Hub is a client that sends the agent's token.
	Hub      distributorv1connect.DistributorServiceClient
	Identity *Identity
	Logger   *slog.Logger
}

// Reports sends the states of services to the hub. No state is dropped: one that the hub has not
// acknowledged is sent again, in its newest form. The queue is bounded by the number of services,
// and one description of the cluster. It is safe for concurrent use.
type Reports struct {
	params   ReportParams
	instance string
	wake     wake.Signal

	mu       sync.Mutex
	latest   map[string]*distributorv1.ServiceReport // of every service
	changed  map[string]bool                         // since the last acknowledged report
	full     bool                                    // the next report has to contain every service
	plan     string                                  // version of the adopted plan
	adopted  bool                                    // a plan was adopted
	cluster  *distributorv1.ClusterReport            // the latest description of agent and cluster
	describe clusterNews                             // the parts of it that the next report has to contain
	sequence uint64
	acked    uint64  // the latest sequence that the hub has acknowledged
	greeted  bool    // the hub has heard of this process
	replaces *string // the process whose reports the hub had then; nil: unknown
}

var _ reconcile.Reporter = (*Reports)(nil)

// NewReports returns Reports that send nothing before Run.
func NewReports(p ReportParams) *Reports {
	return &Reports{
		params: p, instance: rand.Text(), wake: wake.NewSignal(),
		latest: map[string]*distributorv1.ServiceReport{}, changed: map[string]bool{},
		full: true, // the hub must forget what an earlier process reported
	}
}

// Report implements reconcile.Reporter.
func (r *Reports) Report(s report.Status) {
	r.mu.Lock()
	r.latest[s.Service], r.changed[s.Service] = reportOf(s), true
	r.mu.Unlock()
	r.wake.Set()
}

// Forget implements reconcile.Reporter.
func (r *Reports) Forget(service string) {
	r.mu.Lock()
	delete(r.latest, service)
	delete(r.changed, service)
	r.full = true // only a full report removes a service at the hub
	r.mu.Unlock()
	r.wake.Set()
}

// Adopted implements reconcile.Reporter. Nothing is sent before the first plan is adopted: a full
// report would make the hub forget services that have not been examined yet.
func (r *Reports) Adopted(version string) {
	r.mu.Lock()
	r.plan, r.adopted = version, true
	r.mu.Unlock()
	r.wake.Set()
}

// Describe sets the description of agent and cluster. Reports sends its changed parts. The caller
// must not change it afterwards.
func (r *Reports) Describe(cluster *distributorv1.ClusterReport) {
	r.mu.Lock()
	news, lost := newsSince(r.cluster, cluster)
	r.cluster, r.describe, r.full = cluster, r.describe.and(news), r.full || lost
	r.mu.Unlock()
	if news.report || lost {
		r.wake.Set()
	}
}

// Run sends reports, one at a time, until ctx is done; then it returns nil.
func (r *Reports) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.wake:
		}
		// Both fail only if ctx is done.
		_ = backoff.Wait(ctx, coalesce)
		_ = backoff.Retry(ctx, backoff.Policy{Initial: 500 * time.Millisecond, Max: 30 * time.Second}, r.send)
	}
}

// send sends the changes. Every attempt sends the newest state.
func (r *Reports) send(ctx context.Context) error {
	if !r.isDue() {
		return nil
	}
	if err := r.greet(ctx); err != nil {
		return err
	}
	request, taken := r.take()
	response, err := r.call(ctx, request)
	if err != nil {
		r.restore(request, taken)
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !response.GetWantFull() {
		r.acked = request.GetSequence()
		return nil
	}
	r.full, r.replaces = true, response.CurrentInstance
	r.wake.Set()
	return nil
}

// greet asks the hub once which process's reports it has. A report that names the process it
// replaces cannot be mistaken for a delayed one of an ended process. Hubs that do not support the
// question ask for a full report.
func (r *Reports) greet(ctx context.Context) error {
	r.mu.Lock()
	greeted := r.greeted
	if !greeted {
		r.sequence++
	}
	hello := &distributorv1.ReportStatusRequest{PlanVersion: r.plan, Instance: r.instance, Sequence: r.sequence}
	r.mu.Unlock()
	if greeted {
		return nil
	}
	response, err := r.call(ctx, hello)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.greeted, r.replaces = true, response.CurrentInstance
	return nil
}

// call calls the hub once, and waits as long as the hub demands.
func (r *Reports) call(ctx context.Context, request *distributorv1.ReportStatusRequest) (*distributorv1.ReportStatusResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	response, err := r.params.Hub.ReportStatus(ctx, request)
	if err == nil {
		return response, nil
	}
	_ = r.params.Identity.checkAnswer(err)
	r.params.Logger.DebugContext(ctx, "hub did not acknowledge the report, sending it again", slog.Any("error", err))
	if delay, ok := rpcerr.RetryDelay(err); ok {
		err = backoff.RetryAfter(err, delay)
	}
	return nil, err
}

// isDue reports whether there are changes to send.
func (r *Reports) isDue() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.adopted && (len(r.changed) > 0 || r.full || r.describe.report)
}

// take returns a request with the changes, and marks them as sent.
func (r *Reports) take() (*distributorv1.ReportStatusRequest, map[string]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sequence++
	request := &distributorv1.ReportStatusRequest{
		PlanVersion: r.plan, Full: r.full, Instance: r.instance, Sequence: r.sequence, Acknowledged: r.acked,
	}
	if r.full {
		request.Replaces, r.describe = r.replaces, allNews()
	}
	for _, service := range slices.Sorted(maps.Keys(r.latest)) {
		if r.full || r.changed[service] {
			request.Services = append(request.Services, r.latest[service])
		}
	}
	request.Cluster = r.describe.of(r.cluster, r.full)
	taken := r.changed
	r.changed, r.full, r.describe = map[string]bool{}, false, clusterNews{}
	return trim(request), taken
}

// restore marks the changes of a request as unsent again.
func (r *Reports) restore(request *distributorv1.ReportStatusRequest, taken map[string]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for service := range taken {
		if r.latest[service] != nil {
			r.changed[service] = true
		}
	}
	r.full = r.full || request.GetFull()
	r.describe = r.describe.and(newsIn(request))
}

// trim bounds a report to the size of one message.
func trim(request *distributorv1.ReportStatusRequest) *distributorv1.ReportStatusRequest {
	if proto.Size(request) <= maxReport {
		return request
	}
	for i, service := range request.GetServices() {
		short := proto.CloneOf(service)
		short.Objects = short.GetObjects()[:min(fewObjects, len(short.GetObjects()))]
		short.Drift = short.GetDrift()[:min(fewObjects, len(short.GetDrift()))]
		short.Tests = short.GetTests()[max(len(short.GetTests())-fewObjects, 0):]
		if short.GetDryRun() != nil {
			short.DryRun.Changes = short.GetDryRun().GetChanges()[:min(fewObjects, len(short.GetDryRun().GetChanges()))]
		}
		request.Services[i] = short
	}
	return request
}
