// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/services/agent/internal/fingerprint"
	"github.com/leatdev/leat/services/agent/internal/health"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/kube"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/reconcile/observe"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// TestWatches follows objects on a real API server.
func TestWatches(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	for name, test := range map[string]func(*testing.T, *cluster){
		"label removed": testLabelRemoved, "handed over": testHandedOver, "definition": testDefinitionComesAndGoes,
		"forbidden": testForbidden, "recheck": testRecheck, "version": testOtherVersion, "events": testEvents,
		"aggregated API down": testAggregatedDown, "accounts": testWatchesOfAccounts,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, c)
		})
	}
}

// witness is a Sink that records its calls.
type witness struct {
	watches *kube.Watches
	logs    *logBuffer
	verdict string // message of all verdicts; guarded by mu

	mu      sync.Mutex
	last    map[string]observe.Observation // by name
	heard   []string                       // by everything, in order
	synced  map[schema.GroupKind]int
	changed chan struct{} // closed and replaced at every change
}

// logBuffer collects logs of several goroutines.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String implements fmt.Stringer.
func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// attend runs watches of some kinds until the test ends, as the given user or, with "", as an
// administrator.
func attend(t *testing.T, c *cluster, as string, kinds ...schema.GroupVersionKind) *witness {
	t.Helper()
	w := &witness{
		logs: &logBuffer{}, last: map[string]observe.Observation{}, synced: map[schema.GroupKind]int{}, changed: make(chan struct{}),
	}
	client, err := kube.New(kube.Params{
		Kubeconfig: kubeconfigAs(t, c, as), UserAgent: "leat-agent/test",
		Logger: slog.New(slog.NewTextHandler(w.logs, &slog.HandlerOptions{Level: slog.LevelInfo})),
	})
	if err != nil {
		t.Fatal(err)
	}
	w.watches = client.Watches()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.watches.Run(ctx, w) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("watches ended: %v", err)
		}
	})
	w.watches.Watch(everywhere(kinds...))
	return w
}

// everywhere returns the collections of kinds in the whole cluster, as the agent.
func everywhere(kinds ...schema.GroupVersionKind) (all []observe.Collection) {
	for _, kind := range kinds {
		all = append(all, observe.Collection{Kind: kind})
	}
	return all
}

// kubeconfigAs returns a kubeconfig with which an administrator acts as another user.
func kubeconfigAs(t *testing.T, c *cluster, as string) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(c.cp.KubeconfigPath())
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range config.AuthInfos {
		user.Impersonate = as
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// Fingerprint implements kube.Sink.
func (w *witness) Fingerprint(o *unstructured.Unstructured) fingerprint.Sum {
	return fingerprint.Live(o, k8s.FieldManager)
}

// Judge implements kube.Sink.
func (w *witness) Judge(*unstructured.Unstructured) health.Verdict {
	w.mu.Lock()
	defer w.mu.Unlock()
	return health.Verdict{State: health.Healthy, Message: w.verdict}
}

// Observe implements kube.Sink.
func (w *witness) Observe(o observe.Observation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last[o.Object.Name] = o
	w.hear(fmt.Sprintf("%s of %s deleted=%t", o.Object.Name, o.Service, o.Deleted))
}

// Owns implements kube.Sink: service a of another account, and all others of the given one.
func (w *witness) Owns(scope observe.Scope, service string) bool {
	return scope == (observe.Scope{}) || service == "of-"+scope.Account.Name
}

// Synced implements kube.Sink.
func (w *witness) Synced(kind schema.GroupKind, scope observe.Scope) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.synced[kind]++
	w.hear(fmt.Sprint("synced ", kind, scope))
}

// MarkUnobservable implements kube.Sink.
func (w *witness) MarkUnobservable(kind schema.GroupKind, _ observe.Scope, why string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hear("blind for " + kind.String() + ": " + why)
}

func (w *witness) hear(what string) {
	w.heard = append(w.heard, what)
	close(w.changed)
	w.changed = make(chan struct{})
}

// until waits for a call of the sink.
func (w *witness) until(t *testing.T, what string, is func() bool) {
	t.Helper()
	ctx := await.Context(t)
	for {
		w.mu.Lock()
		done, changed := is(), w.changed
		w.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			w.mu.Lock()
			defer w.mu.Unlock()
			t.Fatalf("waited in vain for %s: heard\n%s\nlogged\n%s", what, strings.Join(w.heard, "\n"), w.logs)
		}
	}
}

// seen waits until an object was observed in a matching state, and returns the observation.
func (w *witness) seen(t *testing.T, name string, want func(observe.Observation) bool) (o observe.Observation) {
	t.Helper()
	w.until(t, "observation of "+name, func() bool {
		o = w.last[name]
		return o.Object.Name != "" && want(o)
	})
	return o
}

