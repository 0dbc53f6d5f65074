// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirroring

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// role is a replica's role for a repository.
type role string

const (
	roleOwner    role = "owner"
	roleFollower role = "follower" // should have a copy
)

const (
	// lateOwner and lateFollower are how many poll intervals old a mirror may be before it counts
	// as overdue. One is usual for an owner; a follower learns of it an interval later.
	lateOwner    = 2
	lateFollower = 4
)

// summary holds the gauges' values for all mirrors together.
type summary struct {
	phases  map[mirror.Phase]int64 // of the owned ones
	ages    map[role]time.Duration // since the stalest mirror equalled its upstream
	overdue map[role]int64
	packs   int // of the mirror that has most
}

func newSummary() summary {
	return summary{
		phases: map[mirror.Phase]int64{
			mirror.PhaseCloning: 0, mirror.PhaseReady: 0, mirror.PhaseStale: 0, mirror.PhaseFailed: 0, mirror.PhaseSuspended: 0,
		},
		ages: map[role]time.Duration{}, overdue: map[role]int64{},
	}
}

// add adds a mirror. It counts from memory: isPlaced reports who follows as if every replica owned
// its share.
func (s *summary) add(f fetchState, m mirrored, isPlaced bool, now time.Time) {
	s.packs = max(s.packs, m.content.Packs)
	is, late := roleFollower, lateFollower
	switch {
	case f.epoch != 0:
		is, late = roleOwner, lateOwner
		s.phases[phaseOf(f, m.content.Exists())]++
	case !isPlaced:
		return
	}
	if f.definition.Suspended || !m.content.Exists() {
		return
	}
	age := now.Sub(m.content.FreshAt)
	s.ages[is] = max(s.ages[is], age)
	if age > time.Duration(late)*f.schedule.Interval {
		s.overdue[is]++
	}
}

// gauges are read when the metrics are collected.
type gauges struct {
	owned, overdue, waiting               metric.Int64ObservableUpDownCounter
	staleness, waitingAge                 metric.Float64ObservableGauge
	maxPacks, packs, diskUsage, diskLimit metric.Int64ObservableGauge
}

// observe registers the gauges of the repositories that list returns, and of their disk.
func observe(meter metric.Meter, shared *shared, list func() []*Repository) error {
	var g gauges
	var errs [10]error
	g.owned, errs[0] = meter.Int64ObservableUpDownCounter("leat.mirror.owned", metric.WithUnit("{repository}"),
		metric.WithDescription("Repositories that this replica owns, by phase."))
	g.staleness, errs[1] = meter.Float64ObservableGauge("leat.mirror.staleness", metric.WithUnit("s"),
		metric.WithDescription("Time since the stalest mirror equalled its upstream."))
	g.overdue, errs[2] = meter.Int64ObservableUpDownCounter("leat.mirror.overdue", metric.WithUnit("{repository}"),
		metric.WithDescription("Mirrors that are older than their poll interval explains."))
	g.waiting, errs[3] = meter.Int64ObservableUpDownCounter("leat.mirror.waiting", metric.WithUnit("{repository}"),
		metric.WithDescription("Repositories that wait for their turn."))
	g.maxPacks, errs[4] = meter.Int64ObservableGauge("leat.mirror.packs.max", metric.WithUnit("{pack}"),
		metric.WithDescription("Packs of the mirror that has most of them."))
	g.packs, errs[5] = meter.Int64ObservableGauge("leat.mirror.packs", metric.WithUnit("{pack}"),
		metric.WithDescription("Packs of all mirrors on disk."))
	g.diskUsage, errs[6] = meter.Int64ObservableGauge("leat.mirror.disk.usage", metric.WithUnit("By"),
		metric.WithDescription("Bytes of mirrors on disk."))
	g.diskLimit, errs[7] = meter.Int64ObservableGauge("leat.mirror.disk.limit", metric.WithUnit("By"),
		metric.WithDescription("Bound of leat.mirror.disk.usage; 0: only the disk's."))
	g.waitingAge, errs[8] = meter.Float64ObservableGauge("leat.mirror.waiting.age", metric.WithUnit("s"),
		metric.WithDescription("For how long the repository has waited that has waited longest, by leat.queue; 0: none does."))
	_, errs[9] = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		all, view := newSummary(), shared.view()
		for _, r := range list() {
			all.add(r.status.fetching.read(), r.status.holding.read(), view.IsPlaced(r.status.placementKey), time.Now())
		}
		g.report(o, all, shared.Backend.Usage(), shared.metrics)
		return nil
	}, g.owned, g.staleness, g.overdue, g.waiting, g.waitingAge, g.maxPacks, g.packs, g.diskUsage, g.diskLimit)
	return errors.Join(errs[:]...)
}

func (g gauges) report(o metric.Observer, all summary, disk mirror.Usage, m *metrics) {
	for phase, n := range all.phases {
		o.ObserveInt64(g.owned, n, metric.WithAttributes(attribute.String("leat.mirror.phase", string(phase))))
	}
	for _, role := range []role{roleOwner, roleFollower} {
		is := metric.WithAttributes(attribute.String("leat.mirror.role", string(role)))
		o.ObserveFloat64(g.staleness, all.ages[role].Seconds(), is)
		o.ObserveInt64(g.overdue, all.overdue[role], is)
	}
	for q := range queues {
		of := metric.WithAttributes(attribute.Stringer("leat.queue", q))
		o.ObserveInt64(g.waiting, int64(m.waiting[q].Len()), of)
		o.ObserveFloat64(g.waitingAge, m.waiting[q].Age().Seconds(), of)
	}
	o.ObserveInt64(g.maxPacks, int64(all.packs))
	o.ObserveInt64(g.packs, int64(disk.Packs))
	o.ObserveInt64(g.diskUsage, disk.Bytes)
	o.ObserveInt64(g.diskLimit, disk.Limit)
}
