// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/metrics"
	"github.com/leatdev/leat/services/agent/internal/report"
)

var errUnknown = errors.New("unknown service")

// services are inventories by the name of the service.
type services map[string][]inventory.Key

func (s services) Objects(service string) ([]report.ObjectStatus, error) {
	keys, ok := s[service]
	if !ok {
		return nil, errUnknown
	}
	var all []report.ObjectStatus
	for _, key := range keys {
		all = append(all, report.ObjectStatus{Ref: inventory.Ref{Key: key}})
	}
	return all, nil
}

// database answers with series, and records what it was asked.
type database struct {
	series     []metrics.Series
	err        error
	at         string
	expression string
	window     metrics.Window
}

func (d *database) QueryRange(_ context.Context, at, expression string, window metrics.Window) ([]metrics.Series, error) {
	d.at, d.expression, d.window = at, expression, window
	return d.series, d.err
}

var end = time.Date(2026, time.November, 28, 12, 0, 7, 0, time.UTC)

func hour() metrics.Window { return metrics.Window{Start: end.Add(-time.Hour), End: end} }

func shop() services {
	return services{"shop": {
		{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "cart"},
		{Group: "apps", Kind: "StatefulSet", Namespace: "data", Name: "db"},
		{Kind: "Service", Namespace: "shop", Name: "cart"},
		{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: `a"}) or vector(1) #`},
	}, "empty": nil}
}

func ask(t *testing.T, d *database, request metrics.Request) (metrics.Answer, error) {
	t.Helper()
	source := metrics.New(shop(), d)
	source.SetService("monitoring/prometheus:9090")
	return source.Query(t.Context(), request)
}

func TestExpressionSelectsThePodsOfTheService(t *testing.T) {
	t.Parallel()
	d := &database{}
	answer, err := ask(t, d, metrics.Request{Service: "shop", Metric: metrics.CPU, Window: hour()})
	if err != nil {
		t.Fatal(err)
	}
	want := `sum by (namespace, pod) (rate(container_cpu_usage_seconds_total{namespace="data", pod=~"db-[0-9]+", container!="", container!="POD"}[300s]))` +
		` or sum by (namespace, pod) (rate(container_cpu_usage_seconds_total{namespace="shop", ` +
		`pod=~"cart-[bcdfghjklmnpqrstvwxz2456789]{1,10}-[bcdfghjklmnpqrstvwxz2456789]{5}", container!="", container!="POD"}[300s]))`
	if d.at != "monitoring/prometheus:9090" || d.expression != want || answer.Expression != want {
		t.Errorf("asked %s for\n%s\nwant\n%s", d.at, d.expression, want)
	}
	if d.window.Step != 15*time.Second || !d.window.Start.Equal(time.Date(2026, time.November, 28, 11, 0, 0, 0, time.UTC)) || !d.window.End.Equal(end) {
		t.Errorf("got %+v, want points each 15 s, at multiples of that", d.window)
	}
	for metric := metrics.CPU; metric <= metrics.NetworkSent; metric++ {
		if _, err := ask(t, d, metrics.Request{Service: "shop", Metric: metric, Window: hour()}); err != nil || strings.Count(d.expression, "pod=~") < 2 ||
			strings.Contains(d.expression, "SELECT") || strings.Contains(d.expression, "RATE") {
			t.Errorf("metric %d: got %v, %s", metric, err, d.expression)
		}
	}
}

// TestNoNameOfTheInventoryEndsItsText has workloads whose names no API server would accept.
func TestNoNameOfTheInventoryEndsItsText(t *testing.T) {
	t.Parallel()
	d := &database{}
	evil := "x\"} or on() {pod=~\".*\n\\"
	source := metrics.New(services{"a": {{Kind: "Pod", Namespace: evil, Name: evil}, {Group: "apps", Kind: "Deployment", Namespace: evil, Name: ".*|"}}}, d)
	source.SetService("a/b:1")
	if _, err := source.Query(t.Context(), metrics.Request{Service: "a", Metric: metrics.Memory, Window: hour()}); err != nil {
		t.Fatal(err)
	}
	// Outside of texts there is nothing but the template's own.
	bare := regexp.MustCompile(`"(?:[^"\\]|\\.)*"`).ReplaceAllString(d.expression, "T")
	if want := `sum by (namespace, pod) (container_memory_working_set_bytes{namespace=T, pod=~T, container!=T, container!=T})`; bare != want || strings.Contains(d.expression, "\n") {
		t.Errorf("got %s, want %s", bare, want)
	}
}

