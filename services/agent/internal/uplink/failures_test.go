// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uplink_test

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/runtime/h2"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/services/agent/internal/uplink"
)

// as returns a request of the hub for a person.
func as(t *testing.T, ctx context.Context, user, method, address string, body io.Reader) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Impersonate-User", user)
	return req
}

// overHTTP2 returns an API server with a stream limit, and a function that makes transports to it
// that share nothing.
func overHTTP2(t *testing.T, streams int, h http.HandlerFunc) (base *url.URL, transport func() http.RoundTripper) {
	t.Helper()
	server := httptest.NewUnstartedServer(h)
	server.EnableHTTP2 = true
	server.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: streams}
	server.StartTLS()
	t.Cleanup(server.Close)
	base, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	config := server.Client().Transport.(*http.Transport).TLSClientConfig
	return base, func() http.RoundTripper {
		transport := &http.Transport{TLSClientConfig: config.Clone(), ForceAttemptHTTP2: true, DisableCompression: true}
		budget, err := h2.NewBudget(64 << 20)
		if err != nil {
			t.Fatal(err)
		}
		pool := h2.NewPool(h2.Settings{ // as the agent's own transports have it
			Windows: h2.DefaultWindows(), FrameSize: 64 << 10, MaxHeaderBytes: 1 << 20,
			PingAfter: 30 * time.Second, PingTimeout: 15 * time.Second, WriteTimeout: time.Minute, ContinueTimeout: time.Second,
		}, budget)
		pool.Install(transport)
		t.Cleanup(func() {
			pool.CloseIdleConnections()
			transport.CloseIdleConnections()
		})
		return pool.Before(transport)
	}
}

// TestF33GzippedWatchIsFlushedByTheAgent reads each event before the next one occurs.
func TestF33GzippedWatchIsFlushedByTheAgent(t *testing.T) {
	t.Parallel()
	next := make(chan string)
	base, transport := overHTTP2(t, 100, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", r.Header.Get("Accept-Encoding"))
		zip := gzip.NewWriter(w)
		for event := range next {
			_, _ = io.WriteString(zip, event)
			_ = zip.Flush()
			_ = http.NewResponseController(w).Flush()
		}
	})
	defer close(next)
	client, hub := hubSide(t, newHandler(t, uplink.HandlerParams{APIServer: base, Transport: transport()}))
	req := as(t, t.Context(), "alice", http.MethodGet, hub+"/kubernetes/api/v1/pods?watch=1", nil)
	req.Header.Set("Accept-Encoding", "gzip")
	go func() { next <- "event 0\n" }()
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	unzip, err := gzip.NewReader(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	for events, i := bufio.NewReader(unzip), 0; i < 5; i++ {
		if i > 0 {
			next <- fmt.Sprintf("event %d\n", i)
		}
		if got, err := events.ReadString('\n'); err != nil || got != fmt.Sprintf("event %d\n", i) { // hangs if it is not flushed
			t.Fatalf("got %q, %v, want event %d", got, err, i)
		}
	}
}

// TestF46WatchesDoNotHoldShortCallsUp opens more watches than the API server allows on a
// connection, each for another person. Short calls are answered at once beside them, on a
// connection without a watch, and the agent's metrics separate the two.
func TestF46WatchesDoNotHoldShortCallsUp(t *testing.T) {
	t.Parallel()
	const watches, calls, streams = 300, 11, 100
	var withWatches, withCalls sync.Map // the connections, by their address
	base, transport := overHTTP2(t, streams, func(w http.ResponseWriter, r *http.Request) {
		connections := &withCalls
		if r.URL.Query().Has("watch") {
			connections = &withWatches
		}
		connections.Store(r.RemoteAddr, nil)
		_, _ = io.WriteString(w, r.Header.Get("Impersonate-User"))
		if r.URL.Query().Has("watch") {
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}
	})
	measured := startTelemetry(t)
	client, hub := hubSide(t, newHandler(t, uplink.HandlerParams{
		APIServer: base, Transport: transport(), Watches: transport(), Meter: measured.Meter("agent"),
	}))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	// A transport dials for each request that finds no room, and net/http's server gives up on a client
	// whose first frame it has not read after 2 s: of 300 at once on a busy machine, some.
	turns := make(chan struct{}, 20)
	var all sync.WaitGroup
	for i := range watches {
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			user := fmt.Sprintf("user-%d", i)
			res, err := client.Do(as(t, ctx, user, http.MethodGet, hub+"/kubernetes/api/v1/pods?watch=true", nil))
			if err != nil {
				t.Errorf("watch %d: %v", i, err)
				return
			}
			t.Cleanup(func() { _ = res.Body.Close() })
			got := make([]byte, len(user))
			if res.StatusCode != http.StatusOK {
				got, err = io.ReadAll(res.Body)
			} else {
				_, err = io.ReadFull(res.Body, got) // hangs if it waits for another watch's end
			}
			if err != nil || string(got) != user {
				t.Errorf("watch %d: got %s %q, %v, want what %s sees", i, res.Status, got, err, user)
			}
		})
	}
	all.Wait()
	for range calls { // each hangs if it waits for a watch's end
		res, err := client.Do(as(t, t.Context(), "alice", http.MethodGet, hub+"/kubernetes/api/v1/pods", nil))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || string(got) != "alice" {
			t.Errorf("beside %d watches: got %s %q, %v, want an answer", watches, res.Status, got, err)
		}
	}
	withCalls.Range(func(connection, _ any) bool {
		if _, shared := withWatches.Load(connection); shared {
			t.Error("a short call went over a connection with watches")
		}
		return true
	})
	recorder := httptest.NewRecorder()
	measured.MetricsHandler().ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for kind, want := range map[string]string{"watch": strconv.Itoa(watches), "short": "0"} {
		line := regexp.MustCompile(`(?m)^leat_uplink_requests_active\{.*leat_connection_kind="` + kind + `".*\} (\d+)$`)
		if match := line.FindStringSubmatch(recorder.Body.String()); match == nil || match[1] != want {
			t.Errorf("got %q requests under way of kind %s, want %s", match, kind, want)
		}
	}
}

