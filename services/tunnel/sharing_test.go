// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/services/tunnel"
	"github.com/leatdev/leat/services/tunnel/internal/agenttest"
)

// watched is an API server whose watches show what the test sends.
type watched struct {
	mu      sync.Mutex
	watches map[chan string]string // the path of each
	begun   int
}

// ServeHTTP shows one event at once, and then the sent ones.
func (s *watched) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !r.URL.Query().Has("watch") {
		_, _ = io.WriteString(w, "plain")
		return
	}
	events := make(chan string, 10)
	s.mu.Lock()
	if s.watches == nil {
		s.watches = map[chan string]string{}
	}
	s.watches[events] = r.URL.Path
	s.begun++
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watches, events)
	}()
	w.Header().Set("Content-Type", "application/json")
	events <- event("ADDED", 1)
	for {
		select {
		case e := <-events:
			_, _ = io.WriteString(w, e)
			_ = http.NewResponseController(w).Flush()
		case <-r.Context().Done():
			return
		}
	}
}

// sharedPods is a watch that shows any state first, so that many may share it.
const sharedPods = "/api/v1/pods?watch=true&resourceVersion=0"

func event(kind string, version int) string {
	return fmt.Sprintf(`{"type":%q,"object":{"metadata":{"resourceVersion":"%d"}}}`+"\n", kind, version)
}

func (s *watched) send(e string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for events := range s.watches {
		events <- e
	}
}

func (s *watched) counts() (begun, open int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begun, len(s.watches)
}

// browser is a client with one HTTP/2 connection. It counts how often it dials.
func browser(t *testing.T) (*http.Client, *atomic.Int64) {
	t.Helper()
	dials := &atomic.Int64{}
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols, DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		dials.Add(1)
		return new(net.Dialer).DialContext(ctx, network, addr)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}, dials
}

// viewer is an open watch.
type viewer struct {
	res   *http.Response
	lines *bufio.Reader
}

func (h *hub) watch(ctx context.Context, c *http.Client, user, path string) *viewer {
	h.tb.Helper()
	res, err := c.Do(h.request(ctx, http.MethodGet, user, "demo", path, nil))
	if err != nil {
		h.tb.Fatal(err)
	}
	h.tb.Cleanup(func() { _ = res.Body.Close() })
	if res.StatusCode != http.StatusOK {
		h.tb.Fatalf("got status %d for %s", res.StatusCode, path)
	}
	return &viewer{res: res, lines: bufio.NewReader(res.Body)}
}

func (v *viewer) want(tb testing.TB, want string) {
	tb.Helper()
	if got, err := v.lines.ReadString('\n'); got != want {
		tb.Errorf("got %q, %v, want %q", got, err, want)
	}
}

func TestF39FiftyTabsCostOneWatch(t *testing.T) {
	h := startHub(t, nil)
	h.access.grant("ada", "demo")
	api := &watched{}
	h.agent("demo", api.ServeHTTP)
	ctx, cancel := contextWithCancel(t)
	tabs, dials := browser(t)
	var viewers []*viewer
	for range 50 {
		viewers = append(viewers, h.watch(ctx, tabs, "ada", sharedPods))
	}
	for _, v := range viewers {
		v.want(t, event("ADDED", 1))
	}
	api.send(event("MODIFIED", 2))
	for _, v := range viewers {
		v.want(t, event("MODIFIED", 2))
	}
	if begun, _ := api.counts(); begun != 1 || dials.Load() != 1 {
		t.Errorf("got %d watches of the cluster and %d connections of the browser, want one each", begun, dials.Load())
	}
	if got := h.streams(); got != 1 {
		t.Errorf("got %d requests under way to the cluster, want 1", got)
	}
	if got := h.metric("leat_tunnel_watch_viewers"); got != "50" {
		t.Errorf("got %s viewers in the metrics, want 50", got)
	}
	cancel()
	await.True(t, "the records of all viewers", func() bool { return h.audited("outcome", "canceled") == 50 })
	if got := h.audited("decision", ""); got != 50 {
		t.Errorf("got %d recorded decisions, want one of each viewer", got)
	}
}

func TestF39FiftyDifferentWatchesOverOneConnection(t *testing.T) {
	h := startHub(t, nil)
	h.access.grant("ada", "demo")
	api := &watched{}
	h.agent("demo", api.ServeHTTP)
	ctx, _ := contextWithCancel(t)
	page, dials := browser(t)
	for i := range 50 {
		h.watch(ctx, page, "ada", fmt.Sprintf("/apis/example.com/v1/namespaces/n%d/things?watch=true", i)).want(t, event("ADDED", 1))
	}
	res, body := h.do(page, h.request(ctx, http.MethodGet, "ada", "demo", "/api/v1/pods", nil))
	if begun, _ := api.counts(); begun != 50 || dials.Load() != 1 || res.StatusCode != http.StatusOK || body != "plain" {
		t.Errorf("got %d watches, %d connections and %d %q beside them, want 50, 1 and an answer", begun, dials.Load(), res.StatusCode, body)
	}
}

