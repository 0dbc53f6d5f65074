// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/internal/runtime/localkube"
	"github.com/leatdev/leat/internal/runtime/localkube/kubetest"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// TestCrashPoints kills an agent before and after its calls to the API server during a history of
// objects. They are created, change, leave, are recreated by another client, move to another
// service, and are deleted with their services. After a restart the agent must reach the same end:
// the inventories match the cluster, no object of anybody else is deleted, and nothing is left
// behind. LEAT_FAULT_LONG=1 kills it at every call, otherwise at some.
func TestCrashPoints(t *testing.T) {
	t.Parallel()
	cp := kubetest.Borrow(t)
	calls := newCrash(t, cp, 0, false).live()
	if calls < 30 {
		t.Fatalf("got %d calls in the whole history, want many", calls)
	}
	step := calls/4 + 1
	if os.Getenv("LEAT_FAULT_LONG") != "" {
		step = 1
	}
	for n := 1; n <= calls; n += step {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("call %d of %d, after %v", n, calls, after), func(t *testing.T) { newCrash(t, cp, n, after).live() })
		}
	}
}

// crash is one history.
type crash struct {
	t     *testing.T
	c     *cluster
	name  string // of the namespace, and the start of the services' names
	proxy *killer
	child *child
}

func newCrash(t *testing.T, cp *localkube.ControlPlane, call int, after bool) *crash {
	t.Helper()
	target, err := url.Parse(cp.Host())
	if err != nil {
		t.Fatal(err)
	}
	proxy := &killer{ReverseProxy: httputil.NewSingleHostReverseProxy(target), at: call, after: after}
	proxy.Transport = cp.HTTPClient().Transport
	proxy.FlushInterval = -1
	proxy.ErrorLog = log.New(io.Discard, "", 0) // a killed agent does not read the answer
	return &crash{t: t, c: &cluster{cp: cp}, name: fmt.Sprintf("crash-%d-%v", call, after), proxy: proxy}
}

// live runs the history, and returns the number of the agent's calls.
func (h *crash) live() int {
	server := httptest.NewServer(h.proxy)
	h.t.Cleanup(server.Close)
	kubeconfig := filepath.Join(h.t.TempDir(), "kubeconfig")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: %q}}]\ncontexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n", server.URL)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
	h.c.request(h.t, http.MethodPost, "/api/v1/namespaces", "application/json", fmt.Sprintf(`{"metadata":{"name":%q}}`, h.name))
	h.create("theirs")
	h.child = &child{t: h.t, kubeconfig: kubeconfig, name: h.name}
	defer func() {
		if h.proxy.at > 0 && h.proxy.count() >= h.proxy.at && h.child.lives < 2 {
			h.t.Error("the agent was not killed")
		}
	}()
	h.proxy.kill = h.child.kill
	defer h.child.kill()
	for chapter := range chapters {
		if chapter == 1 { // an object to prune becomes another client's
			h.c.request(h.t, http.MethodDelete, h.path("x"), "", "")
			h.create("x")
		}
		h.child.reach(chapter)
		h.compare(chapter)
	}
	return h.proxy.count()
}

func (h *crash) path(name string) string {
	return "/api/v1/namespaces/" + h.name + "/configmaps/" + name
}