// startTelemetry records real metrics.
func startTelemetry(t *testing.T) *telemetry.Telemetry {
	t.Helper()
	tel, err := telemetry.Start(t.Context(), telemetry.Config{LogOutput: io.Discard}, "agent")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tel.Shutdown(context.WithoutCancel(t.Context())) })
	return tel
}

// TestF36EarlyRefusalThroughTheAgent rejects an upload whose rest never arrives.
func TestF36EarlyRefusalThroughTheAgent(t *testing.T) {
	t.Parallel()
	base, transport := overHTTP2(t, 100, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadFull(r.Body, make([]byte, 1024))
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		_, _ = io.WriteString(w, "too large")
	})
	client, hub := hubSide(t, newHandler(t, uplink.HandlerParams{APIServer: base, Transport: transport()}))
	upload, send := io.Pipe()
	defer send.Close()
	go func() { _, _ = send.Write(make([]byte, 1024)) }()
	res, err := client.Do(as(t, t.Context(), "alice", http.MethodPost, hub+"/kubernetes/api/v1/namespaces/a/configmaps", upload))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if got, err := io.ReadAll(res.Body); err != nil || res.StatusCode != http.StatusRequestEntityTooLarge || string(got) != "too large" {
		t.Errorf("got %s %q, %v, want 413 although the upload goes on", res.Status, got, err)
	}
}

// TestF35StandardInputThroughTheAgent sends files through a container and back. Only the end of the
// caller's direction shows that there is no more data, for every protocol whose own signs the agent
// does not interpret.
func TestF35StandardInputThroughTheAgent(t *testing.T) {
	t.Parallel()
	big := make([]byte, 3<<20+17)
	_, _ = rand.Read(big)
	for _, protocol := range []string{"SPDY/3.1", "websocket"} {
		for _, subprotocol := range []string{"v4.channel.k8s.io", "v5.channel.k8s.io"} {
			for name, content := range map[string][]byte{"nothing": nil, "a byte": {0}, "cat": big, "tar": archive(t, big)} {
				t.Run(protocol+" "+subprotocol+" "+name, func(t *testing.T) {
					t.Parallel()
					got := catThroughAgent(t, protocol, subprotocol, content)
					if sha256.Sum256(got) != sha256.Sum256(content) {
						t.Errorf("got %d bytes, want the %d that were sent, byte for byte", len(got), len(content))
					}
				})
			}
		}
	}
}

// catThroughAgent runs cat in a container, which answers with its whole input after the end of
// that.
func catThroughAgent(t *testing.T, protocol, subprotocol string, content []byte) []byte {
	t.Helper()
	base, config, seen := apiServer(t, true, func(conn net.Conn, buffered *bufio.ReadWriter) {
		all, err := io.ReadAll(buffered)
		if err == nil {
			_, _ = conn.Write(all)
		}
		if half, ok := conn.(*tls.Conn); ok {
			_ = half.CloseWrite()
		}
	})
	client, hub := hubSide(t, upgradeHandler(t, base, config))
	body, send := io.Pipe()
	defer send.Close()
	req := as(t, t.Context(), "alice", http.MethodPost, hub+"/kubernetes/api/v1/namespaces/a/pods/b/exec?command=cat&stdin=true", body)
	req.Header.Set("Leat-Upgrade", protocol)
	req.Header.Set("Sec-Websocket-Protocol", subprotocol)
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := send.Write(content); err != nil && len(content) > 0 {
		t.Fatal(err)
	}
	_ = send.Close()
	got, err := io.ReadAll(res.Body)
	if err != nil {
		t.Errorf("read what came back: %v", err)
	}
	if r := seen.Load(); r.Header.Get("Upgrade") != protocol || r.Header.Get("Sec-Websocket-Protocol") != subprotocol {
		t.Errorf("the API server saw %v, want both protocols", r.Header)
	}
	return got
}

// archive returns a tar with one file.
func archive(t *testing.T, content []byte) []byte {
	t.Helper()
	var buffer bytes.Buffer
	w := tar.NewWriter(&buffer)
	if err := w.WriteHeader(&tar.Header{Name: "big", Mode: 0o600, Size: int64(len(content))}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}
