// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"errors"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/services/tunnel"
)

func TestUsedUpQuotaOfBytes(t *testing.T) {
	h := startHub(t, func(cfg *tunnel.Config) {
		cfg.Load.MaxBytesPerUser, cfg.Load.MaxBytesPerCluster, cfg.Load.QuotaWindow = 10_000, 100_000, 2*time.Hour
	})
	for _, user := range []string{"ada", "bob"} {
		h.access.grant(user, "demo")
	}
	h.agent("demo", func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	c := client(t, false)
	send := func(user string, size int) (*http.Response, string) {
		return h.do(c, h.request(t.Context(), http.MethodPost, user, "demo", "/", strings.NewReader(strings.Repeat("x", size))))
	}
	if res, body := send("ada", 6000); res.StatusCode != http.StatusOK || len(body) != 6000 { // counts both ways
		t.Fatalf("got %d and %d bytes, want the echo", res.StatusCode, len(body))
	}
	res, body := send("ada", 1)
	after, err := strconv.Atoi(res.Header.Get("Retry-After"))
	if res.StatusCode != http.StatusTooManyRequests || err != nil || after < 7000 || after > 7320 || !strings.Contains(body, "10000 bytes") {
		t.Errorf("got %d %v %s, want 429 until the window has passed", res.StatusCode, res.Header, body)
	}
	if res, _ := send("bob", 1); res.StatusCode != http.StatusOK {
		t.Errorf("got %d for somebody else, want 200", res.StatusCode)
	}
	if metrics := h.metrics(); !strings.Contains(metrics, `leat_tunnel_request_rejected_total{error_type="RATE_LIMITED",origin="tunnel"`) {
		t.Errorf("got no rejection in the metrics:\n%s", metrics)
	}
}

func TestQuotaUsedUpTwiceEndsWhatRuns(t *testing.T) {
	h := startHub(t, func(cfg *tunnel.Config) { cfg.Load.MaxBytesPerUser = 1 << 20 })
	h.access.grant("ada", "demo")
	h.access.grant("bob", "demo")
	h.agent("demo", func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			n, err := io.Copy(io.Discard, r.Body)
			_, _ = io.WriteString(w, strconv.FormatInt(n, 10)+" "+strconv.FormatBool(err == nil))
			return
		}
		_, _ = io.Copy(w, io.LimitReader(zeros{}, 1<<30))
	})
	res, err := client(t, false).Do(h.request(t.Context(), http.MethodGet, "ada", "demo", "/large", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	n, err := io.Copy(io.Discard, res.Body)
	if err == nil || errors.Is(err, io.EOF) || n > 3<<20 {
		t.Errorf("got %d bytes and %v, want the answer to break off after 2 MiB", n, err)
	}
	await.True(t, "the record", func() bool { return h.audited("outcome", "exceeded") == 1 })

	upload := h.request(t.Context(), http.MethodPost, "bob", "demo", "/", io.LimitReader(zeros{}, 1<<30))
	if res, body := h.do(client(t, true), upload); res.StatusCode != http.StatusTooManyRequests {
		t.Errorf("got %d %s for an upload beyond the quota, want 429", res.StatusCode, body)
	}
}

func TestWrongLoadSettingsAreRefused(t *testing.T) {
	for want, change := range map[string]func(*tunnel.Load){
		`--tunnel-watch-fan-in: got "perhaps", want on or off`: func(l *tunnel.Load) { l.WatchFanIn = "perhaps" },
		"--tunnel-watch-fan-in-memory: got 0":                  func(l *tunnel.Load) { l.WatchFanInMemory = 0 },
		"--tunnel-quota-window: got 1s, want at least 1m":      func(l *tunnel.Load) { l.QuotaWindow = time.Second },
	} {
		cfg := configOf("http://x")
		change(&cfg.Load)
		if err := tunnel.Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

var family = regexp.MustCompile(`(?m)^# TYPE (leat_\w+) `)

// The page of metrics is made from the source; here it is held against what a running service
// shows.
func TestMetricsAreDocumented(t *testing.T) {
	h := startHub(t, nil)
	h.access.grant("ada", "demo")
	h.agent("demo", echo)
	h.get(client(t, false), "ada", "demo", "/api")
	h.get(client(t, false), "ada", "other", "/api")
	page, err := os.ReadFile("../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	for _, match := range family.FindAllStringSubmatch(h.metrics(), -1) {
		shown[match[1]] = true
		if !strings.Contains(string(page), "`"+match[1]+"`") {
			t.Errorf("docs/reference/metrics.md lacks %s; run make docs", match[1])
		}
	}
	for _, label := range []string{"phase", "transport", "endless", "network_io_direction", "error_type", "origin", "scope"} {
		if !strings.Contains(h.metrics(), label+`="`) {
			t.Errorf("got no label %s, which the dashboard asks for", label)
		}
	}
	for _, name := range []string{
		"leat_tunnel_session_active", "leat_tunnel_added_latency_seconds", "leat_tunnel_transferred_bytes_total",
		"leat_tunnel_request_rejected_total", "leat_tunnel_watch_upstreams", "leat_tunnel_quota_accounts",
	} {
		if !shown[name] {
			t.Errorf("got no %s in %v", name, shown)
		}
	}
}
