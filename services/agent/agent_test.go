// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/internal/runtime/localkube"
	"github.com/leatdev/leat/internal/runtime/localkube/kubetest"
	"github.com/leatdev/leat/internal/runtime/serve"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/services/agent"
)

func configMap(name, value string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s\ndata:\n  value: %q\n", name, value)
}

func TestMain(m *testing.M) { os.Exit(kubetest.Run(m)) }

// startAgent runs an agent until the test ends, or stop is called.
func startAgent(t *testing.T, cp *localkube.ControlPlane, hubURL, dataDir, join string, options ...func(*agent.Config)) (stop func()) {
	t.Helper()
	cfg := agent.Config{
		Serve:     serve.Config{ListenAddr: "127.0.0.1:0"},
		Telemetry: telemetry.Config{LogOutput: t.Output(), LogFormat: "text", LogLevel: "debug"},
		HubURL:    hubURL, JoinToken: secret.Text(join), DataDir: dataDir, Kubeconfig: cp.KubeconfigPath(), ClusterView: true,
	}
	for _, option := range options {
		option(&cfg)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- agent.Run(ctx, cfg) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("agent ended: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func phase(want typev1.ServicePhase, digest string) func(*distributorv1.ServiceReport) bool {
	return func(got *distributorv1.ServiceReport) bool {
		return got.GetPhase() == want && (digest == "" || len(got.GetAppliedDigests()) == 1 && got.GetAppliedDigests()[0] == digest)
	}
}

const (
	healthy = typev1.ServicePhase_SERVICE_PHASE_HEALTHY
	failed  = typev1.ServicePhase_SERVICE_PHASE_FAILED
)

// value reads the one value of a ConfigMap; empty where there is none.
func value(t *testing.T, cp *localkube.ControlPlane, name string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, cp.Host()+"/api/v1/namespaces/default/configmaps/"+name, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", "application/yaml")
	response, err := cp.HTTPClient().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var text strings.Builder
	if err := response.Write(&text); err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(text.String(), "\n  value: ")
	got, _, _ := strings.Cut(after, "\n")
	return strings.Trim(got, "\"")
}

func assertValue(t *testing.T, cp *localkube.ControlPlane, name, want string) {
	t.Helper()
	if got := value(t, cp, name); got != want {
		t.Errorf("ConfigMap %s: got value %q, want %q", name, got, want)
	}
}

func TestAgent(t *testing.T) {
	t.Parallel()
	cp, h, dir := kubetest.Borrow(t), newHub(t), t.TempDir()
	stop := startAgent(t, cp, h.url(), dir, joinToken)

	// The plan is pushed, and what leaves the bundle is pruned.
	d := h.deploy(t, "web", map[string]string{"a.yaml": configMap("web-a", "1"), "b.yaml": configMap("web-b", "1")})
	got := h.awaitReport(t, "web", phase(healthy, d))
	if got.GetCounts().GetHealthy() != 2 || got.GetServiceUid() != "uid-web" || got.GetObservedSpecDigest() != "spec" {
		t.Errorf("report: got %v, want 2 healthy objects, uid-web, spec", got)
	}
	d = h.deploy(t, "web", map[string]string{"a.yaml": configMap("web-a", "2")})
	h.awaitReport(t, "web", phase(healthy, d))
	assertValue(t, cp, "web-a", "2")
	assertValue(t, cp, "web-b", "")
	h.await(t, "description of the cluster", func() bool { return h.cluster.GetKubernetesVersion() == "v1.36.3" })

	// A download that breaks off is resumed.
	h.change(func() { h.cut, h.ranges = 1, nil })
	d = h.deploy(t, "web", map[string]string{"a.yaml": configMap("web-a", "3") + "# " + strings.Repeat("x", 100)})
	h.awaitReport(t, "web", phase(healthy, d))
	h.await(t, "resumed download", func() bool {
		return len(h.ranges) == 2 && h.ranges[0] == "" && strings.HasPrefix(h.ranges[1], "bytes=")
	})

	// The agent refuses a bundle that does not match its digest and keeps the last good state. The
	// next attempt recovers.
	h.change(func() { h.corrupt = true })
	d = h.deploy(t, "web", map[string]string{"a.yaml": configMap("web-a", "4")})
	got = h.awaitReport(t, "web", phase(failed, ""))
	if got.GetProblem().GetReason() != errorsv1.Reason_REASON_BUNDLE_UNAVAILABLE {
		t.Errorf("problem: got %v, want BUNDLE_UNAVAILABLE", got.GetProblem())
	}
	assertValue(t, cp, "web-a", "3")
	h.change(func() { h.corrupt = false })
	h.awaitReport(t, "web", phase(healthy, d))
	assertValue(t, cp, "web-a", "4")

	// An access token that the hub does not know any more is replaced.
	h.change(func() { h.tokens++ })
	d = h.deploy(t, "web", map[string]string{"a.yaml": configMap("web-a", "5")})
	h.awaitReport(t, "web", phase(healthy, d))
	stop()

	info, err := os.Stat(filepath.Join(dir, "agent.key"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("key file: got %v, %v, want mode 0600", info, err)
	}
}

// TestDelta shows that a second commit travels as what it changed, and that a base which turned
// over on the disk costs no more than the whole bundle: nothing of it is seen outside.
func TestDelta(t *testing.T) {
	t.Parallel()
	cp, h, dir := kubetest.Borrow(t), newHub(t), t.TempDir()
	startAgent(t, cp, h.url(), dir, joinToken)
	large := map[string]string{"a.yaml": configMap("delta-a", "1")}
	for n := range 100 {
		large[fmt.Sprintf("notes/%03d.md", n)] = fmt.Sprintf("%x", digest.FromBytes([]byte{byte(n)}).Bytes())
	}
	commit := func(value string) (string, download) {
		large["a.yaml"] = configMap("delta-a", value)
		h.change(func() { h.downloads = nil })
		d := h.deploy(t, "delta", large)
		h.awaitReport(t, "delta", phase(healthy, d))
		assertValue(t, cp, "delta-a", value)
		h.mu.Lock()
		defer h.mu.Unlock()
		return d, h.downloads[len(h.downloads)-1]
	}
	first, whole := commit("1")
	second, delta := commit("2")
	if delta.from != first || !delta.delta || delta.bytes*10 > whole.bytes {
		t.Errorf("second commit: got %+v, want a delta from %s of less than a tenth of %d bytes", delta, first, whole.bytes)
	}
	found, err := filepath.Glob(filepath.Join(dir, "bundles", "blobs", "*", strings.TrimPrefix(second, "sha256:")+".*"))
	if err != nil || len(found) != 1 {
		t.Fatalf("stored bundle: got %v, %v, want one file", found, err)
	}
	content, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	content[len(content)/2] ^= 1
	if err := os.WriteFile(found[0], content, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, got := commit("3"); got.from != "" || got.delta || got.bytes < whole.bytes/2 {
		t.Errorf("commit on a damaged base: got %+v at last, want the whole bundle", got)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.downloads) != 2 || !h.downloads[0].delta {
		t.Errorf("downloads on a damaged base: got %+v, want a delta in vain and then the bundle", h.downloads)
	}
}

// TestWithoutStreams shows that a hub behind something that breaks streams is polled.
func TestWithoutStreams(t *testing.T) {
	t.Parallel()
	cp, h := kubetest.Borrow(t), newHub(t)
	h.noStreams = true
	startAgent(t, cp, h.url(), t.TempDir(), joinToken)
	for i := range 3 {
		d := h.deploy(t, "poll", map[string]string{"a.yaml": configMap("poll-a", fmt.Sprint(i))})
		h.awaitReport(t, "poll", phase(healthy, d))
	}
	h.await(t, "polls", func() bool { return h.polls >= 3 })
}

// TestOffline shows that an agent that starts without its hub works from disk, and reports once the
// hub is back.
func TestOffline(t *testing.T) {
	t.Parallel()
	cp, h, dir := kubetest.Borrow(t), newHub(t), t.TempDir()
	stop := startAgent(t, cp, h.url(), dir, joinToken)
	d := h.deploy(t, "off", map[string]string{"a.yaml": configMap("off-a", "1")})
	h.awaitReport(t, "off", phase(healthy, d))
	stop()
	h.stop()

	// The inventory is lost, too, so that there is something to do: only the disk knows what.
	remove(t, cp, "/api/v1/namespaces/leat-system/configmaps/leat-inventory.off")
	remove(t, cp, "/api/v1/namespaces/default/configmaps/off-a")
	h.change(func() { clear(h.reports) })
	startAgent(t, cp, h.url(), dir, "")
	awaitValue(t, cp, "off-a", "1")

	h.listen(t, h.address)
	h.awaitReport(t, "off", phase(healthy, d))
}

// TestEnrolAgain shows that an agent whose key was revoked uses a new join token, and only a new
// one.
func TestEnrolAgain(t *testing.T) {
	t.Parallel()
	cp, h, dir := kubetest.Borrow(t), newHub(t), t.TempDir()
	stop := startAgent(t, cp, h.url(), dir, joinToken)
	d := h.deploy(t, "enrol", map[string]string{"a.yaml": configMap("enrol-a", "1")})
	h.awaitReport(t, "enrol", phase(healthy, d))
	stop()
	h.change(func() {
		h.key, h.joins = nil, map[string]bool{joinToken: true, "another": true}
		clear(h.reports)
	})
	startAgent(t, cp, h.url(), dir, "another")
	h.awaitReport(t, "enrol", phase(healthy, d))
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.joins[joinToken] || h.joins["another"] {
		t.Errorf("join tokens left: got %v, want only %q", h.joins, joinToken)
	}
}

func remove(t *testing.T, cp *localkube.ControlPlane, path string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, cp.Host()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := cp.HTTPClient().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Fatalf("DELETE %s: got %d, want 200", path, response.StatusCode)
	}
}

// awaitValue follows one ConfigMap's watch until it has the value.
func awaitValue(t *testing.T, cp *localkube.ControlPlane, name, want string) {
	t.Helper()
	awaitExists(t, cp, "/api/v1/namespaces/default/configmaps", name)
	assertValue(t, cp, name, want)
}

// awaitExists waits until an object is in a collection of the API server's.
func awaitExists(t *testing.T, cp *localkube.ControlPlane, collection, name string) {
	t.Helper()
	request, err := http.NewRequestWithContext(await.Context(t), http.MethodGet, cp.Host()+collection+"?watch=1&fieldSelector=metadata.name="+name, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := cp.HTTPClient().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if _, err := response.Body.Read(make([]byte, 1)); err != nil { // the first event
		t.Fatalf("watch %s: %v", name, err)
	}
}
