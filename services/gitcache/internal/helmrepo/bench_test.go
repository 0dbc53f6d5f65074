// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package helmrepo_test

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/runtime/dialguard"
	"github.com/leatdev/leat/services/gitcache/internal/artifactstore"
	"github.com/leatdev/leat/services/gitcache/internal/helmrepo"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/uploadpack"
)

// writeLarge writes an index of 1000 charts with 100 versions each, in some 65 MB. changed is the
// chart that differs.
func writeLarge(b *testing.B, path string, changed int) {
	b.Helper()
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	w := bufio.NewWriter(f)
	fmt.Fprint(w, "apiVersion: v1\nentries:\n")
	for chart := range 1000 {
		name := fmt.Sprintf("%s-%05d", []string{"team", "other"}[chart%2], chart)
		fmt.Fprintf(w, "  %s:\n", name)
		for i := range 100 {
			version := fmt.Sprintf("%d.%d.0", 1+i/10, i%10)
			sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %t", name, version, chart == changed))
			fmt.Fprintf(w, "  - apiVersion: v2\n    created: \"2026-11-22T10:00:00.123456789Z\"\n    description: A chart that deploys %s, which is one of many, "+
				"and is described with\n      some words that go on here, as Helm breaks them, and again and again until the entry is long\n    digest: %x\n"+
				"    home: https://example.com/%[1]s\n    keywords:\n    - database\n    - cache\n    maintainers:\n    - email: someone@example.com\n"+
				"      name: Someone\n    name: %[1]s\n    sources:\n    - https://github.com/example/%[1]s\n    type: application\n"+
				"    urls:\n    - https://charts.example.com/%[1]s-%[3]s.tgz\n    version: %[3]s\n", name, sum, version)
		}
	}
	if err := w.Flush(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkLargeIndex polls an index with 100,000 versions of which half are mirrored: the first
// time, after one chart has changed, and when nothing has. peak-MiB is by how much the heap grew
// meanwhile, garbage and the server included; requests and bodies are counted at the server.
func BenchmarkLargeIndex(b *testing.B) {
	dir := b.TempDir()
	path := filepath.Join(dir, "index.yaml")
	var requests, sent atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		info, err := os.Stat(path)
		if err != nil {
			b.Error(err)
			return
		}
		w.Header().Set("ETag", fmt.Sprintf(`"%d"`, info.ModTime().UnixNano()))
		http.ServeFile(counting{w, &sent}, r, path)
	}))
	defer server.Close()
	store, err := artifactstore.New(artifactstore.Params{Dir: b.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	u := helmrepo.New(helmrepo.Params{
		Carriers: uploadpack.New(uploadpack.Config{Dir: b.TempDir(), Guard: dialguard.Guard{AllowLocal: true}}),
		Mirrors:  store, TempDir: b.TempDir(), Logger: slog.New(slog.DiscardHandler),
	})
	p := mirror.FetchParams{
		Definition: mirror.Definition{Name: "charts", UID: uid, Definition: upstream.Definition{
			Type: upstream.TypeHelm, URL: server.URL, Charts: upstream.NewList([]string{"team-*"}),
		}},
		Guard: func() error { return nil },
	}
	for i, round := range []string{"first", "changed", "unchanged"} {
		b.Run(round, func(b *testing.B) {
			b.ReportAllocs()
			most := uint64(0)
			requests.Store(0)
			sent.Store(0)
			for n := 0; b.Loop(); n++ {
				b.StopTimer()
				if i == 0 {
					p.Have = mirror.Content{}
				}
				if i < 2 {
					writeLarge(b, path, 2*i*(n+1))
				}
				stop := watchHeap(&most)
				b.StartTimer()
				c, err := u.Fetch(b.Context(), p)
				stop()
				if err != nil || len(c.Refs) != 50_000 {
					b.Fatalf("got %d refs, %v", len(c.Refs), err)
				}
				p.Have = c
			}
			b.ReportMetric(float64(most)/(1<<20), "peak-MiB")
			b.ReportMetric(float64(requests.Load())/float64(b.N), "requests/op")
			b.ReportMetric(float64(sent.Load())/float64(b.N)/(1<<20), "sent-MiB/op")
		})
	}
}

// counting counts the bytes of bodies.
type counting struct {
	http.ResponseWriter
	sent *atomic.Int64
}

// Write implements http.ResponseWriter.
func (c counting) Write(text []byte) (int, error) {
	n, err := c.ResponseWriter.Write(text)
	c.sent.Add(int64(n))
	return n, err
}

// watchHeap raises most to the heap's growth until stop is called.
func watchHeap(most *uint64) (stop func()) {
	debug.FreeOSMemory()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		var now runtime.MemStats
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				if runtime.ReadMemStats(&now); now.HeapInuse > before.HeapInuse {
					*most = max(*most, now.HeapInuse-before.HeapInuse)
				}
			}
		}
	}()
	return func() { close(done); <-ended }
}
