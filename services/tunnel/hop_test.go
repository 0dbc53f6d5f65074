// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/services/tunnel"
	"github.com/leatdev/leat/services/tunnel/internal/agenttest"
)

// pair returns two replicas, the first for people and the second with an agent of cluster "demo"
// that ada may reach.
func pair(tb testing.TB, opts agenttest.Options) (people, agents *replica) {
	tb.Helper()
	replicas := startReplicas(tb, 2)
	people, agents = replicas[0], replicas[1]
	people.access.grant("ada", "demo", "leat:admins")
	inner := opts.Handler
	opts.ID, opts.Handler = "x", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			return
		}
		inner.ServeHTTP(w, r)
	})
	agents.agentWith(opts, "demo")
	people.reaches("ada", "demo")
	return people, agents
}

// TestSecHopsAreFoundByResource records at the replica that has the agent what the request asks for, so
// that a search by resource finds callers that go around the first replica.
func TestSecHopsAreFoundByResource(t *testing.T) {
	people, agents := pair(t, agenttest.Options{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})})
	people.get(client(t, true), "ada", "demo", "/api/v1/namespaces/kube-system/secrets?limit=5")
	found := slices.ContainsFunc(agents.audit.records(t), func(r map[string]any) bool {
		return r["phase"] == "hop" && r["verb"] == "list" && r["resource"] == "secrets" && r["namespace"] == "kube-system"
	})
	if !found {
		t.Errorf("got records %v, want that of a hop with verb and resource", agents.audit.records(t))
	}
}

func TestF36EarlyRefusalOverAHop(t *testing.T) {
	people, _ := pair(t, agenttest.Options{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadFull(r.Body, make([]byte, 1024))
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		_, _ = io.WriteString(w, "too large")
	})})
	for _, http2 := range []bool{false, true} {
		for name, body := range map[string]func() io.Reader{
			"100 MiB":             func() io.Reader { return io.LimitReader(zeros{}, 100<<20) },
			"1 KiB, then nothing": func() io.Reader { return kilobyteThenNothing(t) },
		} {
			req := people.request(t.Context(), http.MethodPost, "ada", "demo", "/api", body())
			if res, text := people.do(client(t, http2), req); res.StatusCode != http.StatusRequestEntityTooLarge || text != "too large" {
				t.Errorf("http2=%v %s: got %d %q, want 413", http2, name, res.StatusCode, text)
			}
		}
	}
}

// TestF37NoTypeIsGuessedOverAHop has an answer without Content-Type, behind one that only gives
// hints.
func TestF37NoTypeIsGuessedOverAHop(t *testing.T) {
	people, _ := pair(t, agenttest.Options{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		w.Header()["Content-Type"] = nil
		_, _ = io.WriteString(w, "<html>")
	})})
	res, text := people.do(client(t, true), people.request(t.Context(), http.MethodGet, "ada", "demo", "/api", nil))
	if got, set := res.Header["Content-Type"]; set || text != "<html>" {
		t.Errorf("got %q of type %q, want <html> without a type", text, got)
	}
}

// TestBothDirectionsOverAHop speaks by turns over one request, and ends its own half first.
func TestBothDirectionsOverAHop(t *testing.T) {
	people, _ := pair(t, agenttest.Options{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		for lines := bufio.NewScanner(r.Body); lines.Scan(); {
			_, _ = io.WriteString(w, "heard "+lines.Text()+"\n")
			_ = http.NewResponseController(w).Flush()
		}
		_, _ = io.WriteString(w, "end")
	})})
	body, talk := io.Pipe()
	res, err := client(t, true).Do(people.request(t.Context(), http.MethodPost, "ada", "demo", "/talk", body))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	answers := bufio.NewReader(res.Body)
	for _, word := range []string{"one", "two", "three"} {
		if _, err := io.WriteString(talk, word+"\n"); err != nil {
			t.Fatal(err)
		}
		if got, err := answers.ReadString('\n'); err != nil || got != "heard "+word+"\n" {
			t.Fatalf("got %q, %v, want what was said", got, err)
		}
	}
	_ = talk.Close()
	if rest, err := io.ReadAll(answers); err != nil || string(rest) != "end" {
		t.Errorf("after the end of one half: got %q, %v, want the other one go on", rest, err)
	}
}

