// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/services/tunnel"
	"github.com/leatdev/leat/services/tunnel/internal/agenttest"
)

func TestF01StalledDownloadsLeaveOthersAlone(t *testing.T) {
	stalled := 60
	if os.Getenv("LEAT_FAULT_LONG") == "1" {
		stalled = 300
	}
	h := startHub(t, func(cfg *tunnel.Config) { cfg.MaxStreamsPerUser, cfg.StallTimeout = 2*stalled, time.Hour })
	h.access.grant("ada", "demo")
	h.agent("demo", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/small" {
			_, _ = io.WriteString(w, "small")
			return
		}
		_, _ = io.Copy(w, io.LimitReader(zeros{}, 1<<30))
	})
	c := client(t, false)
	for range stalled {
		ctx, cancel := contextWithCancel(t)
		res, err := client(t, false).Do(h.request(ctx, http.MethodGet, "ada", "demo", "/large", nil))
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			cancel()
			_ = res.Body.Close()
		}()
	}
	for range 50 { // the downloads never end, so a request that waited for one would not either
		if status, body := h.get(c, "ada", "demo", "/small"); status != 200 || body != "small" {
			t.Fatalf("got %d %q", status, body)
		}
	}
}

func TestF14DeadAgentIsNoticed(t *testing.T) {
	t.Parallel()
	pings := func(cfg *tunnel.Config) { cfg.PingAfter, cfg.PingTimeout = time.Second, 2*time.Second } // less than a heartbeat takes
	virtually(t, pings, func(t *testing.T, h *hub) {
		h.access.grant("ada", "demo")
		begun := make(chan struct{})
		agent := h.agent("demo", func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/watch" {
				_, _ = io.WriteString(w, "event")
				_ = http.NewResponseController(w).Flush()
			}
			begun <- struct{}{}
			<-r.Context().Done()
		})
		results := make(chan string, 2)
		for _, path := range []string{"/pending", "/watch"} {
			go func() {
				res, err := h.client(false).Do(h.request(t.Context(), http.MethodGet, "ada", "demo", path, nil))
				if err != nil {
					results <- err.Error()
					return
				}
				defer func() { _ = res.Body.Close() }()
				_, err = io.Copy(io.Discard, res.Body)
				results <- fmt.Sprintf("%s %d broken=%v", path, res.StatusCode, err != nil)
			}()
			<-begun
		}
		agent.Freeze()
		got := []string{<-results, <-results}
		slices.Sort(got)
		if want := []string{"/pending 503 broken=false", "/watch 200 broken=true"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		await.True(t, "the session's end", func() bool { return len(h.sessions()) == 0 })
		if status, body := h.get(h.client(false), "ada", "demo", "/"); status != http.StatusServiceUnavailable {
			t.Errorf("request to a dead agent: got %d %s, want 503", status, body)
		}
	})
}

func TestF16CapsAnswerAtOnce(t *testing.T) {
	h := startHub(t, func(cfg *tunnel.Config) { cfg.MaxStreamsPerCluster, cfg.MaxStreamsPerUser = 20, 15 })
	h.access.grant("ada", "demo")
	h.access.grant("bob", "demo")
	begun := make(chan struct{})
	h.agent("demo", func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		begun <- struct{}{}
		<-r.Context().Done()
	})
	ctx, cancel := contextWithCancel(t)
	watch := func(user string) {
		res, err := client(t, true).Do(h.request(ctx, http.MethodGet, user, "demo", "/api/v1/namespaces/a/pods/b/log?follow=true", nil))
		if err != nil {
			if ctx.Err() == nil {
				t.Error(err)
			}
			return
		}
		defer func() { _ = res.Body.Close() }()
		_, _ = io.Copy(io.Discard, res.Body)
	}
	var watches sync.WaitGroup
	defer watches.Wait()
	defer cancel()
	open := func(user string, n int) {
		for range n {
			watches.Go(func() { watch(user) })
			<-begun
		}
	}
	open("ada", 15)
	check := func(user, scope string) {
		res, body := h.do(client(t, false), h.request(ctx, http.MethodGet, user, "demo", "/", nil))
		if res.StatusCode != http.StatusTooManyRequests || res.Header.Get("Retry-After") != "1" || !strings.Contains(body, scope) {
			t.Errorf("got %d %v %s, want 429 with Retry-After about the %s", res.StatusCode, res.Header, body, scope)
		}
	}
	check("ada", "user")
	open("bob", 5)
	check("bob", "cluster")
}

