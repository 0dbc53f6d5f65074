// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reference_test

import (
	"os"
	"path/filepath"
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