func TestWatchesAreApartWhereFanInIsOff(t *testing.T) {
	h := startHub(t, func(cfg *tunnel.Config) { cfg.Load.WatchFanIn = "off" })
	h.access.grant("ada", "demo")
	api := &watched{}
	h.agent("demo", api.ServeHTTP)
	ctx, _ := contextWithCancel(t)
	c := client(t, true)
	for range 3 {
		h.watch(ctx, c, "ada", "/api/v1/pods?watch=true").want(t, event("ADDED", 1))
	}
	if begun, _ := api.counts(); begun != 3 {
		t.Errorf("got %d watches of the cluster, want 3", begun)
	}
}

// A request through the API server to another server may mean something new each time.
func TestProxiedStreamsAreNotShared(t *testing.T) {
	h := startHub(t, nil)
	h.access.grant("ada", "demo")
	api := &watched{}
	h.agent("demo", api.ServeHTTP)
	ctx, _ := contextWithCancel(t)
	c := client(t, true)
	paths := []string{
		"/api/v1/namespaces/n/services/s/proxy/stream?watch=true", "/api/v1/nodes/n/proxy?watch=true",
		"/api/v1/proxy/nodes?watch=true", "/other?watch=true", "/api/v1/namespaces/n/pods/p/proxy?watch=true",
	}
	for _, path := range paths {
		for range 2 {
			h.watch(ctx, c, "ada", path).want(t, event("ADDED", 1))
		}
	}
	if begun, _ := api.counts(); begun != 2*len(paths) {
		t.Errorf("got %d requests to the cluster, want %d", begun, 2*len(paths))
	}
}

// Two people whom the cluster sees as one share a watch. The other one continues to see what one
// may no longer see.
func TestRevokedViewerLeavesTheOthers(t *testing.T) {
	h := startHub(t, func(cfg *tunnel.Config) {
		cfg.RecheckInterval, cfg.AccessMaxAge = 50*time.Millisecond, time.Millisecond
	})
	for _, user := range []string{"ada", "bob"} {
		h.access.grant(user, "demo")
		h.access.answers["user:"+user+" demo"] = &distributorv1.CheckAccessResponse{
			Allowed: true, User: "team", MaxAge: durationpb.New(time.Millisecond), ClusterUid: "uid-demo",
		}
	}
	api := &watched{}
	h.agent("demo", api.ServeHTTP)
	ctx, _ := contextWithCancel(t)
	ada := h.watch(ctx, client(t, true), "ada", sharedPods)
	bob := h.watch(ctx, client(t, true), "bob", sharedPods)
	ada.want(t, event("ADDED", 1))
	bob.want(t, event("ADDED", 1))
	h.access.revoke("ada", "demo")
	if line, err := ada.lines.ReadString('\n'); err == nil {
		t.Errorf("got %q after the permission was withdrawn, want an error", line)
	}
	api.send(event("MODIFIED", 2))
	bob.want(t, event("MODIFIED", 2))
	if begun, open := api.counts(); begun != 1 || open != 1 {
		t.Errorf("got %d watches begun and %d open, want the shared one", begun, open)
	}
	await.True(t, "ada's record", func() bool { return h.audited("outcome", "revoked") == 1 })
}

func TestSharedWatchCountsForEachPerson(t *testing.T) {
	h := startHub(t, func(cfg *tunnel.Config) { cfg.MaxStreamsPerUser, cfg.MaxStreamsPerCluster = 5, 2 })
	h.access.grant("ada", "demo")
	h.access.grant("bob", "demo")
	api := &watched{}
	h.agent("demo", api.ServeHTTP)
	ctx, _ := contextWithCancel(t)
	c := client(t, true)
	for range 5 {
		h.watch(ctx, c, "ada", sharedPods).want(t, event("ADDED", 1))
	}
	check := func(user, scope string) {
		t.Helper()
		res, body := h.do(c, h.request(ctx, http.MethodGet, user, "demo", sharedPods, nil))
		if res.StatusCode != http.StatusTooManyRequests || res.Header.Get("Retry-After") != "1" || !strings.Contains(body, scope) {
			t.Errorf("got %d %v %s, want 429 about the %s", res.StatusCode, res.Header, body, scope)
		}
	}
	check("ada", "user")
	h.watch(ctx, c, "bob", "/api/v1/secrets?watch=true").want(t, event("ADDED", 1))
	check("bob", "cluster") // ada's five are one
}