func deleted(o observe.Observation) bool { return o.Deleted }
func present(o observe.Observation) bool { return !o.Deleted }

// create creates an object with the label of a service, through server-side apply as leat.
func (c *cluster) create(t *testing.T, path, body, service string) {
	t.Helper()
	body += fmt.Sprintf("metadata: {name: %s, labels: {leat.dev/service: %s}}\n", filepath.Base(path), service)
	if status, answer := c.request(t, http.MethodPatch, path+"?fieldManager=leat&force=true", "application/apply-patch+yaml", body); status/100 != 2 {
		t.Fatalf("apply %s: got %d %v", path, status, answer)
	}
}

func gvk(group, version, kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: group, Version: version, Kind: kind}
}

const bareConfigMap = "apiVersion: v1\nkind: ConfigMap\ndata: {value: x}\n"

// testLabelRemoved shows that an object without the label is gone for its service.
func testLabelRemoved(t *testing.T, c *cluster) {
	w := attend(t, c, "", gvk("", "v1", "ConfigMap"))
	c.create(t, configMaps+"unlabelled", bareConfigMap, "label-removed")
	before := w.seen(t, "unlabelled", present)
	if before.Service != "label-removed" || before.Object.UID == "" || before.Fingerprint.IsZero() || before.Object.Namespace != "default" || before.Terminating {
		t.Errorf("got %+v, want the object with its fingerprint", before)
	}
	c.request(t, http.MethodPatch, configMaps+"unlabelled", mergePatch, `{"metadata":{"labels":null}}`)
	after := w.seen(t, "unlabelled", deleted)
	if after.Service != "label-removed" || after.Object != before.Object || !after.Fingerprint.IsZero() || after.ResourceVersion == before.ResourceVersion {
		t.Errorf("got %+v, want it gone from the service, later than %+v", after, before)
	}
	c.mustExist(t, configMaps+"unlabelled")
}

