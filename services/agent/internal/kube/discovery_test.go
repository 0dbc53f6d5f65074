// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/kit/wake"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/services/agent/internal/kube"
)

// discoveryServer answers only discovery.
type discoveryServer struct {
	mu        sync.Mutex
	aggregate bool
	etag      string
	down      bool   // does not answer with what it should
	mills     string // freshness of the group of mills; empty: it is not there
	bare      bool   // the group of mills is listed without its content
	answers   map[string]int
	gate      chan struct{} // nil, or closed to let answers out
}

// ServeHTTP implements http.Handler.
func (d *discoveryServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	gate := d.gate
	d.mu.Unlock()
	if gate != nil {
		<-gate
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	code, contentType, body := d.answer(r)
	d.answers[fmt.Sprint(r.URL.Path, " ", code)]++
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("ETag", d.etag)
	w.WriteHeader(code)
	_, _ = io.WriteString(w, body)
}

func (d *discoveryServer) answer(r *http.Request) (code int, contentType, body string) {
	const plain, aggregated = "application/json", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	switch {
	case d.down:
		return http.StatusInternalServerError, "text/plain", "no"
	case d.aggregate && r.Header.Get("If-None-Match") == d.etag:
		return http.StatusNotModified, plain, ""
	case d.aggregate && r.URL.Path == "/api":
		return http.StatusOK, aggregated, d.group("", "ConfigMap", "configmaps", "Current", false)
	case d.aggregate && d.mills != "":
		return http.StatusOK, aggregated, d.group("example.test", "Mill", "mills", d.mills, d.bare)
	case d.aggregate:
		return http.StatusOK, aggregated, `{"items": []}`
	}
	switch r.URL.Path {
	case "/api":
		return http.StatusOK, plain, `{"kind": "APIVersions", "versions": ["v1"]}`
	case "/api/v1":
		return http.StatusOK, plain, `{"kind": "APIResourceList", "groupVersion": "v1", "resources": [{"name": "configmaps", "kind": "ConfigMap", "namespaced": true}, {"name": "configmaps/status", "kind": "Status"}]}`
	case "/apis":
		return http.StatusOK, plain, `{"kind": "APIGroupList", "groups": [{"name": "example.test", "versions": [{"groupVersion": "example.test/v1", "version": "v1"}]}]}`
	default:
		return http.StatusServiceUnavailable, plain, "{}"
	}
}

func (d *discoveryServer) group(name, kind, resource, freshness string, bare bool) string {
	resources := fmt.Sprintf(`{"resource": %q, "responseKind": {"group": %q, "version": "v1", "kind": %q}, "scope": "Namespaced",
		"subresources": [{"subresource": "status", "responseKind": {"kind": %[3]q}}]}`, resource, name, kind)
	if bare {
		resources = ""
	}
	return fmt.Sprintf(`{"items": [{"metadata": {"name": %q}, "versions": [{"version": "v1", "freshness": %q, "resources": [%s]}]}]}`, name, freshness, resources)
}

func (d *discoveryServer) set(change func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change()
}

func (d *discoveryServer) count(what string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.answers[what]
}

// total returns the number of all answers.
func (d *discoveryServer) total() (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, count := range d.answers {
		n += count
	}
	return n
}

func startDiscovery(t *testing.T) (*discoveryServer, *kube.Client) {
	t.Helper()
	d := &discoveryServer{aggregate: true, etag: `"1"`, mills: "Current", answers: map[string]int{}}
	server := httptest.NewServer(d)
	t.Cleanup(server.Close)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	config := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: x\nclusters: [{name: x, cluster: {server: %q}}]\n"+
		"users: [{name: x, user: {}}]\ncontexts: [{name: x, context: {cluster: x, user: x}}]\n", server.URL)
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	client, err := kube.New(kube.Params{Kubeconfig: path, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return d, client
}

// reasonOf returns why a kind is unknown, or "" if it is known.
func reasonOf(t *testing.T, client *kube.Client, kind schema.GroupVersionKind) reason.Reason {
	t.Helper()
	if _, err := client.Namespaced(t.Context(), kind); err != nil {
		return reason.ProblemOf(err).Reason
	}
	return 0
}

// patiently asks until the expected answer: requests to the API server are spaced.
func patiently(t *testing.T, client *kube.Client, kind schema.GroupVersionKind, want reason.Reason) {
	t.Helper()
	await.Poll(t, fmt.Sprintf("%q for %s", want, kind), time.Millisecond, func() (bool, string) {
		got := reasonOf(t, client, kind)
		return got == want, fmt.Sprintf("%q", got)
	})
}

var (
	mill    = schema.GroupVersionKind{Group: "example.test", Version: "v1", Kind: "Mill"}
	unknown = schema.GroupVersionKind{Group: "example.test", Version: "v1", Kind: "Unknown"}
	plainCM = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
)

// TestDiscoveryIsShared has many concurrent callers, which also ask for a missing kind.
func TestDiscoveryIsShared(t *testing.T) {
	t.Parallel()
	d, client := startDiscovery(t)
	gate := make(chan struct{})
	d.set(func() { d.gate = gate })
	var group sync.WaitGroup
	for range 50 {
		group.Go(func() {
			if got := reasonOf(t, client, mill); got != 0 {
				t.Errorf("a kind that exists: got %q", got)
			}
		})
	}
	close(gate)
	group.Wait()
	if core, groups := d.count("/api 200"), d.count("/apis 200"); core != 1 || groups != 1 {
		t.Errorf("requests for 50 questions: got %d and %d, want one each", core, groups)
	}
	began := time.Now()
	for range 1000 {
		if got := reasonOf(t, client, unknown); got != reason.ApplyRejected {
			t.Fatalf("a kind that does not exist: got %q, want %q", got, reason.ApplyRejected)
		}
	}
	most := 2 + int(time.Since(began)/(500*time.Millisecond))
	if got := d.count("/apis 304"); got > most || d.count("/apis 200") != 1 {
		t.Errorf("requests for 1000 questions: got %d unchanged and %d whole, want at most %d and 1", got, d.count("/apis 200"), most)
	}
}

// TestDiscoveryOfTheSame asks again and again for a kind that does not exist. Answers with another
// text for the same kinds, and answers of servers that cannot answer with "unchanged", are no
// change of the facts.
func TestDiscoveryOfTheSame(t *testing.T) {
	t.Parallel()
	nothing := schema.GroupVersionKind{Version: "v1", Kind: "Nothing"}
	for name, change := range map[string]func(*discoveryServer, int){
		"other text":            func(d *discoveryServer, i int) { d.etag = fmt.Sprintf("%q", fmt.Sprint(i)) },
		"an earlier API server": func(d *discoveryServer, _ int) { d.aggregate = false },
	} {
		d, client := startDiscovery(t)
		d.set(func() { change(d, 0) })
		if got := reasonOf(t, client, plainCM); got != 0 {
			t.Fatalf("%s: got %q, want the kind", name, got)
		}
		changed := client.Facts().FactsChanged()
		begun := d.total()
		d.set(func() { change(d, 1) })
		await.Poll(t, "the API server to be asked again: "+name, time.Millisecond, func() (bool, string) {
			if got := reasonOf(t, client, nothing); got != reason.ApplyRejected {
				t.Fatalf("%s: got %q, want %q", name, got, reason.ApplyRejected)
			}
			return d.total() >= begun+2, ""
		})
		if reasonOf(t, client, nothing); wake.IsClosed(changed) {
			t.Errorf("%s: taken for a change", name)
		}
	}
}

// TestDiscoveryChanges adds a group, stops its server, and removes the group.
func TestDiscoveryChanges(t *testing.T) {
	t.Parallel()
	d, client := startDiscovery(t)
	d.set(func() { d.mills = "" })
	patiently(t, client, mill, reason.ApplyRejected)
	d.set(func() { d.mills, d.etag = "Current", `"2"` })
	patiently(t, client, mill, 0)
	d.set(func() { d.mills, d.bare, d.etag = "Stale", true, `"3"` })
	patiently(t, client, unknown, reason.ClusterUnreachable)
	for _, kind := range []schema.GroupVersionKind{mill, plainCM} {
		if got := reasonOf(t, client, kind); got != 0 {
			t.Errorf("%s while the server of its group is down: got %q, want what was known of it", kind, got)
		}
	}
	d.set(func() { d.down = true })
	if got := reasonOf(t, client, mill); got != 0 {
		t.Errorf("while nothing answers: got %q, want what was known", got)
	}
	if got := reasonOf(t, client, unknown); got != reason.ClusterUnreachable {
		t.Errorf("unknown kind while nothing answers: got %q, want %q", got, reason.ClusterUnreachable)
	}
	d.set(func() { d.down, d.mills, d.etag = false, "", `"4"` })
	patiently(t, client, unknown, reason.ApplyRejected)
	patiently(t, client, mill, reason.ApplyRejected)
}

// TestDiscoveryPlain has a server without aggregated discovery, and a group whose server does not
// answer.
func TestDiscoveryPlain(t *testing.T) {
	t.Parallel()
	d, client := startDiscovery(t)
	d.set(func() { d.aggregate = false })
	if got := reasonOf(t, client, plainCM); got != 0 {
		t.Errorf("ConfigMap: got %q, want it to be known", got)
	}
	if got := reasonOf(t, client, mill); got != reason.ClusterUnreachable {
		t.Errorf("kind of a group that is down: got %q, want %q", got, reason.ClusterUnreachable)
	}
	status := schema.GroupVersionKind{Version: "v1", Kind: "Status"}
	if got := reasonOf(t, client, status); got != reason.ApplyRejected {
		t.Errorf("kind of a subresource: got %q, want %q", got, reason.ApplyRejected)
	}
}

// TestAPIServerKilled kills the API server and restarts it without its memory, under watches like
// the agent's.
func TestAPIServerKilled(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	kind := gvk("watch.example.test", "v1", "Sluice")
	if status, answer := c.request(t, http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "application/json", sluiceDefinition); status != http.StatusCreated {
		t.Fatalf("create definition: got %d %v", status, answer)
	}
	w := attend(t, c, "", gvk("", "v1", "ConfigMap"), kind)
	for _, name := range []string{"kept", "dropped"} {
		c.create(t, configMaps+name, bareConfigMap, "killed")
	}
	w.until(t, "lists", func() bool { return w.synced[kind.GroupKind()] > 0 })
	const gate = "/apis/watch.example.test/v1/namespaces/default/sluices/gate"
	c.create(t, gate, "apiVersion: watch.example.test/v1\nkind: Sluice\n", "killed")
	for _, name := range []string{"kept", "dropped", "gate"} {
		w.seen(t, name, present)
	}
	c.cp.KillAPIServer()
	if err := c.cp.CompactHistory(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.cp.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.request(t, http.MethodDelete, configMaps+"dropped", "", "")
	c.request(t, http.MethodDelete, gate, "", "")
	c.create(t, configMaps+"new", bareConfigMap, "killed")
	w.seen(t, "dropped", deleted)
	w.seen(t, "gate", deleted)
	w.seen(t, "new", present)
	w.mu.Lock()
	defer w.mu.Unlock()
	if heard := strings.Join(w.heard, "\n"); strings.Contains(heard, "kept of killed deleted=true") {
		t.Errorf("heard\n%s\nwant that nothing is deleted that is there", heard)
	}
}
