// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reference_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/leatdev/leat/cli/internal/reference"
)

const source = "../../.."

func TestPagesAreUpToDate(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	if err := reference.Write(out, source); err != nil {
		t.Fatal(err)
	}
	for _, page := range []string{"config.md", "errors.md", "metrics.md"} {
		want, err := os.ReadFile(filepath.Join(out, page))
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(source, "docs", "reference", page))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) {
			t.Errorf("docs/reference/%s is out of date; run make docs", page)
		}
	}
}

func TestInstrumentsAreFoundHoweverTheyAreMade(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write(t, filepath.Join(folder, "internal/x/x.go"), `package x

func direct(meter metric.Meter) {
	a, err := meter.Int64Counter("leat.test.direct", metric.WithUnit("By"),
		metric.WithDescription("Bytes of "+"something."))
}

func short(meter metric.Meter) {
	count := func(name, description string) (metric.Int64Counter, error) {
		return meter.Int64Counter(name, metric.WithUnit("{blob}"), metric.WithDescription(description))
	}
	a, err := count("leat.test.short", "Blobs.")
}

func histogram(meter metric.Meter, name, unit, description string) (metric.Float64Histogram, error) {
	return meter.Float64Histogram(name, metric.WithUnit(unit), metric.WithDescription(description))
}

func called(meter metric.Meter) {
	a, err := histogram(meter, "leat.not.first", "s", "Not found: the name comes first.")
	log.Info("leat.is.something.else")
}
`)
	write(t, filepath.Join(folder, "services/y/y.go"), `package y

func gauge(meter metric.Meter) {
	a, err := meter.Float64ObservableGauge("leat.test.gauge", metric.WithUnit("s"), metric.WithDescription("Seconds."))
}
`)
	got, err := reference.Instruments(folder)
	if err != nil {
		t.Fatal(err)
	}
	want := []reference.Instrument{
		{"", "leat.test.direct", "leat_test_direct_bytes_total", "counter", "By", "Bytes of something."},
		{"", "leat.test.short", "leat_test_short_total", "counter", "{blob}", "Blobs."},
		{"y", "leat.test.gauge", "leat_test_gauge_seconds", "gauge", "s", "Seconds."},
	}
	if len(got) != len(want) {
		t.Fatalf("got %+v, want %+v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("got %+v, want %+v", got[i], want[i])
		}
	}
	write(t, filepath.Join(folder, "services/y/z.go"), `package y

func bare(meter metric.Meter) { a, err := meter.Int64Counter("leat.test.bare") }
`)
	if _, err := reference.Instruments(folder); err == nil || !strings.Contains(err.Error(), "leat.test.bare") {
		t.Errorf("got %v, want an error about an instrument without a unit", err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

var promName = regexp.MustCompile(`\bleat_[a-z0-9_]+`)

// Every metric that a dashboard queries must be a metric of a service, under its name in
// Prometheus.
func TestDashboardsAskForWhatThereIs(t *testing.T) {
	t.Parallel()
	instruments, err := reference.Instruments(source)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, i := range instruments {
		if i.Kind != "histogram" {
			known[i.Prometheus] = true
			continue
		}
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			known[i.Prometheus+suffix] = true
		}
	}
	dashboards, err := filepath.Glob(filepath.Join(source, "deploy/dashboards/*.json"))
	if err != nil || len(dashboards) == 0 {
		t.Fatalf("got %d dashboards, %v", len(dashboards), err)
	}
	for _, path := range dashboards {
		asked := 0
		for _, query := range queries(t, path) {
			if strings.Count(query, "(") != strings.Count(query, ")") || strings.Count(query, "{") != strings.Count(query, "}") {
				t.Errorf("%s: query %q has a parenthesis too many or too few", path, query)
			}
			for _, name := range promName.FindAllString(query, -1) {
				asked++
				if !known[name] {
					t.Errorf("%s asks for %s, which no service has", path, name)
				}
			}
		}
		if asked == 0 {
			t.Errorf("%s asks for nothing of Leat's", path)
		}
	}
}

// queries returns the queries of a dashboard's panels and variables.
func queries(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var dashboard any
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	var found []string
	var walk func(node any)
	walk = func(node any) {
		switch node := node.(type) {
		case map[string]any:
			for name, value := range node {
				if query, ok := value.(string); ok && (name == "expr" || name == "query") {
					found = append(found, query)
				}
				walk(value)
			}
		case []any:
			for _, value := range node {
				walk(value)
			}
		}
	}
	walk(dashboard)
	return found
}
