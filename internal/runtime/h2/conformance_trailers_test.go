// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2_test

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

func TestConformanceRequestTrailers(t *testing.T) {
	conform(t, func(t *testing.T, p pairing) {
		type trailers struct {
			before, after http.Header
			body          string
		}
		got := make(chan trailers, 1)
		r := p.connect(t, func(_ http.ResponseWriter, r *http.Request) {
			before := r.Trailer.Clone()
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Errorf("read: %v", err)
			}
			got <- trailers{before, r.Trailer.Clone(), string(body)}
		}, options{})
		for _, size := range []int{0, 1, 100_000} {
			req := r.request(t, http.MethodPost, "/", nil)
			req.Trailer = http.Header{"X-Sum": nil, "X-Never": nil, "X-Two": nil}
			sent, left := strings.Repeat("x", size), size
			req.Body = newReader(func(p []byte) (int, error) {
				if left == 0 {
					req.Trailer["X-Sum"], req.Trailer["X-Two"] = []string{"abc"}, []string{"1", "2"}
					return 0, io.EOF
				}
				n := copy(p, sent[:min(left, len(p))])
				left -= n
				return n, nil
			})
			req.ContentLength = -1
			_ = r.do(t, req)
			seen := receive(t, "trailers", got)
			want(t, "body's size", len(seen.body), size)
			var announced []string
			for name, values := range seen.before {
				announced = append(announced, name)
				if size > 0 && len(values) > 0 {
					t.Errorf("%s has a value before the body's end: %q", name, values)
				}
			}
			slices.Sort(announced)
			wantList(t, "announced", announced, "X-Never", "X-Sum", "X-Two")
			wantList(t, "X-Sum", seen.after["X-Sum"], "abc")
			wantList(t, "X-Two", seen.after["X-Two"], "1", "2")
			wantList(t, "X-Never", seen.after["X-Never"])
		}
	})
}

// TestConformanceTrailersThatMayNotBe has a server accept no trailer as the length of a request: it
// does not expect one that was announced, and ends a request that has one.
func TestConformanceTrailersThatMayNotBe(t *testing.T) {
	conformServer(t, func(t *testing.T, server implementation) {
		type taken struct {
			trailer http.Header
			err     error
		}
		requests := make(chan taken, 1)
		p := clientPeer(t, server, func(_ http.ResponseWriter, r *http.Request) {
			_, err := io.Copy(io.Discard, r.Body)
			requests <- taken{r.Trailer.Clone(), err}
		}, options{}, generous...)
		p.greeted()
		p.ask(1, false, "trailer", "content-length, x-sum", "trailer", "Transfer-Encoding,trailer")
		p.data(1, false, []byte("hello"))
		p.head(1, true, "x-sum", "abc", "x-other", "not announced")
		if got := receive(t, "request", requests); got.err != nil || len(got.trailer) != 1 || got.trailer.Get("X-Sum") != "abc" {
			t.Errorf("got %v and %v, want X-Sum alone", got.trailer, got.err)
		}
		for i, name := range []string{"content-length", "transfer-encoding", "trailer", "host", "authorization"} {
			stream := uint32(2*i + 3)
			p.ask(stream, false, "trailer", name+", x-sum")
			p.data(stream, false, []byte("hello"))
			p.head(stream, true, name, "7")
			if got := receive(t, "request", requests); got.err == nil {
				t.Errorf("%s: got %v, want an error", name, got.trailer)
			}
		}
		p.pinged()
	})
}