func TestF16AgentsOwnLimitAnswersAtOnce(t *testing.T) {
	h := startHub(t, nil)
	h.access.grant("ada", "demo")
	begun := make(chan struct{})
	h.agentWith(agenttest.Options{ID: "c", MaxStreams: 1, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		begun <- struct{}{}
		<-r.Context().Done()
	})}, "demo")
	ctx, cancel := contextWithCancel(t)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if res, err := client(t, false).Do(h.request(ctx, http.MethodGet, "ada", "demo", "/", nil)); err == nil {
			_ = res.Body.Close()
		}
	}()
	<-begun
	if status, body := h.get(client(t, false), "ada", "demo", "/"); status != http.StatusTooManyRequests {
		t.Errorf("got %d %s, want 429", status, body)
	}
	cancel()
	<-ended
}

func TestF18NewestConnectionWins(t *testing.T) {
	h := startHub(t, nil)
	h.access.grant("ada", "demo")
	c := client(t, true)
	var old *agenttest.Agent
	for i := range 100 {
		name := fmt.Sprintf("connection-%d", i)
		next := h.agentWith(agenttest.Options{ID: name, Handler: http.HandlerFunc(
			func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, name) })}, "demo")
		if _, body := h.get(c, "ada", "demo", "/"); body != name {
			t.Fatalf("got an answer from %q, want %q", body, name)
		}
		if old != nil {
			old.Close() // late, after the new one is in use
		}
		old = next
		if _, body := h.get(c, "ada", "demo", "/"); body != name {
			t.Fatalf("after the old one's end: got an answer from %q, want %q", body, name)
		}
	}
	await.True(t, "the old connections' end", func() bool { return len(h.sessions()) == 1 })
}

func TestF15LostConnectionIsRetriedOnAnother(t *testing.T) {
	h := startHub(t, nil)
	h.access.grant("ada", "demo")
	h.agentWith(agenttest.Options{ID: "old", Handler: http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "old") })}, "demo")
	for _, tc := range []struct {
		method string
		status int
	}{{http.MethodGet, http.StatusOK}, {http.MethodPost, http.StatusBadGateway}, {http.MethodDelete, http.StatusBadGateway}} {
		var broken *agenttest.Agent
		ready := make(chan struct{})
		broken = h.agentWith(agenttest.Options{ID: "new", Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			<-ready
			go broken.Close()
			<-broken.Done()
		})}, "demo")
		close(ready)
		res, body := h.do(client(t, false), h.request(t.Context(), tc.method, "ada", "demo", "/", nil))
		if res.StatusCode != tc.status {
			t.Errorf("%s: got %d %s, want %d", tc.method, res.StatusCode, body, tc.status)
		}
		if tc.status != http.StatusOK && res.Header.Get("Retry-After") != "" {
			t.Errorf("%s: got Retry-After, want none: clients would repeat it blindly", tc.method)
		}
	}
}

