// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/internal/kit/wake"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

const (
	// readAtOnce is how many clusters' reports are read at a time, and taken over while edits wait.
	readAtOnce = 16
	// readAtStart is how long Load reads reports of derived services. It is enough for some 200,000.
	readAtStart = 2 * time.Second
	// readRest is how many times as long as it works ReadReports rests: agents come back at the same time, and what
	// it reads becomes garbage, which costs a hub with a large heap more than the reading.
	readRest = 2
	// readAgainAfter is the pause after the store did not answer.
	readAgainAfter = time.Second
)

// reading reads the reports of derived services after the view was loaded. A large fleet has millions, and
// its agents should not wait for them. It is safe for concurrent use.
type reading struct {
	view *View

	mu sync.RWMutex
	// left has the clusters whose reports are not read, their names by their uids.
	left map[string]string
	// done is closed when none is left.
	done chan struct{}
}

func newReading(v *View) *reading {
	return &reading{view: v, left: map[string]string{}, done: make(chan struct{})}
}

// isLeft reports whether reports of the cluster are not read.
func (r *reading) isLeft(clusterUID string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	_, isLeft := r.left[clusterUID]
	return isLeft
}

// next returns some of the clusters that are left, their names by their uids.
func (r *reading) next() map[string]string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	some := make(map[string]string, readAtOnce)
	for uid, name := range r.left {
		if some[uid] = name; len(some) == readAtOnce {
			break
		}
	}
	return some
}

// add adds clusters, and end takes them off.
func (r *reading) add(clusters map[string]*catalog.Cluster) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, cluster := range clusters {
		r.left[cluster.UID] = name
	}
	r.settleLocked()
}

func (r *reading) end(clusters map[string]string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for uid := range clusters {
		delete(r.left, uid)
	}
	r.settleLocked()
}

func (r *reading) settleLocked() {
	if len(r.left) == 0 && !wake.IsClosed(r.done) {
		close(r.done)
	}
}

// begin notes that no report of a derived service is read, and reads what takes a moment.
func (r *reading) begin(ctx context.Context) {
	c := r.view.Catalog
	c.mu.RLock()
	clusters := map[string]*catalog.Cluster{}
	if len(c.contents.globals.objects) > 0 {
		clusters = maps.Clone(c.contents.clusters.objects)
	}
	c.mu.RUnlock()
	r.add(clusters)
	for begun := time.Now(); !wake.IsClosed(r.done) && time.Since(begun) < readAtStart; {
		if err := r.some(ctx); err != nil {
			return // ReadReports tries again
		}
	}
}

// ReadReports reads the reports of derived services that View.Load has left, and ends when all are read. It
// begins some time after the services are derived, for which all agents wait, and rests most of the time.
func ReadReports(ctx context.Context, v *View) error {
	select {
	case <-v.Catalog.contents.derived.settled:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if !wake.IsClosed(v.reading.done) && len(Policies{v.Catalog}.inOrder()) == 0 { // or plans may follow from reports
		if err := backoff.Wait(ctx, v.p.ReadReportsAfter); err != nil {
			return err
		}
	}
	for !wake.IsClosed(v.reading.done) {
		begun := time.Now()
		err := v.reading.some(ctx)
		pause := readRest * time.Since(begun)
		if err != nil {
			v.p.Logger.WarnContext(ctx, "reports of derived services not read", slog.Any("error", err))
			pause = readAgainAfter
		}
		if err := backoff.Wait(ctx, pause); err != nil {
			return err
		}
	}
	return nil
}

// some reads the reports of some clusters, and takes them over. One that is known is of a later change.
func (r *reading) some(ctx context.Context) error {
	v, clusters := r.view, r.next()
	reports, err := v.p.Store.DerivedReports(ctx, slices.Collect(maps.Keys(clusters)))
	if err != nil {
		return err
	}
	v.refreshing.Lock()
	defer v.refreshing.Unlock()
	defer v.writing.take()()
	set := newChangeSet()
	for _, report := range reports {
		if v.reports.has(report.ServiceUID) {
			continue
		}
		if service := takeReport(ctx, v, report, set); service != nil && v.plans.needsReport(service) {
			set.addService(service)
		}
	}
	r.end(clusters)
	v.revise(ctx, set)
	v.p.Plans.Publish(slices.Collect(maps.Values(clusters))...) // of the held ones
	return nil
}

// all reads the reports of derived services in all clusters.
func (r *reading) all(ctx context.Context, clusters []*catalog.Cluster) ([]catalog.StoredReport, error) {
	var all []catalog.StoredReport
	for chunk := range slices.Chunk(clusters, readAtOnce) {
		uids := make([]string, len(chunk))
		for i, cluster := range chunk {
			uids[i] = cluster.UID
		}
		reports, err := r.view.p.Store.DerivedReports(ctx, uids)
		if err != nil {
			return nil, err
		}
		all = append(all, reports...)
	}
	return all, nil
}

// holdsBack reports whether the plan of a cluster follows from reports that are not read.
func (r *reading) holdsBack(cluster *catalog.Cluster) bool {
	if !r.isLeft(cluster.UID) || len(Policies{r.view.Catalog}.inOrder()) == 0 {
		return false
	}
	_, services := r.view.Catalog.servicesOf(cluster.Name)
	return slices.ContainsFunc(services, r.view.plans.needsReport)
}

// lacks reports whether a service has a report that is not read, if it has one.
func (r *reading) lacks(service *catalog.Service) bool {
	if service.Derived == nil || wake.IsClosed(r.done) {
		return false
	}
	cluster, ok := r.view.Catalog.Cluster(service.Spec.Cluster)
	return ok && r.isLeft(cluster.UID)
}

// takeReport takes over a report, and returns its service if there is one. The record of a service
// stays if its stored report is damaged. The caller holds View.refreshing.
func takeReport(ctx context.Context, v *View, report catalog.StoredReport, set *changeSet) *catalog.Service {
	service, ok := v.Catalog.Service(report.Service)
	isCurrent := ok && service.UID == report.ServiceUID
	switch {
	case report.Damage != nil:
		v.p.Logger.ErrorContext(ctx, "stored report cannot be read; its service counts as before until the agent reports on it again",
			slog.String("service", report.Service), slog.Any("error", report.Damage))
		if isCurrent {
			return service
		}
	case isCurrent:
		if v.reports.put(service, v.sharing.report(service, report)) {
			set.addStatus(service)
		}
		return service
	case Globals{v.Catalog}.isExpected(report):
		later := &catalog.Service{Metadata: catalog.Metadata{Name: report.Service, UID: report.ServiceUID}}
		v.reports.put(later, v.sharing.report(later, report))
	}
	return nil
}

// unreadReport is the problem of a service whose report is not read.
func unreadReport() *catalog.Problem {
	return &catalog.Problem{
		Reason: reason.ReportUnread, Message: "the hub has just started, and has not read yet what the agent reported before; this takes some minutes in a very large fleet",
	}
}