func (h *crash) create(name string) {
	h.t.Helper()
	body := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q}}`, name)
	if status, o := h.c.request(h.t, http.MethodPost, "/api/v1/namespaces/"+h.name+"/configmaps", "application/json", body); status != http.StatusCreated {
		h.t.Fatalf("create %s: got %d %v", name, status, o["message"])
	}
}

// crashing is a service of the history.
func (c *cluster) crashing(t *testing.T, service, namespace string, files map[string]string) plan.Service {
	t.Helper()
	spec := plan.Spec{Prune: new(true), Namespace: namespace, ForceConflicts: true}
	spec.Policy.Drift = syncpolicy.DriftOff
	d := c.bundles.add(t, files)
	return plan.Service{
		Name: service, UID: "uid-" + service, SpecDigest: "spec", Spec: spec, Bundles: []plan.Bundle{{Digest: d, Commit: "c"}},
	}
}

// compare compares the inventories with the cluster.
func (h *crash) compare(chapter int) {
	h.t.Helper()
	known, there := h.inventories(), map[string]string{}
	_, list := h.c.request(h.t, http.MethodGet, "/api/v1/namespaces/"+h.name+"/configmaps", "", "")
	all := map[string]bool{}
	for _, item := range list["items"].([]any) {
		o, _ := item.(map[string]any)
		name, _ := at(o, "metadata", "name").(string)
		all[name] = true
		if label, ok := at(o, "metadata", "labels", k8s.ServiceLabel).(string); ok {
			there[name] = label + " " + uidOf(o)
		}
	}
	if fmt.Sprint(known) != fmt.Sprint(there) {
		h.t.Errorf("chapter %d: inventories: got %v, want what is there: %v", chapter, known, there)
	}
	if !all["theirs"] || chapter > 0 && !all["x"] {
		h.t.Errorf("chapter %d: got %v, want what others have made among it", chapter, all)
	}
	for service, objects := range story(h.name, chapter) {
		for name := range objects {
			if name = strings.TrimSuffix(name, ".yaml"); !strings.HasPrefix(there[name], service+" ") {
				h.t.Errorf("chapter %d: %s is %q, want it to be of %s", chapter, name, there[name], service)
			}
		}
	}
}

// inventories returns the stored inventories of this history: service and uid by name.
func (h *crash) inventories() map[string]string {
	h.t.Helper()
	known := map[string]string{}
	_, list := h.c.request(h.t, http.MethodGet, "/api/v1/namespaces/leat-system/configmaps?labelSelector=leat.dev/inventory", "", "")
	items, _ := list["items"].([]any)
	for _, item := range items {
		data, _ := item.(map[string]any)["data"].(map[string]any)
		head, _ := data["head"].(string)
		objects, _ := data["objects"].(string)
		record, err := inventory.Decode([]byte(head), [][]byte{[]byte(objects)})
		if err != nil {
			h.t.Fatal(err)
		}
		for _, o := range record.Objects.Objects() {
			known[o.Name] += record.Service + " " + o.UID
		}
	}
	return known
}

// chapters is the number of plans of the history.
const chapters = 4

// story is the plan of a chapter: manifests by service and file.
func story(name string, chapter int) map[string]map[string]string {
	one, two, three := name+"-1", name+"-2", name+"-3"
	late := strings.Replace(configMap("late", "1"), "metadata:\n", "metadata:\n  annotations: {leat.dev/wave: \"1\"}\n", 1)
	return []map[string]map[string]string{
		{one: {"a.yaml": configMap("a", "1"), "b.yaml": configMap("b", "1"), "late.yaml": late, "x.yaml": configMap("x", "1")}, two: {"m.yaml": configMap("m", "1")}},
		{one: {"a.yaml": configMap("a", "2"), "b.yaml": configMap("b", "1"), "c.yaml": configMap("c", "1")}, two: {"m.yaml": configMap("m", "1")}},
		{one: {"a.yaml": configMap("a", "2")}, three: {"m.yaml": configMap("m", "1")}},
		{},
	}[chapter]
}

// killer is the proxy to the API server. It counts the calls that read or write an object or an
// inventory, and kills the agent at one of them: before the call reaches the API server, or before
// its answer comes back.
type killer struct {
	*httputil.ReverseProxy

	at    int
	after bool
	kill  func()

	mu    sync.Mutex
	calls int
}

func (k *killer) count() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.calls
}

// ServeHTTP implements http.Handler.
func (k *killer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !counted(r) {
		k.ReverseProxy.ServeHTTP(w, r)
		return
	}
	k.mu.Lock()
	k.calls++
	doomed := k.calls == k.at
	k.mu.Unlock()
	switch {
	case !doomed:
		k.ReverseProxy.ServeHTTP(w, r)
	case k.after:
		// The call must be carried out although its caller may be dead.
		k.ReverseProxy.ServeHTTP(httptest.NewRecorder(), r.WithContext(context.WithoutCancel(r.Context())))
		k.kill()
	default:
		k.kill()
	}
}

// counted reports whether a call is about one object, and not for discovery, a list or a watch.
func counted(r *http.Request) bool {
	return strings.Contains(r.URL.Path, "/configmaps/")
}

// child is an agent in a process of its own.
type child struct {
	t                *testing.T
	kubeconfig, name string

	mu      sync.Mutex
	lives   int
	process *exec.Cmd
	input   io.Writer
	output  *bufio.Scanner
}

// start starts the process.
func (c *child) start() {
	c.mu.Lock()
	defer c.mu.Unlock()
	cmd := exec.CommandContext(c.t.Context(), os.Args[0], "-test.run=^TestCrashChild$")
	cmd.Env = append(os.Environ(), childKubeconfig+"="+c.kubeconfig, childName+"="+c.name)
	cmd.Stderr = os.Stderr
	input, err := cmd.StdinPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.lives++
	c.process, c.input, c.output = cmd, input, bufio.NewScanner(output)
}

// kill ends the process like a power cut, and returns when it is gone.
func (c *child) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process == nil {
		return
	}
	_ = c.process.Process.Kill()
	_, _ = c.process.Process.Wait()
	c.process = nil
}

func (c *child) running() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.process != nil
}

// reach sends the plan of a chapter to the process, and waits until it is carried out, restarting
// the process as often as necessary.
func (c *child) reach(chapter int) {
	c.t.Helper()
	const most = 5
	for range most {
		if !c.running() {
			c.start()
		}
		_, _ = fmt.Fprintln(c.input, chapter) // fails when it was killed, which is noticed below
		for c.output.Scan() {
			if c.output.Text() == fmt.Sprint(settledMark, chapter) {
				return
			}
		}
		c.kill() // it has ended
	}
	c.t.Fatalf("chapter %d was not reached in %d lives", chapter, most)
}

const (
	childKubeconfig = "LEAT_CRASH_KUBECONFIG"
	childName       = "LEAT_CRASH_NAME"
	settledMark     = "settled "
)

// TestCrashChild is the agent that TestCrashPoints kills. On its own it does nothing.
func TestCrashChild(t *testing.T) {
	if os.Getenv(childKubeconfig) == "" {
		return
	}
	name := os.Getenv(childName)
	c := clusterAt(t, os.Getenv(childKubeconfig))
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var chapter int
		if _, err := fmt.Sscan(lines.Text(), &chapter); err != nil {
			t.Fatal(err)
		}
		c.tell(t, name, chapter)
		if _, err := fmt.Fprintf(os.Stdout, "%s%d\n", settledMark, chapter); err != nil {
			t.Fatal(err)
		}
	}
}

// tell sets the plan of a chapter, and waits until it is carried out.
func (c *cluster) tell(t *testing.T, name string, chapter int) {
	t.Helper()
	told := story(name, chapter)
	var wanted []plan.Service
	c.mu.Lock()
	c.services = map[string]plan.Service{}
	for service, files := range told {
		wanted = append(wanted, c.crashing(t, service, name, files))
		c.services[service] = wanted[len(wanted)-1]
	}
	c.mu.Unlock()
	c.plan()
	for _, s := range wanted {
		c.settled(t, s, report.Healthy)
	}
	// No status is reported of services that left the plan before this life began; their
	// inventories show the progress.
	await.Success(t, "the inventories", func(ctx context.Context) error {
		records, err := c.client.Inventories().List(ctx)
		if err == nil && len(records) != len(told) {
			err = fmt.Errorf("got %d inventories, want %d", len(records), len(told))
		}
		return err
	})
}