func TestF38ErrorsSayWhereTheyComeFrom(t *testing.T) {
	h := startHub(t, nil)
	h.access.grant("ada", "demo")
	h.access.grant("ada", "offline")
	h.agent("demo", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/agent" {
			w.Header().Set("Leat-Error-Origin", "agent")
			w.Header().Set("Leat-Error-Reason", "CLUSTER_UNREACHABLE")
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		w.Header().Set("Leat-Error-Origin", "hub") // a lie
		w.WriteHeader(http.StatusNotFound)
	})
	upgrade := http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}}
	cases := map[string]struct {
		cluster, path, token   string
		header                 http.Header
		status                 int
		origin, reason, advice string
		text                   string // of an answer that is no Status
	}{
		"no token":      {cluster: "demo", path: "/", token: "", status: 401, origin: "hub", reason: "TOKEN_INVALID", advice: "obtain a new one"},
		"bad token":     {cluster: "demo", path: "/", token: "x.y.z", status: 401, origin: "hub", reason: "TOKEN_INVALID", advice: "obtain a new one"},
		"agent's token": {cluster: "demo", path: "/", token: h.cluster("demo"), status: 403, origin: "hub", reason: "ACCESS_DENIED", advice: "administrator"},
		"unknown":       {cluster: "nowhere", path: "/", token: h.user("ada"), status: 403, origin: "hub", reason: "ACCESS_DENIED", advice: "administrator"},
		"not a name":    {cluster: "No_Where", path: "/", token: h.user("ada"), status: 403, origin: "hub", reason: "ACCESS_DENIED", advice: "administrator"},
		"forbidden":     {cluster: "demo", path: "/", token: h.user("eve"), status: 403, origin: "hub", reason: "ACCESS_DENIED", advice: "administrator"},
		"offline":       {cluster: "offline", path: "/", token: h.user("ada"), status: 503, origin: "tunnel", reason: "AGENT_OFFLINE", advice: "check that it runs"},
		"api, offline":  {cluster: "offline", path: "/api", token: h.user("ada"), status: 502, origin: "tunnel", reason: "AGENT_OFFLINE", text: "check that it runs"},
		"api, unknown":  {cluster: "nowhere", path: "/apis", token: h.user("ada"), status: 403, origin: "hub", reason: "ACCESS_DENIED", text: "administrator"},
		"exec":          {cluster: "demo", path: "/api/v1/namespaces/a/pods/b/exec", token: h.user("ada"), header: upgrade, status: 404, origin: "cluster"},
		"agent":         {cluster: "demo", path: "/agent", token: h.user("ada"), status: 502, origin: "agent", reason: "CLUSTER_UNREACHABLE"},
		"cluster":       {cluster: "demo", path: "/missing", token: h.user("ada"), status: 404, origin: "cluster"},
	}
	for name, tc := range cases {
		req := h.request(t.Context(), http.MethodGet, "ada", tc.cluster, tc.path, nil)
		req.Header.Set("Authorization", "Bearer "+tc.token)
		if tc.token == "" {
			req.Header.Del("Authorization")
		}
		for key, values := range tc.header {
			req.Header[key] = values
		}
		res, body := h.do(client(t, false), req)
		if res.StatusCode != tc.status || res.Header.Get("Leat-Error-Origin") != tc.origin || res.Header.Get("Leat-Error-Reason") != tc.reason {
			t.Errorf("%s: got %d %v, want %d from %s because of %q", name, res.StatusCode, res.Header, tc.status, tc.origin, tc.reason)
		}
		if tc.advice != "" {
			checkStatus(t, name, body, tc.status, tc.origin, tc.advice)
		}
		if tc.text != "" && (!strings.HasPrefix(res.Header.Get("Content-Type"), "text/plain") || !strings.Contains(body, tc.text) || strings.Contains(body, "{")) {
			t.Errorf("%s: got %v %s, want text that kubectl shows", name, res.Header, body)
		}
		if got := res.Header.Get("WWW-Authenticate"); (got != "") != (tc.status == 401) {
			t.Errorf("%s: got WWW-Authenticate %q", name, got)
		}
		if got := res.Header.Get("Retry-After"); got != "" || strings.Contains(body, "retryAfterSeconds") {
			t.Errorf("%s: got Retry-After %q and %s, want neither: kubectl would be silent for minutes", name, got, body)
		}
		if got := res.Header.Get("Access-Control-Allow-Origin"); got != "" {
			t.Errorf("%s: got CORS header %q", name, got)
		}
	}
}

// checkStatus reads an error as kubectl does.
func checkStatus(tb testing.TB, name, body string, code int, origin, advice string) {
	tb.Helper()
	var status struct {
		Kind, APIVersion, Status, Message, Reason string
		Code                                      int
	}
	if err := json.Unmarshal([]byte(body), &status); err != nil {
		tb.Errorf("%s: body %q: %v", name, body, err)
		return
	}
	if status.Kind != "Status" || status.APIVersion != "v1" || status.Status != "Failure" || status.Code != code || status.Reason == "" {
		tb.Errorf("%s: got %+v, want a Status of code %d", name, status, code)
	}
	for _, part := range []string{"origin: " + origin, "trace id: ", advice} {
		if !strings.Contains(status.Message, part) {
			tb.Errorf("%s: message %q lacks %q", name, status.Message, part)
		}
	}
}
