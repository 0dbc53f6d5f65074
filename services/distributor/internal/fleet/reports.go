// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"reflect"
	"sync"
	"time"
	"weak"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// reports are the latest ones of services, by the service's uid: a service that is created again
// under its name does not inherit one. A large fleet has millions, most with equal content at
// different times, so reports share their content. It is safe for concurrent use.
type reports struct {
	mu    sync.RWMutex
	byUID map[catalog.UID]*heldReport
	// said are the contents of reports. An agent chooses its own, so it is held no longer than a
	// report has it.
	said map[gist]weak.Pointer[catalog.ServiceReport]
	// phases counts the reports by phase.
	phases map[catalog.Phase]int
}

func newReports() *reports {
	return &reports{
		byUID: map[catalog.UID]*heldReport{}, said: map[gist]weak.Pointer[catalog.ServiceReport]{}, phases: map[catalog.Phase]int{},
	}
}

// of returns the latest report of a service; the zero value before the first.
func (r *reports) of(service *catalog.Service) catalog.StoredReport {
	r.mu.RLock()
	held := r.byUID[catalog.UIDOf(service.UID)]
	r.mu.RUnlock()
	if held == nil {
		return catalog.StoredReport{}
	}
	return catalog.StoredReport{
		Service: service.Name, ServiceUID: service.UID, Report: held.report(), Entry: held.entry, ObservedGeneration: held.observedGeneration,
	}
}

// timeless returns the latest report of a service without its times, which costs less than of. It is nil
// before the first, and when the agent does not know the service.
func (r *reports) timeless(service *catalog.Service) *catalog.ServiceReport {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if held := r.byUID[catalog.UIDOf(service.UID)]; held != nil {
		return held.said
	}
	return nil
}

// has reports whether there is a report of the service with that uid.
func (r *reports) has(serviceUID string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	_, ok := r.byUID[catalog.UIDOf(serviceUID)]
	return ok
}

// put replaces a service's report. It reports whether that changed anything.
func (r *reports) put(service *catalog.Service, report catalog.StoredReport) (hasChanged bool) {
	next := hold(report)
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.byUID[catalog.UIDOf(service.UID)]
	if last != nil && last.equal(next) {
		return false
	}
	next.said = r.shareLocked(next.said)
	r.byUID[catalog.UIDOf(service.UID)] = next
	r.countLocked(last, -1)
	r.countLocked(next, 1)
	return true
}

// countLocked adds n to the count of the report's phase. A nil report has none.
func (r *reports) countLocked(report *heldReport, n int) {
	if report == nil || report.said == nil {
		return
	}
	if r.phases[report.said.Phase] += n; r.phases[report.said.Phase] == 0 {
		delete(r.phases, report.said.Phase) // an agent chooses the text
	}
}

// shareLocked returns a report without times that equals the given one.
func (r *reports) shareLocked(said *catalog.ServiceReport) *catalog.ServiceReport {
	if said == nil {
		return nil
	}
	key := gistOf(said)
	if key.size() > maxSharedBytes {
		return said
	}
	if known := r.said[key].Value(); known != nil && reflect.DeepEqual(known, said) {
		return known
	}
	if len(r.said) >= maxShared {
		clear(r.said)
	}
	r.said[key] = weak.Make(said) // the latest is the one that others are more likely to have, too
	return said
}

// forget drops the reports of deleted services.
func (r *reports) forget(serviceUIDs []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, uid := range serviceUIDs {
		r.countLocked(r.byUID[catalog.UIDOf(uid)], -1)
		delete(r.byUID, catalog.UIDOf(uid))
	}
}

// gist is that in which reports of a fleet differ most. Reports with one gist need not be equal.
type gist struct {
	phase                                catalog.Phase
	why                                  reason.Reason
	spec, config, digest, commit, before string
	counts                               catalog.Counts
}

func gistOf(said *catalog.ServiceReport) gist {
	g := gist{
		phase: said.Phase, spec: said.ObservedSpecDigest, config: said.AppliedConfigDigest,
		digest: first(said.AppliedDigests), commit: first(said.AppliedCommits), before: first(said.ObservedDigests), counts: said.Counts,
	}
	if said.Problem != nil {
		g.why = said.Problem.Reason
	}
	return g
}

// size returns about how many bytes of an agent's texts the gist holds.
func (g gist) size() int {
	return len(g.phase) + len(g.spec) + len(g.config) + len(g.digest) + len(g.commit) + len(g.before)
}

func first(texts []string) string {
	if len(texts) == 0 {
		return ""
	}
	return texts[0]
}

// heldReport is a report in little memory.
type heldReport struct {
	// said is the report without its times, and is shared. Nil: the agent does not know the service.
	said               *catalog.ServiceReport
	entry              string
	observedGeneration int64
	times              reportTimes
}

// hold returns a report as it is held, with its own copy of the content.
func hold(stored catalog.StoredReport) *heldReport {
	held := &heldReport{entry: stored.Entry, observedGeneration: stored.ObservedGeneration}
	if stored.Report != nil {
		said := *stored.Report
		held.times = takeTimes(&said)
		held.said = &said
	}
	return held
}

// report returns the report with its times.
func (h *heldReport) report() *catalog.ServiceReport {
	if h.said == nil {
		return nil
	}
	report := *h.said
	h.times.give(&report)
	return &report
}

func (h *heldReport) equal(other *heldReport) bool {
	return h.entry == other.entry && h.observedGeneration == other.observedGeneration && h.times == other.times &&
		(h.said == other.said || reflect.DeepEqual(h.said, other.said))
}

// reportTimes are the times of a report. A moment is in nanoseconds since 1970; zero: it is left in the
// report.
type reportTimes struct {
	appliedAt, phaseSince, plannedAt, arrivedAt                 int64
	applying, download, render, apply, untilHealthy, renderWait time.Duration
}

// takeTimes takes the times out of a report.
func takeTimes(r *catalog.ServiceReport) reportTimes {
	t := reportTimes{
		appliedAt: takeMoment(&r.AppliedAt), phaseSince: takeMoment(&r.PhaseSince), plannedAt: takeMoment(&r.PlannedAt),
		arrivedAt: takeMoment(&r.Timings.ArrivedAt), applying: r.ApplyDuration, download: r.Timings.Download, render: r.Timings.Render,
		apply: r.Timings.Apply, untilHealthy: r.Timings.Healthy, renderWait: r.Timings.RenderWait,
	}
	r.ApplyDuration = 0
	r.Timings = catalog.Timings{ArrivedAt: r.Timings.ArrivedAt}
	return t
}

// takeMoment takes a moment out of a report, unless it is one that a number of nanoseconds does not give
// back: an agent may report any.
func takeMoment(at *time.Time) int64 {
	n := at.UnixNano()
	if n == 0 || time.Unix(0, n).UTC() != *at {
		return 0
	}
	*at = time.Time{}
	return n
}

// give puts the times into a report from which they were taken.
func (t reportTimes) give(r *catalog.ServiceReport) {
	giveMoment(&r.AppliedAt, t.appliedAt)
	giveMoment(&r.PhaseSince, t.phaseSince)
	giveMoment(&r.PlannedAt, t.plannedAt)
	giveMoment(&r.Timings.ArrivedAt, t.arrivedAt)
	r.ApplyDuration = t.applying
	r.Timings.Download, r.Timings.Render, r.Timings.Apply = t.download, t.render, t.apply
	r.Timings.Healthy, r.Timings.RenderWait = t.untilHealthy, t.renderWait
}

func giveMoment(at *time.Time, n int64) {
	if n != 0 {
		*at = time.Unix(0, n).UTC()
	}
}