func testHandedOver(t *testing.T, c *cluster) {
	w := attend(t, c, "", gvk("", "v1", "ConfigMap"))
	c.create(t, configMaps+"handed", bareConfigMap, "first-owner")
	w.seen(t, "handed", present)
	c.request(t, http.MethodPatch, configMaps+"handed", mergePatch, `{"metadata":{"labels":{"leat.dev/service":"second-owner"},"finalizers":["example.test/wait"]}}`)
	w.seen(t, "handed", func(o observe.Observation) bool { return o.Service == "second-owner" })
	c.request(t, http.MethodDelete, configMaps+"handed", "", "")
	w.seen(t, "handed", func(o observe.Observation) bool { return o.Terminating })
	c.request(t, http.MethodPatch, configMaps+"handed", mergePatch, `{"metadata":{"finalizers":null}}`)
	w.seen(t, "handed", deleted)
	w.mu.Lock()
	defer w.mu.Unlock()
	got := ""
	for _, line := range w.heard {
		if strings.HasPrefix(line, "handed ") {
			got += line + "\n"
		}
	}
	want := "handed of first-owner deleted=false\nhanded of first-owner deleted=true\nhanded of second-owner deleted=false\n" +
		"handed of second-owner deleted=false\nhanded of second-owner deleted=true\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

const sluiceDefinition = `{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "sluices.watch.example.test"},
	"spec": {"group": "watch.example.test", "scope": "Namespaced", "names": {"kind": "Sluice", "plural": "sluices"}, "versions": [
	{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}}`

// testDefinitionComesAndGoes has other people install and delete the definition of a watched kind.
func testDefinitionComesAndGoes(t *testing.T, c *cluster) {
	const definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	const path = "/apis/watch.example.test/v1/namespaces/default/sluices/gate"
	kind := gvk("watch.example.test", "v1", "Sluice")
	w := attend(t, c, "", kind)
	w.until(t, "a kind that does not exist", func() bool { return w.synced[kind.GroupKind()] == 1 })
	for round := range 3 {
		if status, answer := c.request(t, http.MethodPost, definitions, "application/json", sluiceDefinition); status != http.StatusCreated {
			t.Fatalf("create definition: got %d %v", status, answer)
		}
		lists := 2*round + 2
		w.until(t, "the kind to come", func() bool { return w.synced[kind.GroupKind()] == lists })
		c.create(t, path, "apiVersion: watch.example.test/v1\nkind: Sluice\nspec: {width: 3}\n", "sluice-keeper")
		w.seen(t, "gate", present)
		c.request(t, http.MethodDelete, definitions+"/sluices.watch.example.test", "", "")
		w.seen(t, "gate", deleted)
		w.until(t, "the kind to go", func() bool { return w.synced[kind.GroupKind()] == lists+1 })
	}
	if logs := w.logs.String(); logs != "" {
		t.Errorf("logs: got\n%swant none", logs)
	}
}

// testForbidden has a watcher without the right to watch one of its kinds, until it gets the right.
func testForbidden(t *testing.T, c *cluster) {
	const rbac = "/apis/rbac.authorization.k8s.io/v1/"
	grant := func(name, rule string) {
		role := fmt.Sprintf(`{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": %q}, "rules": [%s]}`, name, rule)
		binding := fmt.Sprintf(`{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": %q},
			"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": %[1]q},
			"subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "restricted"}]}`, name)
		for path, body := range map[string]string{"clusterroles": role, "clusterrolebindings": binding} {
			if status, answer := c.request(t, http.MethodPost, rbac+path, "application/json", body); status != http.StatusCreated {
				t.Fatalf("create %s: got %d %v", path, status, answer)
			}
		}
	}
	grant("restricted", `{"apiGroups": ["", "apiextensions.k8s.io"], "resources": ["configmaps", "customresourcedefinitions"], "verbs": ["list", "watch"]}`)
	c.create(t, "/api/v1/namespaces/default/secrets/hidden", "apiVersion: v1\nkind: Secret\n", "forbidden")
	c.create(t, configMaps+"allowed", bareConfigMap, "forbidden")
	secrets := gvk("", "v1", "Secret")
	w := attend(t, c, "restricted", secrets, gvk("", "v1", "ConfigMap"))
	w.seen(t, "allowed", present)
	w.until(t, "a complaint", func() bool {
		return slices.ContainsFunc(w.heard, func(line string) bool {
			return strings.HasPrefix(line, "blind for Secret: the agent may not watch") && strings.Contains(line, `resource "secrets"`)
		})
	})
	c.request(t, http.MethodDelete, configMaps+"allowed", "", "")
	w.seen(t, "allowed", deleted)

	grant("less-restricted", `{"apiGroups": [""], "resources": ["secrets"], "verbs": ["list", "watch"]}`)
	await.Poll(t, "the API server to know the new role", 200*time.Millisecond, func() (bool, string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.synced[secrets.GroupKind()] > 0 {
			return true, ""
		}
		w.watches.Recheck()
		return false, ""
	})
	w.seen(t, "hidden", present)
	if got := strings.Count(w.logs.String(), "level=WARN"); got != 1 || !strings.Contains(w.logs.String(), "kind=Secret") {
		t.Errorf("warnings: got %d, want one:\n%s", got, w.logs)
	}
}

// testRecheck shows that every object is judged again when rules change.
func testRecheck(t *testing.T, c *cluster) {
	kind := gvk("", "v1", "Endpoints")
	c.create(t, "/api/v1/namespaces/default/endpoints/recheck", "apiVersion: v1\nkind: Endpoints\n", "recheck")
	w := attend(t, c, "", kind)
	w.seen(t, "recheck", present)
	w.until(t, "a list", func() bool { return w.synced[kind.GroupKind()] == 1 })
	w.mu.Lock()
	w.verdict = "new rules"
	w.mu.Unlock()
	w.watches.Recheck()
	w.seen(t, "recheck", func(o observe.Observation) bool { return o.Health.Message == "new rules" })
	w.until(t, "a new list", func() bool { return w.synced[kind.GroupKind()] == 2 })
}

// testOtherVersion reads the objects of a kind in another version. No object counts as gone because
// of that.
func testOtherVersion(t *testing.T, c *cluster) {
	const path = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers/scaled"
	c.create(t, path, "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nspec: {maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: x}}\n", "scaled")
	w := attend(t, c, "", gvk("autoscaling", "v1", "HorizontalPodAutoscaler"))
	w.seen(t, "scaled", func(o observe.Observation) bool { return o.Object.Version == "v1" })
	w.watches.Watch(everywhere(gvk("autoscaling", "v2", "HorizontalPodAutoscaler")))
	w.seen(t, "scaled", func(o observe.Observation) bool { return o.Object.Version == "v2" })
	c.request(t, http.MethodDelete, path, "", "")
	w.seen(t, "scaled", deleted)
	w.mu.Lock()
	defer w.mu.Unlock()
	gone := 0
	for _, line := range w.heard {
		if strings.HasSuffix(line, "deleted=true") {
			gone++
		}
	}
	if gone != 1 {
		t.Errorf("gone: got %d times, want once:\n%s", gone, strings.Join(w.heard, "\n"))
	}
}

// testWatchesOfAccounts watches a namespace as two accounts, of which one has no rights, and whose
// services label objects with each other's names.
func testWatchesOfAccounts(t *testing.T, c *cluster) {
	const rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/scoped/"
	for _, namespace := range []string{"scoped", "scoped-too"} {
		c.must(t, http.MethodPatch, "/api/v1/namespaces/"+namespace+"?fieldManager=admin", applyPatch,
			"apiVersion: v1\nkind: Namespace\nmetadata: {name: "+namespace+"}\n")
	}
	c.must(t, http.MethodPatch, rbac+"roles/x?fieldManager=admin", applyPatch, "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\n"+
		"metadata: {name: x, namespace: scoped}\nrules: [{apiGroups: [\"\"], resources: [secrets], verbs: [list, watch]}]\n")
	c.must(t, http.MethodPatch, rbac+"rolebindings/x?fieldManager=admin", applyPatch, "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\n"+
		"metadata: {name: x, namespace: scoped}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: x}\n"+
		"subjects: [{kind: ServiceAccount, name: x, namespace: scoped}]\n")
	const secrets = "/api/v1/namespaces/scoped/secrets/"
	const secret = "apiVersion: v1\nkind: Secret\n"
	c.create(t, secrets+"of-others", secret, "of-y") // before the one that is waited for
	c.create(t, "/api/v1/namespaces/scoped-too/secrets/elsewhere", secret, "of-x")
	c.create(t, secrets+"mine", secret, "of-x")
	w := attend(t, c, "")
	kind := gvk("", "v1", "Secret")
	scope := func(name string) observe.Scope {
		return observe.Scope{Account: k8s.Account{Namespace: "scoped", Name: name}, Namespace: "scoped"}
	}
	w.watches.Watch([]observe.Collection{{Kind: kind, Scope: scope("x")}, {Kind: kind, Scope: scope("y")}})
	w.seen(t, "mine", present)
	w.until(t, "the end of the list", func() bool { return slices.Contains(w.heard, fmt.Sprint("synced ", kind.GroupKind(), scope("x"))) })
	w.until(t, "the account without rights", func() bool {
		return slices.ContainsFunc(w.heard, func(line string) bool {
			return strings.HasPrefix(line, "blind for Secret: service account scoped/y may not watch its kind:")
		})
	})
	c.request(t, http.MethodDelete, secrets+"of-others", "", "")
	c.request(t, http.MethodDelete, secrets+"mine", "", "")
	w.seen(t, "mine", deleted)
	w.mu.Lock()
	defer w.mu.Unlock()
	for name := range w.last {
		if name != "mine" {
			t.Errorf("observed %s, want the object of its own service in its own namespace alone", name)
		}
	}
}

// testEvents follows a service as AgentService.WatchEvents does.
func testEvents(t *testing.T, c *cluster) {
	events, stop := c.engine.Subscribe("eventful")
	defer stop()
	s := c.put(t, "eventful", map[string]string{"a.yaml": configMap("eventful-a", "1")}, plan.Spec{})
	c.settled(t, s, report.Healthy)
	c.request(t, http.MethodDelete, configMaps+"eventful-a", "", "")
	for {
		event := await.Value(t, "an event that eventful-a is missing", events)
		if event.Object != nil && event.Object.Name == "eventful-a" && strings.HasPrefix(event.Message, "Missing") {
			return
		}
	}
}

// testAggregatedDown registers an API whose server does not exist.
func testAggregatedDown(t *testing.T, c *cluster) {
	const service = `{"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": "v1.down.example.test"}, "spec": {
		"group": "down.example.test", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 1, "insecureSkipTLSVerify": true,
		"service": {"namespace": "default", "name": "nobody"}}}`
	if status, answer := c.request(t, http.MethodPost, "/apis/apiregistration.k8s.io/v1/apiservices", "application/json", service); status != http.StatusCreated {
		t.Fatalf("create APIService: got %d %v", status, answer)
	}
	kind := gvk("down.example.test", "v1", "Nothing")
	client, err := kube.New(kube.Params{Kubeconfig: c.cp.KubeconfigPath(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	var problem *reason.Problem
	await.Poll(t, "discovery to know the API", time.Millisecond, func() (bool, string) {
		_, err = client.Namespaced(t.Context(), kind)
		problem = reason.ProblemOf(err)
		return problem.Reason == reason.ClusterUnreachable, fmt.Sprint(err)
	})
	if !strings.Contains(problem.Message, "down.example.test") {
		t.Errorf("kind of an API that is down: got %v, want CLUSTER_UNREACHABLE that names it", err)
	}
	if namespaced, err := client.Namespaced(t.Context(), gvk("apps", "v1", "Deployment")); err != nil || !namespaced {
		t.Errorf("another kind: got %t, %v, want it to be known", namespaced, err)
	}
	if _, err := client.Namespaced(t.Context(), gvk("apps", "v1", "Nothing")); reason.ProblemOf(err).Reason != reason.ApplyRejected {
		t.Errorf("unknown kind: got %v, want APPLY_REJECTED", err)
	}
}
