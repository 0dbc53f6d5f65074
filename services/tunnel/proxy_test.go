// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestGetAndPost(t *testing.T) {
	h := startHub(t, nil)
	h.access.grant("ada", "demo")
	h.agent("demo", echo)
	for _, http2 := range []bool{false, true} {
		c := client(t, http2)
		if status, body := h.get(c, "ada", "demo", "/api/v1/pods?limit=5"); status != 200 || body != "GET /api/v1/pods?limit=5 " {
			t.Errorf("http2=%v: got %d %q", http2, status, body)
		}
		_, body := h.do(c, h.request(t.Context(), http.MethodPost, "ada", "demo", "/api/v1/pods", strings.NewReader("a pod")))
		if want := "POST /api/v1/pods a pod"; body != want {
			t.Errorf("http2=%v: got %q, want %q", http2, body, want)
		}
	}
}

func TestWatchEventArrivesAtOnce(t *testing.T) {
	t.Parallel()
	virtually(t, nil, func(t *testing.T, h *hub) {
		h.access.grant("ada", "demo")
		watches := map[string]chan string{"/1": make(chan string), "/2": make(chan string)}
		h.agent("demo", func(w http.ResponseWriter, r *http.Request) {
			events := watches[r.URL.Path]
			for {
				select {
				case event := <-events:
					_, _ = w.Write([]byte(event + "\n"))
					_ = http.NewResponseController(w).Flush()
				case <-r.Context().Done():
					return
				}
			}
		})
		for _, http2 := range []bool{false, true} {
			ctx, cancel := contextWithCancel(t)
			path := map[bool]string{false: "/1", true: "/2"}[http2]
			events := watches[path]
			go func() { events <- "first" }() // the status line comes with the first event
			res, err := h.client(http2).Do(h.request(ctx, http.MethodGet, "ada", "demo", path+"?watch=true", nil))
			if err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewReader(res.Body)
			if line, err := lines.ReadString('\n'); err != nil || line != "first\n" {
				t.Fatalf("got %q, %v", line, err)
			}
			var slowest time.Duration
			for range 20 {
				began := time.Now()
				events <- "next"
				if line, err := lines.ReadString('\n'); err != nil || line != "next\n" {
					t.Fatalf("got %q, %v", line, err)
				}
				slowest = max(slowest, time.Since(began))
			}
			if slowest > 0 {
				t.Errorf("http2=%v: slowest event took %v, want no wait on the way", http2, slowest)
			}
			cancel()
			_ = res.Body.Close()
		}
	})
}

func contextWithCancel(tb testing.TB) (context.Context, context.CancelFunc) {
	tb.Helper()
	ctx, cancel := context.WithCancel(tb.Context())
	tb.Cleanup(cancel)
	return ctx, cancel
}
