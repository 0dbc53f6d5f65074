// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package chartindex_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/leatdev/leat/services/gitcache/internal/chartindex"
)

// largeIndex writes an index as Helm does, and returns it as a source. Half of its charts are named
// "team-…".
func largeIndex(tb testing.TB, charts, versions int) chartindex.Source {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "index.yaml")
	f, err := os.Create(path)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = f.Close() })
	w := bufio.NewWriter(f)
	fmt.Fprint(w, "apiVersion: v1\nentries:\n")
	for chart := range charts {
		name := fmt.Sprintf("%s-%05d", []string{"team", "other"}[chart%2], chart)
		fmt.Fprintf(w, "  %s:\n", name)
		for i := range versions {
			version := fmt.Sprintf("%d.%d.0", 1+i/10, i%10)
			fmt.Fprintf(w, `  - apiVersion: v2
    appVersion: %q
    created: "2026-11-%02dT10:00:00.123456789Z"
    description: A chart that deploys %s, which is one of many, and is described with
      some words that go on here, as Helm breaks them
    digest: %x
    home: https://example.com/%[3]s
    keywords:
    - database
    - cache
    maintainers:
    - email: someone@example.com
      name: Someone
    name: %[3]s
    sources:
    - https://github.com/example/%[3]s
    type: application
    urls:
    - https://charts.example.com/%[3]s-%[5]s.tgz
    version: %[5]s
`, version, 1+i%28, name, sha256.Sum256([]byte(name+version)), version)
		}
	}
	fmt.Fprint(w, "generated: \"2026-11-22T10:00:00Z\"\n")
	if err := w.Flush(); err != nil {
		tb.Fatal(err)
	}
	info, err := f.Stat()
	if err != nil {
		tb.Fatal(err)
	}
	return chartindex.Source{ReaderAt: f, Size: info.Size()}
}

// peak runs a function, and returns by how many bytes the heap grew meanwhile, garbage included.
func peak(run func()) int64 {
	defer debug.SetGCPercent(debug.SetGCPercent(100)) // as it is shipped; make test collects less often
	debug.FreeOSMemory()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	var most atomic.Uint64
	done, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		var now runtime.MemStats
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				runtime.ReadMemStats(&now)
				most.Store(max(most.Load(), now.HeapInuse))
			}
		}
	}()
	run()
	close(done)
	<-watched
	return int64(most.Load()) - int64(before.HeapInuse)
}

// BenchmarkParse reads an index of 100,000 versions in 65 MB of which half are selected: for the
// first time, with every chart unchanged, and as Helm reads all of it.
func BenchmarkParse(b *testing.B) {
	s := largeIndex(b, 1000, 100)
	selected, err := chartindex.NewSelection([]string{"team-*"})
	if err != nil {
		b.Fatal(err)
	}
	var first *chartindex.Index
	for _, round := range []string{"first", "unchanged"} {
		b.Run(round, func(b *testing.B) {
			b.SetBytes(s.Size)
			b.ReportAllocs()
			most := int64(0)
			for b.Loop() {
				before := first
				if round == "first" {
					before = nil
				}
				most = max(most, peak(func() {
					if first, err = chartindex.Parse(b.Context(), s, chartindex.Params{Charts: selected, Before: before}); err != nil {
						b.Fatal(err)
					}
				}))
			}
			b.ReportMetric(float64(most)/(1<<20), "peak-MiB")
			b.ReportMetric(float64(len(listing(first))), "versions")
		})
	}
	b.Run("helm", func(b *testing.B) {
		b.SetBytes(s.Size)
		b.ReportAllocs()
		most := int64(0)
		for b.Loop() {
			most = max(most, peak(func() { decodeAsHelm(b, s) }))
		}
		b.ReportMetric(float64(most)/(1<<20), "peak-MiB")
	})
}

// helmIndex is Helm's IndexFile, with the fields that a chart's metadata commonly have.
type helmIndex struct {
	APIVersion string    `json:"apiVersion"`
	Generated  time.Time `json:"generated"`
	Entries    map[string][]*struct {
		Name        string              `json:"name"`
		Home        string              `json:"home"`
		Sources     []string            `json:"sources"`
		Version     string              `json:"version"`
		Description string              `json:"description"`
		Keywords    []string            `json:"keywords"`
		Maintainers []map[string]string `json:"maintainers"`
		APIVersion  string              `json:"apiVersion"`
		AppVersion  string              `json:"appVersion"`
		Type        string              `json:"type"`
		URLs        []string            `json:"urls"`
		Created     time.Time           `json:"created"`
		Digest      string              `json:"digest"`
	} `json:"entries"`
}

func decodeAsHelm(tb testing.TB, s chartindex.Source) {
	tb.Helper()
	text := make([]byte, s.Size)
	if _, err := s.ReadAt(text, 0); err != nil {
		tb.Fatal(err)
	}
	var index helmIndex
	if err := yaml.UnmarshalStrict(text, &index); err != nil {
		tb.Fatal(err)
	}
}

// TestMemoryWhileParsing reads a chart with so many versions that decoding it in one piece would take
// some 30 MiB.
func TestMemoryWhileParsing(t *testing.T) { // not parallel: it measures the heap of the process
	s := largeIndex(t, 2, 3000)
	selected, err := chartindex.NewSelection([]string{"team-*"})
	if err != nil {
		t.Fatal(err)
	}
	got := peak(func() {
		if _, err := chartindex.Parse(context.Background(), s, chartindex.Params{Charts: selected}); err != nil {
			t.Error(err)
		}
	})
	if got > 16<<20 {
		t.Errorf("got %d MiB above idle, want at most 16", got>>20)
	}
}