func TestNamesOfPods(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 60)
	for kind, tests := range map[string]map[string]bool{
		"apps/Deployment cart":         {"cart-7d4b9c5f68-x2k9z": true, "cart-5-bbbbb": true, "cart-web-x2k9z": false, "cart-7d4b9c5f68": false, "cart-db-7d4b9c5f68-x2k9z": false, "xcart-7d4b9-x2k9z": false},
		"apps/Deployment " + long:      {long[:58] + "x2k9z": true, long + "-7d4b9-x2k9z": false},
		"apps/Deployment " + long[:48]: {long[:48] + "-7d4b9c5f6x2k9z": true, long[:48] + "-7d4b9-x2k9z": true},
		"apps/StatefulSet db":          {"db-0": true, "db-12": true, "db-x": false},
		"apps/DaemonSet a.b":           {"a.b-x2k9z": true, "axb-x2k9z": false},
		"apps/ReplicaSet r":            {"r-x2k9z": true, "r-x2k9z-x2k9z": false},
		"batch/Job once":               {"once-x2k9z": true, "once-3-x2k9z": true, "once-1": false},
		"batch/CronJob nightly":        {"nightly-29404800-x2k9z": true, "nightly-29404800-0": false},
		"argoproj.io/Rollout web":      {"web-7d4b9c5f68-x2k9z": true},
		"/Pod lone":                    {"lone": true, "lone-x2k9z": false},
		"/ConfigMap c":                 {"c": false},
	} {
		place, name, _ := strings.Cut(kind, " ")
		group, kind, _ := strings.Cut(place, "/")
		for pod, want := range tests {
			d := &database{series: []metrics.Series{{Namespace: "n", Pod: pod, Points: []metrics.Point{{Time: end, Value: 1}}}}}
			source := metrics.New(services{"s": {{Group: group, Kind: kind, Namespace: "n", Name: name}}}, d)
			source.SetService("a/b:1")
			answer, err := source.Query(t.Context(), metrics.Request{Service: "s", Metric: metrics.CPU, Window: hour()})
			if err != nil || (len(answer.Series) == 1) != want {
				t.Errorf("%s %s: got %v, %v for the pod %s, want %v", kind, name, answer.Series, err, pod, want)
			}
		}
	}
}

func TestWhatAHostileDatabaseAnswersIsLeftOut(t *testing.T) {
	t.Parallel()
	point := func(after time.Duration, value float64) metrics.Point {
		return metrics.Point{Time: end.Add(-time.Hour).Add(after), Value: value}
	}
	good := metrics.Series{Namespace: "data", Pod: "db-0", Points: []metrics.Point{point(0, 1), point(time.Minute, 3)}}
	d := &database{series: []metrics.Series{
		{Namespace: "kube-system", Pod: "db-0", Points: []metrics.Point{point(0, 9)}},
		{Namespace: "data", Pod: "<script>", Points: []metrics.Point{point(0, 9)}},
		{Namespace: "data", Pod: "db-1"},
		{Namespace: "data", Pod: "db-2", Points: []metrics.Point{point(0, math.NaN()), point(time.Minute, math.Inf(1)), point(-time.Hour, 1), point(2*time.Hour, 1)}},
		{Namespace: "data", Pod: "db-3", Points: make([]metrics.Point, 501)},
		{Namespace: "data", Pod: "db-0", Points: []metrics.Point{point(0, 1), point(time.Minute, 3), point(2*time.Minute, math.NaN())}},
	}}
	answer, err := ask(t, d, metrics.Request{Service: "shop", Metric: metrics.Memory, Window: hour()})
	if diff := cmp.Diff([]metrics.Series{good}, answer.Series); err != nil || diff != "" {
		t.Errorf("%v, series (-want +got):\n%s", err, diff)
	}
	d.series = nil
	for i := range 60 {
		d.series = append(d.series, metrics.Series{Namespace: "data", Pod: fmt.Sprintf("db-%d", i), Points: []metrics.Point{point(0, float64(i))}})
	}
	answer, err = ask(t, d, metrics.Request{Service: "shop", Metric: metrics.Memory, Window: hour()})
	if err != nil || len(answer.Series) != 50 || answer.LeftOut != 10 || answer.Series[0].Pod != "db-59" {
		t.Errorf("got %d series, %d left out, %v; want the 50 largest and 10", len(answer.Series), answer.LeftOut, err)
	}
}

func TestQuestionsThatAreRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		window metrics.Window
		field  string
	}{
		"end before start": {metrics.Window{Start: end, End: end.Add(-time.Second)}, "start"},
		"no time":          {metrics.Window{Start: end, End: end}, "start"},
		"32 days":          {metrics.Window{Start: end.Add(-32 * 24 * time.Hour), End: end}, "start"},
		"the year 1":       {metrics.Window{Start: time.Time{}.Add(time.Second), End: end}, "start"},
		"many points":      {metrics.Window{Start: end.Add(-time.Hour), End: end, Step: 7 * time.Second}, "step"},
		"a negative step":  {metrics.Window{Start: end.Add(-time.Hour), End: end, Step: -time.Minute}, "step"},
		"a tiny step":      {metrics.Window{Start: end.Add(-time.Second), End: end, Step: time.Millisecond}, "step"},
	} {
		d := &database{}
		_, err := ask(t, d, metrics.Request{Service: "shop", Metric: metrics.CPU, Window: test.window})
		if field, ok := errors.AsType[*fielderr.Error](err); !ok || field.Path != test.field || d.expression != "" {
			t.Errorf("%s: got %v, want an error at %s", name, err, test.field)
		}
	}
	if _, err := ask(t, &database{}, metrics.Request{Service: "other", Metric: metrics.CPU}); !errors.Is(err, errUnknown) {
		t.Errorf("another service: got %v", err)
	}
	answer, err := ask(t, &database{}, metrics.Request{Service: "empty", Metric: metrics.CPU})
	if err != nil || answer.Expression != "" || len(answer.Series) > 0 {
		t.Errorf("a service without workloads: got %+v, %v, want nothing", answer, err)
	}
	down := reason.Errorf(reason.MetricsUnavailable, "down")
	if _, err := ask(t, &database{err: down}, metrics.Request{Service: "shop", Metric: metrics.CPU}); !errors.Is(err, down) {
		t.Errorf("got %v, want the database's error", err)
	}
	for _, set := range []bool{false, true} {
		source := metrics.New(shop(), &database{})
		if set {
			source.SetService("")
		}
		_, err := source.Query(t.Context(), metrics.Request{Service: "shop", Metric: metrics.CPU})
		if problem := reason.ProblemOf(err); problem.Reason != reason.MetricsNotConfigured || !strings.Contains(problem.Message, "spec.agent.metrics") {
			t.Errorf("without a Prometheus: got %v, want METRICS_NOT_CONFIGURED that names the field", err)
		}
	}
}

// TestWindows has every length of time at its default step within the bound of points.
func TestWindows(t *testing.T) {
	t.Parallel()
	for span := time.Second; span <= 31*24*time.Hour; span += span/7 + time.Second {
		d := &database{}
		_, err := ask(t, d, metrics.Request{Service: "shop", Metric: metrics.CPU, Window: metrics.Window{Start: end.Add(-span), End: end}})
		if points := d.window.End.Sub(d.window.Start)/max(1, d.window.Step) + 1; err != nil || points > 500 {
			t.Fatalf("%s: got %v, %d points", span, err, points)
		}
	}
}
