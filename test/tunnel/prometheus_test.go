// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/kit/childproc"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/loopback"
)

// promService is the service that the agents of the rig allow, and its name in the cluster's DNS.
const (
	promService = "monitoring/prometheus:9090"
	promHost    = "prometheus.monitoring.svc:9090"
)

// dialService connects to services of the cluster: to a Prometheus on this machine.
func (r *rig) dialService(ctx context.Context, network, address string) (net.Conn, error) {
	if at, ok := r.services.Load(address); ok {
		address, _ = at.(string)
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	return nil, &net.DNSError{Err: "no such host", Name: address, IsNotFound: true}
}

// startPrometheus runs a Prometheus that scrapes nothing, and returns its address and the file of
// its configuration.
func startPrometheus(t *testing.T) (address, config string) {
	t.Helper()
	build := exec.CommandContext(t.Context(), filepath.Join("..", "..", "tools", "prometheus", "build.sh"))
	build.Stderr = os.Stderr // it reports that this takes a while
	program, err := build.Output()
	if err != nil {
		t.Fatalf("build Prometheus: %v", err)
	}
	folder := t.TempDir()
	address, config = loopback.Addr(t), filepath.Join(folder, "prometheus.yml")
	if err := os.WriteFile(config, []byte("global: {scrape_interval: 1h}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	command := exec.Command(strings.TrimSpace(string(program)), "--config.file="+config, "--storage.tsdb.path="+filepath.Join(folder, "data"),
		"--web.listen-address="+address, "--web.enable-lifecycle", "--web.external-url=http://"+promHost+"/")
	command.Stdout, command.Stderr = &said, &said
	ended, err := childproc.Start(command)
	if err != nil {
		t.Fatalf("start Prometheus: %v", err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		<-ended
		if t.Failed() {
			t.Logf("Prometheus said:\n%s", said.String())
		}
	})
	if err := waitOK(t.Context(), http.DefaultClient, "http://"+address+"/-/ready"); err != nil {
		t.Fatalf("wait for Prometheus: %v", err)
	}
	return address, config
}

// TestSlowPrometheus uses a real Prometheus in a cluster as people do, at the replica of the hub
// that has the agent and over a hop: both halves of the service proxy, with redirects, forms,
// compression, and events that arrive during their answer.
func TestSlowPrometheus(t *testing.T) {
	t.Parallel()
	if os.Getenv("LEAT_SLOW") == "" {
		t.Skip("LEAT_SLOW is not set: Prometheus is left to `make test-all`")
	}
	r := theRig(t)
	address, config := startPrometheus(t)
	r.services.Store(promHost, address)
	for _, way := range []string{"upgrade", "websocket", "connect", overHop + "upgrade"} {
		p := &visitor{rig: r, direct: "http://" + address, base: r.url(way) + "/services/" + promService}
		t.Run(way, func(t *testing.T) {
			t.Run("pages are the same", p.samePages)
			t.Run("redirects stay at the service", p.redirects)
			t.Run("forms arrive", p.queries)
			t.Run("answers stay compressed", p.compressed)
			t.Run("events arrive at once", func(t *testing.T) { p.events(t, config) })
			t.Run("other services are refused", p.refusals)
		})
	}
}

// visitor is a person who uses Prometheus through the tunnel.
type visitor struct {
	rig    *rig
	direct string // the URL of Prometheus itself
	base   string // its URL at the hub, without a slash at its end
}

// send makes a request as the person, and follows no redirect. Compression is left to the caller.
func (p *visitor) send(t *testing.T, method, target, body string, header ...string) *http.Response {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+p.rig.token)
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	transport := &http.Transport{TLSClientConfig: p.rig.ca.client(), ForceAttemptHTTP2: true, DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatalf("%s %s: %v", method, target, err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	return response
}

func bodyOf(t *testing.T, r *http.Response) string {
	t.Helper()
	content, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func (p *visitor) samePages(t *testing.T) {
	for _, path := range []string{"/-/ready", "/-/healthy", "/api/v1/status/buildinfo", "/api/v1/status/config", "/api/v1/query?query=vector(1)&time=1", "/api/v1/query?query=(", "/none"} {
		want, got := p.send(t, http.MethodGet, p.direct+path, ""), p.send(t, http.MethodGet, p.base+path, "")
		if wantBody, gotBody := bodyOf(t, want), bodyOf(t, got); got.StatusCode != want.StatusCode || gotBody != wantBody ||
			got.Header.Get("Content-Type") != want.Header.Get("Content-Type") {
			t.Errorf("%s: got %d %s %.200q, want %d %s %.200q", path, got.StatusCode, got.Header.Get("Content-Type"), gotBody,
				want.StatusCode, want.Header.Get("Content-Type"), wantBody)
		}
	}
}

// redirects follows the redirect of the start page, which Prometheus names as it sees itself.
func (p *visitor) redirects(t *testing.T) {
	for _, path := range []string{"", "/"} {
		got := p.send(t, http.MethodGet, p.base+path, "")
		location, err := got.Location()
		if err != nil || got.StatusCode != http.StatusFound || location.String() != p.base+"/query" {
			t.Errorf("%q: got %d to %v, %v, want a redirect to %s/query", path, got.StatusCode, location, err, p.base)
		}
	}
}

func (p *visitor) queries(t *testing.T) {
	form := url.Values{"query": {"vector(40) + vector(2) # " + strings.Repeat("x", 100<<10)}, "time": {"7"}}
	got := p.send(t, http.MethodPost, p.base+"/api/v1/query", form.Encode(), "Content-Type", "application/x-www-form-urlencoded")
	if text := bodyOf(t, got); got.StatusCode != http.StatusOK || !strings.Contains(text, `"value":[7,"42"]`) {
		t.Errorf("got %d, %.300s, want the answer", got.StatusCode, text)
	}
}

func (p *visitor) compressed(t *testing.T) {
	plain := p.send(t, http.MethodGet, p.base+"/metrics", "")
	if text := bodyOf(t, plain); plain.Header.Get("Content-Encoding") != "" || !strings.Contains(text, "prometheus_build_info") {
		t.Errorf("got %q, %.100q, want metrics that nobody has compressed", plain.Header.Get("Content-Encoding"), text)
	}
	packed := p.send(t, http.MethodGet, p.base+"/metrics", "", "Accept-Encoding", "gzip")
	if got := packed.Header.Get("Content-Encoding"); got != "gzip" {
		t.Fatalf("got encoding %q, want gzip", got)
	}
	reader, err := gzip.NewReader(packed.Body)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(reader)
	if err != nil || !strings.Contains(string(text), "prometheus_build_info") {
		t.Errorf("got %.100q, %v, want the metrics", text, err)
	}
}

// events opens Prometheus's stream of notifications, and then has it read a configuration that is
// wrong.
func (p *visitor) events(t *testing.T, config string) {
	before, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	stream := p.send(t, http.MethodGet, p.base+"/api/v1/notifications/live", "")
	if kind := stream.Header.Get("Content-Type"); stream.StatusCode != http.StatusOK || kind != "text/event-stream" {
		t.Fatalf("got %d, %q, want a stream of events", stream.StatusCode, kind)
	}
	reload := func(content string, want int) {
		t.Helper()
		if err := os.WriteFile(config, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := p.send(t, http.MethodPost, p.base+"/-/reload", ""); got.StatusCode != want {
			t.Errorf("reload: got %d, %s, want %d", got.StatusCode, bodyOf(t, got), want)
		}
	}
	reload("no: configuration\n", http.StatusInternalServerError)
	defer reload(string(before), http.StatusOK)
	lines := make(chan string, 64)
	go func() {
		defer close(lines)
		for scanner := bufio.NewScanner(stream.Body); scanner.Scan(); {
			lines <- scanner.Text()
		}
	}()
	for !strings.Contains(await.Value(t, "the event of the reload", lines), "Configuration reload has failed") {
	}
}

func (p *visitor) refusals(t *testing.T) {
	other := strings.TrimSuffix(p.base, "9090") + "9091"
	if got := p.send(t, http.MethodGet, other+"/", ""); got.StatusCode != http.StatusForbidden {
		t.Errorf("another port: got %d, want 403 by the agent's list", got.StatusCode)
	}
	if got := p.send(t, http.MethodGet, p.base+"/", "", "Authorization", "Bearer none"); got.StatusCode != http.StatusUnauthorized {
		t.Errorf("another token: got %d, want 401", got.StatusCode)
	}
}