func TestDrainEndsSharedWatches(t *testing.T) {
	h := startHub(t, nil)
	h.access.grant("ada", "demo")
	api := &watched{}
	h.agent("demo", api.ServeHTTP)
	ctx, _ := contextWithCancel(t)
	v := h.watch(ctx, client(t, true), "ada", "/api/v1/pods?watch=true")
	v.want(t, event("ADDED", 1))
	h.stop()
	if rest, err := io.ReadAll(v.lines); len(rest) > 0 || err != nil {
		t.Errorf("got %q, %v, want the end that API servers make", rest, err)
	}
	await.True(t, "ada's record", func() bool { return h.audited("outcome", "drained") == 1 })
}

// metric returns a number from /metrics, of the first series of that name.
func (h *hub) metric(name string) string {
	h.tb.Helper()
	for line := range strings.Lines(h.metrics()) {
		if series, value, ok := strings.Cut(strings.TrimSpace(line), "} "); ok && strings.HasPrefix(series, name+"{") {
			return value
		}
	}
	return ""
}

func (h *hub) metrics() string {
	h.tb.Helper()
	req, err := http.NewRequestWithContext(h.tb.Context(), http.MethodGet, "http://"+h.internal.Addr().String()+"/metrics", nil)
	if err != nil {
		h.tb.Fatal(err)
	}
	_, body := h.do(client(h.tb, false), req)
	return body
}

// audited counts records of a phase, with an outcome.
func (h *hub) audited(phase, outcome string) int {
	return len(slices.DeleteFunc(h.audit.records(h.tb), func(record map[string]any) bool {
		return record["phase"] != phase || outcome != "" && record["outcome"] != outcome
	}))
}

func TestF16ThousandWatchesLeaveRoomForAGet(t *testing.T) {
	h := startHub(t, func(cfg *tunnel.Config) { cfg.MaxStreamsPerUser, cfg.MaxStreamsPerCluster = 2000, 1001 })
	h.access.grant("ada", "demo")
	api := &watched{}
	h.agentWith(agenttest.Options{ID: "c", MaxStreams: 1100, Handler: api}, "demo")
	ctx, _ := contextWithCancel(t)
	c := client(t, true)
	open := func(i int) {
		h.watch(ctx, c, "ada", fmt.Sprintf("/api/v1/namespaces/n%d/pods?watch=true", i)).want(t, event("ADDED", 1))
	}
	for i := range 1000 {
		open(i)
	}
	if status, body := h.get(client(t, false), "ada", "demo", "/api/v1/pods"); status != http.StatusOK || body != "plain" {
		t.Fatalf("got %d %s beside 1000 watches, want an answer", status, body)
	}
	open(1000)
	res, body := h.do(client(t, false), h.request(ctx, http.MethodGet, "ada", "demo", "/api/v1/pods", nil))
	if res.StatusCode != http.StatusTooManyRequests || res.Header.Get("Retry-After") != "1" {
		t.Errorf("got %d %v %s above the limit, want 429 with Retry-After", res.StatusCode, res.Header, body)
	}
}

// Agent A carries as many answers as it may, and they are not read. A caller that asks for A hears
// so at once; a caller that asks for B notices nothing.
func TestF07SaturatedClusterLeavesOthersAlone(t *testing.T) {
	const streams = 100
	h := startHub(t, nil)
	for _, cluster := range []string{"a", "b"} {
		h.access.grant("ada", cluster)
	}
	var stalled atomic.Int64
	h.agentWith(agenttest.Options{ID: "a", MaxStreams: streams, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		stalled.Add(1)
		_, _ = io.Copy(w, io.LimitReader(zeros{}, 1<<30))
	})}, "a")
	h.agent("b", echo)
	ctx, cancel := contextWithCancel(t)
	large := func(c *http.Client) *http.Response {
		res, err := c.Do(h.request(ctx, http.MethodGet, "ada", "a", "/large", nil))
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	for held, asked := 0, 0; held < streams; asked++ {
		if asked == 10*streams {
			t.Fatalf("the saturated cluster takes %d requests at once, want %d", held, streams)
		}
		res := large(client(t, false))
		defer func() { _ = res.Body.Close() }()
		if res.StatusCode == http.StatusOK { // the last place may be a heartbeat's for a moment
			held++
		}
	}
	defer cancel()
	c := client(t, false)
	for range 100 {
		res := large(c)
		if res.StatusCode != http.StatusTooManyRequests {
			t.Fatalf("got %s from the saturated cluster, want 429", res.Status)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		req := h.request(ctx, http.MethodPost, "ada", "b", "/small", strings.NewReader("x"))
		if res, body := h.do(c, req); res.StatusCode != http.StatusOK || body != "POST /small x" {
			t.Fatalf("got %d %s from the other cluster, want its answer", res.StatusCode, body)
		}
	}
	if got := stalled.Load(); got != streams {
		t.Errorf("got %d requests at the saturated agent, want %d", got, streams)
	}
}