// TestF42BodiesOverAHop moves bodies of many sizes in both directions.
func TestF42BodiesOverAHop(t *testing.T) {
	people, _ := pair(t, agenttest.Options{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	})})
	for _, http2 := range []bool{false, true} {
		c := client(t, http2)
		for _, size := range []int{1, 4 << 10, 64 << 10, 64<<10 + 1, 1 << 20, 20 << 20} {
			sent, got := sha256.New(), sha256.New()
			body := io.TeeReader(io.LimitReader(&pattern{}, int64(size)), sent)
			res, err := c.Do(people.request(t.Context(), http.MethodPost, "ada", "demo", "/echo", body))
			if err != nil {
				t.Fatal(err)
			}
			n, err := io.Copy(got, res.Body)
			_ = res.Body.Close()
			if err != nil || n != int64(size) || string(got.Sum(nil)) != string(sent.Sum(nil)) {
				t.Errorf("http2=%v: got %d bytes, %v, want the %d that were sent", http2, n, err, size)
			}
		}
	}
}

// TestF01StalledDownloadsOverAHop has readers that stop, more of them than fit into a window of
// HTTP/2's usual size.
func TestF01StalledDownloadsOverAHop(t *testing.T) {
	people, _ := pair(t, agenttest.Options{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/big" {
			_, _ = io.Copy(w, io.LimitReader(zeros{}, 64<<20))
			return
		}
		echo(w, r)
	})})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 60 {
		stalled := client(t, true)
		stalled.Transport.(*http.Transport).HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: 64 << 10}
		res, err := stalled.Do(people.request(ctx, http.MethodGet, "ada", "demo", "/big", nil))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
	}
	c := client(t, true)
	for range 20 {
		if status, body := people.get(c, "ada", "demo", "/small"); status != 200 || body != "GET /small " {
			t.Fatalf("beside 60 stalled downloads: got %d %q", status, body)
		}
	}
}

// TestErrorsOverAHop: what goes wrong elsewhere looks as if it had gone wrong here.
func TestErrorsOverAHop(t *testing.T) {
	hold := make(chan struct{})
	people, _ := pair(t, agenttest.Options{MaxStreams: 1, OldAgent: true, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/abort":
			panic(http.ErrAbortHandler)
		case "/half":
			_, _ = io.WriteString(w, "half")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		case "/hold":
			_ = http.NewResponseController(w).Flush()
			<-hold
		}
	})})
	c := client(t, true)
	if status, body := people.get(c, "ada", "demo", "/abort"); status != 502 || !strings.Contains(body, "CLUSTER_UNREACHABLE") {
		t.Errorf("request that the agent breaks off: got %d %s, want 502 CLUSTER_UNREACHABLE", status, body)
	}
	res, err := c.Do(people.request(t.Context(), http.MethodGet, "ada", "demo", "/half", nil))
	if err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(res.Body); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("answer that breaks off: got %q as if it was whole", rest)
	}
	_ = res.Body.Close()
	res, err = c.Do(people.request(t.Context(), http.MethodGet, "ada", "demo", "/hold", nil))
	if err != nil {
		t.Fatal(err)
	}
	if status, body := people.get(c, "ada", "demo", "/another"); status != 429 || !strings.Contains(body, "RATE_LIMITED") {
		t.Errorf("agent without room: got %d %s, want 429 RATE_LIMITED", status, body)
	}
	close(hold)
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	await.True(t, "room", func() bool {
		status, _ := people.get(c, "ada", "demo", "/another")
		return status == 200
	})
}

func TestSettingsForReplicas(t *testing.T) {
	for want, change := range map[string]func(*tunnel.Config){
		"tunnel-advertise-url": func(c *tunnel.Config) { c.RedisURL = "redis://127.0.0.1:1/0" },
		"redis-url":            func(c *tunnel.Config) { c.AdvertiseURL = "http://127.0.0.1:1" },
		"without a path":       func(c *tunnel.Config) { c.RedisURL, c.AdvertiseURL = "redis://127.0.0.1:1/0", "http://127.0.0.1:1/x" },
		"parse redis url":      func(c *tunnel.Config) { c.RedisURL, c.AdvertiseURL = "http://:hidden@127.0.0.1", "http://127.0.0.1:1" },
		"replicas' CA": func(c *tunnel.Config) {
			c.RedisURL, c.AdvertiseURL, c.PeerCAFile = "redis://127.0.0.1:1/0", "https://127.0.0.1:1", "absent.pem"
		},
	} {
		cfg := configOf("http://127.0.0.1:1")
		cfg.Serve.ListenAddr = "127.0.0.1:0"
		change(&cfg)
		if err := tunnel.Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hidden") {
			t.Errorf("got %v, want an error about %s", err, want)
		}
	}
}
