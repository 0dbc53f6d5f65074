// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// small is the body of a small answer.
var small = strings.Repeat("x", 1<<10)

// compare runs a benchmark for this package and for Go's HTTP/2, each with a client and a server of
// its own over TCP. Besides the time of an operation it reports the processor time of both sides:
// docs/adr/0028 says how much this package must save to stay.
func compare(b *testing.B, handler http.HandlerFunc, run func(b *testing.B, client http.RoundTripper)) {
	b.Helper()
	for _, each := range []struct {
		name string
		implementation
	}{{"leat", ours}, {"peer=net-http", wellKnown}} {
		b.Run(each.name, func(b *testing.B) {
			near, far := loopbackPair(b)
			each.server(b, far, handler, options{}.defaults())
			client := each.client(b, near, options{}.defaults())
			b.Cleanup(func() { _ = client.Close() })
			b.ReportAllocs()
			before := processorTime(b)
			run(b, client)
			b.ReportMetric(float64(processorTime(b)-before)/float64(b.N), "cpu-ns/op")
		})
	}
}

// processorTime returns the time that this process has used, in user and kernel mode.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// exchangeOnce sends a request and reads its answer.
func exchangeOnce(b *testing.B, client http.RoundTripper, req *http.Request) {
	b.Helper()
	res, err := client.RoundTrip(req)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		b.Fatal(err)
	}
	_ = res.Body.Close()
}

// BenchmarkSmallRequest sends a request with the headers of a usual one and reads an answer of 1
// KiB.
func BenchmarkSmallRequest(b *testing.B) {
	handler := func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = []string{"application/json"}
		_, _ = io.WriteString(w, small)
	}
	ask := func(b *testing.B) *http.Request {
		b.Helper()
		req := request(b, b.Context(), http.MethodGet, nil)
		req.Header = http.Header{"Accept": {"application/json"}, "User-Agent": {"kubectl"}, "Authorization": {"Bearer token"}}
		return req
	}
	b.Run("one at a time", func(b *testing.B) {
		compare(b, handler, func(b *testing.B, client http.RoundTripper) {
			b.Helper()
			req := ask(b)
			for b.Loop() {
				exchangeOnce(b, client, req)
			}
		})
	})
	b.Run("many at once", func(b *testing.B) {
		compare(b, handler, func(b *testing.B, client http.RoundTripper) {
			b.Helper()
			b.SetParallelism(16)
			b.RunParallel(func(p *testing.PB) {
				req := ask(b)
				for p.Next() {
					exchangeOnce(b, client, req)
				}
			})
		})
	})
}

// BenchmarkDownload reads an answer of 4 MiB.
func BenchmarkDownload(b *testing.B) {
	body := make([]byte, 4<<20)
	compare(b, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) }, func(b *testing.B, client http.RoundTripper) {
		b.Helper()
		b.SetBytes(int64(len(body)))
		for b.Loop() {
			exchangeOnce(b, client, request(b, b.Context(), http.MethodGet, nil))
		}
	})
}

// BenchmarkUpload sends a request with a body of 4 MiB.
func BenchmarkUpload(b *testing.B) {
	body := make([]byte, 4<<20)
	handler := func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }
	compare(b, handler, func(b *testing.B, client http.RoundTripper) {
		b.Helper()
		b.SetBytes(int64(len(body)))
		for b.Loop() {
			exchangeOnce(b, client, request(b, b.Context(), http.MethodPost, bytes.NewReader(body)))
		}
	})
}

// BenchmarkEvents reads an answer of 1,000 small pieces, each of which is flushed.
func BenchmarkEvents(b *testing.B) {
	event := []byte(small[:200])
	handler := func(w http.ResponseWriter, _ *http.Request) {
		flush := http.NewResponseController(w)
		for range 1000 {
			_, _ = w.Write(event)
			_ = flush.Flush()
		}
	}
	compare(b, handler, func(b *testing.B, client http.RoundTripper) {
		b.Helper()
		for b.Loop() {
			exchangeOnce(b, client, request(b, b.Context(), http.MethodGet, nil))
		}
	})
}
