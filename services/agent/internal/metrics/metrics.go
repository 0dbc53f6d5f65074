// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package metrics answers what the pods of a service used over time, by the cluster's Prometheus.
//
// The callers choose a metric and times; the package writes the expression from the inventory of
// the service, so that no caller's text reaches Prometheus. Prometheus is not trusted either: only
// figures of pods that the expression selects leave the package, and only a bounded number of them.
package metrics

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// Bounds of a question and its answer.
const (
	maxRange     = 31 * 24 * time.Hour
	maxPoints    = 500
	maxSeries    = 50
	defaultRange = time.Hour
	minStep      = time.Second
	// A step that the caller leaves open makes so many points, and is no shorter than Prometheus
	// usually scrapes.
	defaultPoints = 240
	defaultStep   = 15 * time.Second
	// maxRunning is how many questions Prometheus answers at once, and timeout bounds each, its wait
	// for a turn included.
	maxRunning = 4
	timeout    = 30 * time.Second
)

// Window is a span of time and the times in it: Start, and every Step up to End.
type Window struct {
	Start, End time.Time
	Step       time.Duration
}

// Request asks for one metric of a service. Times that are zero take their default.
type Request struct {
	Service string
	Metric  Metric
	Window  Window
}

// Answer are the series with the largest figures, the largest first.
type Answer struct {
	Series  []Series
	LeftOut int
	Step    time.Duration
	// Expression is the one that Prometheus answered. Empty: the service has no workloads.
	Expression string
}

// Series is one line. Container is empty for the sum over a pod's containers.
type Series struct {
	Namespace, Pod, Container string
	Points                    []Point
}

// Point is one figure.
type Point struct {
	Time  time.Time
	Value float64
}

// Services lists the objects of a service, from its inventory. Engine implements it.
type Services interface {
	Objects(service string) ([]report.ObjectStatus, error)
}

// Database evaluates an expression of PromQL. Implementations bound what they read, and return
// *reason.Problem: MetricsUnavailable if the database does not answer, or not with series, and
// MetricsNotConfigured if the agent may not ask this service. They may be called concurrently.
type Database interface {
	QueryRange(ctx context.Context, service, expression string, window Window) ([]Series, error)
}

// Source answers questions. It is safe for concurrent use.
type Source struct {
	services Services
	database Database
	at       atomic.Pointer[string]
	running  chan struct{}
}

// New returns a Source that knows no Prometheus yet.
func New(services Services, database Database) *Source {
	return &Source{services: services, database: database, running: make(chan struct{}, maxRunning)}
}

// SetService sets the service in the cluster that is Prometheus, by the hub's settings. Empty: none.
func (s *Source) SetService(service string) { s.at.Store(&service) }

// Query answers a request. Errors: reconcile.ErrUnknownService, *fielderr.Error, *reason.Problem.
func (s *Source) Query(ctx context.Context, request Request) (Answer, error) {
	window, err := request.Window.settle(time.Now())
	if err != nil {
		return Answer{}, err
	}
	objects, err := s.services.Objects(request.Service)
	if err != nil {
		return Answer{}, err
	}
	at := s.at.Load()
	if at == nil || *at == "" {
		return Answer{}, reason.Errorf(reason.MetricsNotConfigured,
			"the agent does not know the cluster's Prometheus; set spec.agent.metrics of the cluster, such as monitoring/prometheus:9090")
	}
	pods := podsOf(objects)
	answer := Answer{Step: window.Step, Expression: pods.expression(request.Metric, window.Step)}
	if answer.Expression == "" {
		return answer, nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	select {
	case s.running <- struct{}{}:
		defer func() { <-s.running }()
	case <-ctx.Done():
		return Answer{}, reason.Errorf(reason.MetricsUnavailable, "the agent asks %s too much already; try again", *at)
	}
	all, err := s.database.QueryRange(ctx, *at, answer.Expression, window)
	if err != nil {
		return Answer{}, err
	}
	answer.Series, answer.LeftOut = largest(all, pods, window)
	return answer, nil
}

// settle sets what the caller left open, and checks the rest.
func (w Window) settle(now time.Time) (Window, error) {
	if w.End.IsZero() {
		w.End = now
	}
	if w.Start.IsZero() {
		w.Start = w.End.Add(-defaultRange)
	}
	span := w.End.Sub(w.Start)
	switch {
	case !w.Start.Before(w.End):
		return Window{}, fielderr.New("start", "is not before the end")
	case span > maxRange:
		return Window{}, fielderr.New("start", "is more than 31 days before the end")
	case w.Step < 0 || w.Step > 0 && w.Step < minStep:
		return Window{}, fielderr.New("step", "is %s; it must be at least %s", w.Step, minStep)
	}
	if w.Step == 0 {
		w.Step = max(defaultStep, (span / defaultPoints).Truncate(time.Second))
	}
	if span/w.Step >= maxPoints-1 { // and one more, because the start is moved to a multiple of the step
		return Window{}, fielderr.New("step", "makes more than %d points; name a longer one", maxPoints)
	}
	w.Start = w.Start.Truncate(w.Step) // so that the points of later answers are at the same times
	return w, nil
}

// largest returns the series with the largest figures of those that were asked for, and how many
// more there are.
func largest(all []Series, pods selection, window Window) (kept []Series, leftOut int) {
	peaks := map[*Point]float64{} // by the first point
	for _, series := range all {
		if !pods.has(series.Namespace, series.Pod) {
			continue
		}
		series.Points = slices.DeleteFunc(series.Points, func(p Point) bool {
			return math.IsNaN(p.Value) || math.IsInf(p.Value, 0) || p.Time.Before(window.Start.Add(-time.Millisecond)) || p.Time.After(window.End)
		})
		if len(series.Points) == 0 || len(series.Points) > maxPoints {
			continue
		}
		peaks[&series.Points[0]] = slices.MaxFunc(series.Points, func(a, b Point) int { return cmp.Compare(a.Value, b.Value) }).Value
		kept = append(kept, series)
	}
	slices.SortStableFunc(kept, func(a, b Series) int {
		return cmp.Or(cmp.Compare(peaks[&b.Points[0]], peaks[&a.Points[0]]),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.Container, b.Container))
	})
	leftOut = max(0, len(kept)-maxSeries)
	return kept[:len(kept)-leftOut], leftOut
}
