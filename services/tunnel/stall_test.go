// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/services/tunnel"
)

// TestF47StalledCallerLosesTheRequest has callers who live and take nothing of an answer, while
// others have answers that are silent for as long: only the former are ended.
func TestF47StalledCallerLosesTheRequest(t *testing.T) {
	for name, stall := range map[string]struct {
		http2   bool
		upgrade string // a protocol that the API server does not know
	}{
		"HTTP/1.1":                    {},
		"HTTP/2":                      {http2: true},
		"HTTP/1.1, offers to upgrade": {upgrade: "SPDY/3.1"},
	} {
		t.Run(name, func(t *testing.T) {
			h := startHub(t, func(cfg *tunnel.Config) { cfg.StallTimeout = 3 * time.Second })
			h.access.grant("ada", "demo")
			released, event := make(chan struct{}), make(chan struct{})
			h.agent("demo", func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/large" {
					_, _ = io.Copy(w, zeros{})
					<-r.Context().Done()
					close(released)
					return
				}
				_, _ = io.WriteString(w, "one\n")
				_ = http.NewResponseController(w).Flush()
				<-event
				_, _ = io.WriteString(w, "two\n")
			})
			var silent []*bufio.Reader
			for _, path := range []string{"/api/v1/pods?watch=true", "/api/v1/namespaces/a/pods/b/log?follow=true"} {
				res, err := client(t, stall.http2).Do(h.request(t.Context(), http.MethodGet, "ada", "demo", path, nil))
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				lines := bufio.NewReader(res.Body)
				if line, err := lines.ReadString('\n'); line != "one\n" {
					t.Fatalf("%s: got %q, %v", path, line, err)
				}
				silent = append(silent, lines)
			}
			req := h.request(t.Context(), http.MethodGet, "ada", "demo", "/large", nil)
			if stall.upgrade != "" {
				req.Header.Set("Connection", "Upgrade")
				req.Header.Set("Upgrade", stall.upgrade)
			}
			res, err := client(t, stall.http2).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()

			<-released // hangs if the request is not ended
			await.True(t, "the record", func() bool { return h.audited("outcome", "stalled") == 1 })
			if !strings.Contains(h.metrics(), `outcome="stalled"`) {
				t.Error("got no such outcome in the metrics")
			}
			if _, err := io.Copy(io.Discard, res.Body); err == nil {
				t.Error("answer ended without an error, want it broken off")
			}
			close(event)
			for _, lines := range silent {
				if rest, err := io.ReadAll(lines); string(rest) != "two\n" || err != nil {
					t.Errorf("got %q, %v of a silent answer, want its next line", rest, err)
				}
			}
		})
	}
}
