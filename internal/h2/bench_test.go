// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
)

// small is the body of a small answer.
var small = strings.Repeat("x", 1<<10)

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
		client, _ := pair(b, budget(b, 1<<30), handler)
		req := ask(b)
		b.ReportAllocs()
		for b.Loop() {
			exchangeOnce(b, client, req)
		}
	})
	b.Run("many at once", func(b *testing.B) {
		client, _ := pair(b, budget(b, 1<<30), handler)
		b.ReportAllocs()
		b.SetParallelism(16)
		b.RunParallel(func(p *testing.PB) {
			req := ask(b)
			for p.Next() {
				exchangeOnce(b, client, req)
			}
		})
	})
}

// BenchmarkDownload reads an answer of 4 MiB.
func BenchmarkDownload(b *testing.B) {
	body := make([]byte, 4<<20)
	client, _ := pair(b, budget(b, 1<<30), func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) })
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		exchangeOnce(b, client, request(b, b.Context(), http.MethodGet, nil))
	}
}

// BenchmarkUpload sends a request with a body of 4 MiB.
func BenchmarkUpload(b *testing.B) {
	body := make([]byte, 4<<20)
	client, _ := pair(b, budget(b, 1<<30), func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
	})
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		exchangeOnce(b, client, request(b, b.Context(), http.MethodPost, bytes.NewReader(body)))
	}
}

// BenchmarkEvents reads an answer of 1,000 small pieces, each of which is flushed.
func BenchmarkEvents(b *testing.B) {
	event := []byte(small[:200])
	client, _ := pair(b, budget(b, 1<<30), func(w http.ResponseWriter, _ *http.Request) {
		flush := http.NewResponseController(w)
		for range 1000 {
			_, _ = w.Write(event)
			_ = flush.Flush()
		}
	})
	b.ReportAllocs()
	for b.Loop() {
		exchangeOnce(b, client, request(b, b.Context(), http.MethodGet, nil))
	}
}
