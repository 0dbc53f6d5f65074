// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package suite_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/otlptest"
	"github.com/leatdev/leat/services/agent"
)

// seen is a request of a person that reached an API server through the tunnel.
type seen struct {
	mu       sync.Mutex
	requests []*http.Request
}

func (s *seen) with(path string) []*http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.requests), func(r *http.Request) bool { return r.URL.Path != path })
}

// overhear adds a proxy between the agent and its API server that records people's requests. The
// agent gets the settings too.
func (h *hub) overhear(t *testing.T, settings map[string]string) *seen {
	t.Helper()
	s := &seen{}
	target, err := url.Parse(h.cluster.Host())
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Transport: h.cluster.HTTPClient().Transport,
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Impersonate-User") != "" {
			s.mu.Lock()
			s.requests = append(s.requests, r.Clone(context.Background()))
			s.mu.Unlock()
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	config := filepath.Join(h.dir, "overheard")
	text := "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: \"" + server.URL + "\"}}]\n" +
		"contexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {}}]\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	h.agent.stop()
	h.agent.run = func(ctx context.Context, listener net.Listener) error {
		cfg := agent.Config{}
		if err := configure("agent", &cfg, with(settings, map[string]string{
			"LEAT_AGENT_HUB_URL": h.distributor.url(), "LEAT_AGENT_DATA_DIR": filepath.Join(h.dir, "agent"),
			"LEAT_AGENT_KUBECONFIG": config,
		})); err != nil {
			return err
		}
		cfg.Serve.Listener = listener
		return agent.Run(ctx, cfg)
	}
	h.agent.start(t)
	return s
}

// change is an event of a watch.
type change struct {
	Type   string
	Object struct {
		Metadata struct {
			Name            string
			ResourceVersion string
		}
	}
}

// changes reads events until one for the named object.
func changes(t *testing.T, response *http.Response, last string) []change {
	t.Helper()
	var all []change
	decoder := json.NewDecoder(bufio.NewReader(response.Body))
	for {
		var next change
		if err := decoder.Decode(&next); err != nil {
			t.Fatalf("read a watch after %v: %v", all, err)
		}
		all = append(all, next)
		if next.Object.Metadata.Name == last {
			return all
		}
	}
}

