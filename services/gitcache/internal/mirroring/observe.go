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
	"github.com/leatdev/leat/services/gitcache/internal/mirroring/placement"
)

// role is what a replica has to do with a repository.
type role string

const (
	roleNone     role = ""
	roleOwner    role = "owner"
	roleFollower role = "follower" // should have a copy
)

const (
	// lateOwner and lateFollower are how many poll intervals old a mirror may be before it counts
	// as overdue. One is usual for an owner; a follower learns of it an interval later.
	lateOwner    = 2
	lateFollower = 4
)

// standing is how a mirror stands at one moment.
type standing struct {
	role      role
	phase     mirror.Phase
	age       time.Duration // since it equalled the upstream; 0 where there is no mirror
	isOverdue bool
	packs     int
}

// standingOf returns how a mirror stands. It answers from memory: isPlaced says who follows as if
// everybody owned what they should.
func standingOf(f fetchState, m mirrored, isPlaced bool, now time.Time) standing {
	s := standing{phase: phaseOf(f, m.content.Exists()), packs: m.content.Packs}
	late := lateOwner
	switch {
	case f.epoch != 0:
		s.role = roleOwner
	case isPlaced:
		s.role, late = roleFollower, lateFollower
	}
	if s.role != roleNone && !f.definition.Suspended && m.content.Exists() {
		s.age = max(now.Sub(m.content.FreshAt), 0)
		s.isOverdue = s.age > time.Duration(late)*f.schedule.Interval
	}
	return s
}

// summary is what the gauges show of all mirrors together.
type summary struct {
	phases  map[mirror.Phase]int64 // of those that are owned
	worst   map[role]time.Duration
	overdue map[role]int64
	packs   int // of the mirror that has most
}

func summarize(view placement.View, list []*Repository, now time.Time) summary {
	all := summary{
		phases: map[mirror.Phase]int64{
			mirror.PhaseCloning: 0, mirror.PhaseReady: 0, mirror.PhaseStale: 0, mirror.PhaseFailed: 0, mirror.PhaseSuspended: 0,
		},
		worst:   map[role]time.Duration{roleOwner: 0, roleFollower: 0},
		overdue: map[role]int64{roleOwner: 0, roleFollower: 0},
	}
	for _, r := range list {
		one := standingOf(r.status.fetching.read(), r.status.holding.read(), view.IsPlaced(r.status.placementKey), now)
		if one.role == roleOwner {
			all.phases[one.phase]++
		}
		if one.role != roleNone {
			all.worst[one.role] = max(all.worst[one.role], one.age)
		}
		if one.isOverdue {
			all.overdue[one.role]++
		}
		all.packs = max(all.packs, one.packs)
	}
	return all
}

// gauges are read when somebody looks at the metrics.
type gauges struct {
	owned, overdue, waiting metric.Int64ObservableUpDownCounter
	staleness               metric.Float64ObservableGauge
	packs                   metric.Int64ObservableGauge
}

// observe registers the gauges of the repositories that list returns.
func observe(meter metric.Meter, shared *shared, list func() []*Repository) error {
	var g gauges
	var errs [6]error
	g.owned, errs[0] = meter.Int64ObservableUpDownCounter("leat.mirror.owned", metric.WithUnit("{repository}"),
		metric.WithDescription("Repositories that this replica owns, by phase."))
	g.staleness, errs[1] = meter.Float64ObservableGauge("leat.mirror.staleness", metric.WithUnit("s"),
		metric.WithDescription("Time since the stalest mirror equalled its upstream."))
	g.overdue, errs[2] = meter.Int64ObservableUpDownCounter("leat.mirror.overdue", metric.WithUnit("{repository}"),
		metric.WithDescription("Mirrors that are older than their poll interval explains."))
	g.waiting, errs[3] = meter.Int64ObservableUpDownCounter("leat.mirror.waiting", metric.WithUnit("{repository}"),
		metric.WithDescription("Repositories that wait for their turn."))
	g.packs, errs[4] = meter.Int64ObservableGauge("leat.mirror.packs.max", metric.WithUnit("{pack}"),
		metric.WithDescription("Packs of the mirror that has most of them."))
	_, errs[5] = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		g.report(o, summarize(shared.view(), list(), time.Now()))
		for q := range queues {
			is := metric.WithAttributes(attribute.Stringer("leat.queue", q))
			o.ObserveInt64(g.waiting, shared.metrics.waiting[q].Load(), is)
		}
		return nil
	}, g.owned, g.staleness, g.overdue, g.waiting, g.packs)
	return errors.Join(errs[:]...)
}

func (g gauges) report(o metric.Observer, all summary) {
	for phase, n := range all.phases {
		o.ObserveInt64(g.owned, n, metric.WithAttributes(attribute.String("leat.mirror.phase", string(phase))))
	}
	for _, role := range []role{roleOwner, roleFollower} {
		is := metric.WithAttributes(attribute.String("leat.mirror.role", string(role)))
		o.ObserveFloat64(g.staleness, all.worst[role].Seconds(), is)
		o.ObserveInt64(g.overdue, all.overdue[role], is)
	}
	o.ObserveInt64(g.packs, int64(all.packs))
}