// TestTunnelToARealAPIServer compares the events that many viewers of one watch receive with the
// API server's own, and follows a trace to it. It is not parallel, because the environment
// configures exporters.
func TestTunnelToARealAPIServer(t *testing.T) {
	collected, traced := otlptest.Traces(t), map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}
	h := startServices(t, traced)
	h.enrol(t)
	h.grantAdmins(t)
	token := h.tunnelToken(t)
	base := h.tunnel.url() + "/clusters/demo"
	await.Poll(t, "the agent to enrol", pause, func() (bool, string) {
		code, body := get(t, http.DefaultClient, base+"/version", token)
		return code == http.StatusOK, body
	})
	var overheard *seen
	for name, tt := range map[string]struct {
		settings map[string]string
		caller   string   // its span
		services []string // that have a span of the request, from the API server up
	}{
		"one trace":                              {traced, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", []string{"agent", "tunnel"}},
		"one trace past an agent without a span": {nil, "00-5bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", []string{"tunnel"}},
	} {
		overheard = h.overhear(t, tt.settings)
		await.Poll(t, "an answer of the tunnel", pause, func() (bool, string) {
			code, body := get(t, http.DefaultClient, base+"/version", token)
			return code == http.StatusOK && len(overheard.with("/version")) > 0, body
		})
		t.Run(name, func(t *testing.T) {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/api/v1/nodes", nil)
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Authorization", "Bearer "+token)
			request.Header.Set("Traceparent", tt.caller)
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			requests := overheard.with("/api/v1/nodes")
			if len(requests) != 1 {
				t.Fatalf("got %d requests at the API server, want 1", len(requests))
			}
			traceparent := requests[0].Header.Get("Traceparent")
			await.Poll(t, "each span between the caller and the API server", pause, func() (bool, string) {
				services, top := above(collected, traceparent)
				return top == tt.caller && slices.Equal(slices.Compact(services), tt.services),
					fmt.Sprintf("%s is below spans of %q, and they are below %s", traceparent, services, top)
			})
		})
	}

	t.Run("shared watches", func(t *testing.T) {
		const path = "/api/v1/namespaces/default/configmaps"
		create := func(name string) {
			h.kubePost(t, path, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"`+name+`"}}`)
		}
		var versions []string
		var through, direct []*http.Response
		for i := range 12 {
			version := listVersion(t, h, path)
			watch := fmt.Sprintf("%s?watch=true&allowWatchBookmarks=false&resourceVersion=%s&timeoutSeconds=%d", path, version, 300+i)
			versions = append(versions, version)
			through = append(through, open(t, http.DefaultClient, base+watch, token))
			direct = append(direct, open(t, h.cluster.HTTPClient(), h.cluster.Host()+watch, ""))
			create(fmt.Sprintf("shared-%d", i))
		}
		create("last")
		for i := range through {
			defer through[i].Body.Close()
			defer direct[i].Body.Close()
			got, want := changes(t, through[i], "last"), changes(t, direct[i], "last")
			if !slices.Equal(got, want) {
				t.Errorf("from version %s: got %v through the tunnel, want %v", versions[i], got, want)
			}
		}
		if got := len(overheard.with(path)); got != 1 {
			t.Errorf("got %d watches of the API server for %d viewers, want 1", got, len(through))
		}
	})

	// A viewer of a streamed list receives the state of its own time, even if others already watch,
	// and everything that follows.
	t.Run("streamed lists", func(t *testing.T) {
		const path = "/api/v1/namespaces/default/secrets"
		const watch = path + "?watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
		create := func(name string) {
			h.kubePost(t, path, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"`+name+`"}}`)
		}
		var viewers []*http.Response
		for i := range 12 {
			create(fmt.Sprintf("listed-%d", i))
			viewers = append(viewers, open(t, http.DefaultClient, base+watch, token))
		}
		create("last")
		for i, viewer := range viewers {
			defer viewer.Body.Close()
			got := changes(t, viewer, "last")
			state := slices.IndexFunc(got, func(c change) bool { return c.Type == "BOOKMARK" })
			newest := slices.IndexFunc(got, func(c change) bool { return c.Object.Metadata.Name == fmt.Sprintf("listed-%d", i) })
			if newest < 0 || newest > state {
				t.Errorf("viewer %d: got %v, want the state with everything created before its request", i, got)
			}
			names := map[string]int{}
			for _, c := range got {
				names[c.Object.Metadata.Name]++
			}
			for name, times := range names {
				if times != 1 && name != "" {
					t.Errorf("viewer %d: got %s %d times", i, name, times)
				}
			}
			if len(names) != 14 {
				t.Errorf("viewer %d: got %v, want twelve, the last one and bookmarks", i, names)
			}
		}
	})
}

// above returns the services whose spans are between a request and the last span that was not
// exported, and that span.
func above(collected *otlptest.Collector, traceparent string) (services []string, top string) {
	traced := map[string]otlptest.Span{}
	for _, s := range collected.Spans() {
		traced[fmt.Sprintf("00-%x-%x-01", s.GetTraceId(), s.GetSpanId())] = s
	}
	for {
		span, exported := traced[traceparent]
		if !exported {
			return services, traceparent
		}
		services = append(services, span.Service)
		traceparent = fmt.Sprintf("00-%x-%x-01", span.GetTraceId(), span.GetParentSpanId())
	}
}

// listVersion returns the version of a list, as viewers obtain it before they watch.
func listVersion(t *testing.T, h *hub, path string) string {
	t.Helper()
	_, body := h.kubeGet(t, path)
	var list struct {
		Metadata struct{ ResourceVersion string }
	}
	if err := json.Unmarshal([]byte(body), &list); err != nil || list.Metadata.ResourceVersion == "" {
		t.Fatalf("list %s: %v in %s", path, err, body)
	}
	return list.Metadata.ResourceVersion
}
