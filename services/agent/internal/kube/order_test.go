// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/runtime/localkube"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// TestOrder runs one engine on a control plane with controllers and a node whose pods run, or
// complete if they belong to a Job. Pods that ask for a gate wait until it is opened, by which a
// scenario delays a Job or a Deployment.
func TestOrder(t *testing.T) {
	t.Parallel()
	c := startCluster(t, func(p *localkube.Params) { p.Nodes = 1 })
	scenarios := map[string]func(*scenario){}
	for _, some := range []map[string]func(*scenario){
		waveScenarios(), definitionScenarios(), hookScenarios(), policyScenarios(), argoScenarios(), helmScenarios(), recreateScenarios(), onceScenarios(), labelScenarios(), chartScenarios(), takeoverScenarios(),
	} {
		maps.Copy(scenarios, some)
	}
	concurrently(t, c, scenarios)
}

// concurrently runs scenarios that spend their time waiting for controllers, more at once than
// there are processors.
func concurrently(t *testing.T, c *cluster, scenarios map[string]func(*scenario)) {
	t.Helper()
	names := make(chan string, len(scenarios))
	for _, name := range slices.Sorted(maps.Keys(scenarios)) {
		names <- name
	}
	close(names)
	const atOnce = 8
	var group sync.WaitGroup
	for range atOnce {
		group.Go(func() {
			for name := range names {
				t.Run(name, func(t *testing.T) { scenarios[name](newScenario(t, c, name)) })
			}
		})
	}
	group.Wait()
}

// scenario has a service of its own, in a namespace of the same name.
type scenario struct {
	*cluster

	t     *testing.T
	name  string
	spec  plan.Spec
	limit time.Duration // of tests; zero: the default
}

func newScenario(t *testing.T, c *cluster, title string) *scenario {
	t.Helper()
	name := strings.ToLower(strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, title), "-"))
	return &scenario{cluster: c, t: t, name: name, spec: plan.Spec{Namespace: name, CreateNamespace: new(true), Prune: new(true)}}
}

// sync sets the service's manifests.
func (s *scenario) sync(manifests ...string) plan.Service {
	s.t.Helper()
	return s.serve(s.name, manifests...)
}

// serve sets the manifests of any service in the scenario's namespace.
func (s *scenario) serve(service string, manifests ...string) plan.Service {
	s.t.Helper()
	files := map[string]string{"README.md": service} // so that no two services have the same bundle
	for i, m := range manifests {
		files[fmt.Sprintf("%02d.yaml", i)] = m
	}
	return s.put(s.t, service, files, s.spec)
}

// again requests a sync.
func (s *scenario) again(service plan.Service, request string) plan.Service {
	service.SyncRequest = request
	s.mu.Lock()
	s.services[service.Name] = service
	s.mu.Unlock()
	s.plan()
	return service
}

// refresh causes another apply of the unchanged service, and waits until it is done.
func (s *scenario) refresh(service plan.Service) {
	s.t.Helper()
	before := s.await(s.t, service.Name, func(got report.Status) bool { return got.Phase == report.Healthy })
	if err := s.engine.Reconcile(service.Name); err != nil {
		s.t.Fatal(err)
	}
	s.await(s.t, service.Name, func(got report.Status) bool {
		return got.Phase == report.Healthy && got.Applied.At.After(before.Applied.At)
	})
}

func (s *scenario) healthy(service plan.Service) report.Status {
	s.t.Helper()
	return s.settled(s.t, service, report.Healthy)
}

// fails waits until the service fails for a reason, with words in the problem's message.
func (s *scenario) fails(service plan.Service, reason reason.Reason, words ...string) report.Status {
	s.t.Helper()
	got := s.await(s.t, service.Name, func(got report.Status) bool {
		return got.Phase == report.Failed && slices.Equal(got.Observed.Digests, []string{service.Bundles[0].Digest.String()}) &&
			got.Problem.Reason == reason
	})
	for _, w := range words {
		if !strings.Contains(got.Problem.Message, w) {
			s.t.Errorf("problem: got %q, want it to hold %q", got.Problem.Message, w)
		}
	}
	return got
}

// refused returns the message about one object of a failed service.
func (s *scenario) refused(got report.Status, name string) string {
	s.t.Helper()
	for _, o := range got.Objects {
		if o.Ref.Name == name && o.Problem != nil {
			return o.Problem.Message
		}
	}
	s.t.Errorf("objects: got %+v, want %s to have a problem", got.Objects, name)
	return ""
}

// collections are the API server's paths for objects of a kind.
func (s *scenario) collection(kind string) string {
	s.t.Helper()
	path, ok := map[string]string{
		"ConfigMap": "/api/v1/namespaces/%s/configmaps", "Secret": "/api/v1/namespaces/%s/secrets", "ReplicationController": "/api/v1/namespaces/%s/replicationcontrollers", "Pod": "/api/v1/namespaces/%s/pods",
		"Service": "/api/v1/namespaces/%s/services", "PersistentVolumeClaim": "/api/v1/namespaces/%s/persistentvolumeclaims",
		"Deployment": "/apis/apps/v1/namespaces/%s/deployments", "StatefulSet": "/apis/apps/v1/namespaces/%s/statefulsets",
		"Job": "/apis/batch/v1/namespaces/%s/jobs", "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/%s/rolebindings",
		"Widget": "/apis/order.test/v1/namespaces/%s/widgets",
	}[kind]
	if !ok {
		s.t.Fatalf("no collection of %s is known", kind)
	}
	return fmt.Sprintf(path, s.name)
}

// until waits until an object matches, and returns it; nil stands for a missing one.
func (s *scenario) until(kind, name string, wanted func(o map[string]any) bool) map[string]any {
	s.t.Helper()
	query := url.Values{}
	if name != "" {
		query.Set("fieldSelector", "metadata.name="+name)
	}
	for ctx := await.Context(s.t); ctx.Err() == nil; {
		_, list := s.request(s.t, http.MethodGet, s.collection(kind)+"?"+query.Encode(), "", "")
		var o map[string]any
		if items, _ := list["items"].([]any); len(items) > 0 {
			o, _ = items[0].(map[string]any)
		}
		if wanted(o) {
			return o
		}
		version, _ := at(list, "metadata", "resourceVersion").(string)
		if o, ok := s.watch(kind, query, version, wanted); ok {
			return o
		}
	}
	s.t.Fatalf("%s %s/%s did not become as wanted", kind, s.name, name)
	return nil
}

// watch follows one object from a version on, until it matches or some seconds have passed.
func (s *scenario) watch(kind string, query url.Values, version string, wanted func(o map[string]any) bool) (map[string]any, bool) {
	s.t.Helper()
	query = maps.Clone(query)
	query.Set("watch", "true")
	query.Set("timeoutSeconds", "5")
	query.Set("resourceVersion", version)
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.cp.Host()+s.collection(kind)+"?"+query.Encode(), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	response, err := s.cp.HTTPClient().Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var event struct {
			Type   string
			Object map[string]any
		}
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			s.t.Fatal(err)
		}
		if event.Type == "DELETED" {
			event.Object = nil
		}
		if event.Type != "ERROR" && wanted(event.Object) {
			return event.Object, true
		}
	}
	return nil, false
}

// some waits until there is any object of a kind.
func (s *scenario) some(kind string) {
	s.t.Helper()
	s.until(kind, "", func(o map[string]any) bool { return o != nil })
}

// jobs lists the names of the Jobs that are not being deleted.
func (s *scenario) jobs() (names []string) {
	s.t.Helper()
	_, list := s.request(s.t, http.MethodGet, s.collection("Job"), "", "")
	items, _ := list["items"].([]any)
	for _, item := range items {
		o, _ := item.(map[string]any)
		if at(o, "metadata", "deletionTimestamp") == nil {
			names = append(names, fmt.Sprint(at(o, "metadata", "name")))
		}
	}
	return names
}

// appears waits until an object exists, and returns its uid.
func (s *scenario) appears(kind, name string) string {
	s.t.Helper()
	return uidOf(s.until(kind, name, func(o map[string]any) bool { return o != nil }))
}

// vanishes waits until an object does not exist.
func (s *scenario) vanishes(kind, name string) {
	s.t.Helper()
	s.until(kind, name, func(o map[string]any) bool { return o == nil })
}

// get returns an object, or nil if it does not exist.
func (s *scenario) get(kind, name string) map[string]any {
	s.t.Helper()
	status, o := s.request(s.t, http.MethodGet, s.collection(kind)+"/"+name, "", "")
	if status == http.StatusNotFound {
		return nil
	}
	return o
}

func (s *scenario) uid(kind, name string) string {
	s.t.Helper()
	o := s.get(kind, name)
	if o == nil {
		s.t.Fatalf("%s %s does not exist, want it to", kind, name)
	}
	return uidOf(o)
}

// absent checks that objects do not exist: "Kind/name".
func (s *scenario) absent(objects ...string) {
	s.t.Helper()
	for _, object := range objects {
		if kind, name, _ := strings.Cut(object, "/"); s.get(kind, name) != nil {
			s.t.Errorf("%s exists, want it not to", object)
		}
	}
}

// present checks that objects exist.
func (s *scenario) present(objects ...string) {
	s.t.Helper()
	for _, object := range objects {
		if kind, name, _ := strings.Cut(object, "/"); s.get(kind, name) == nil {
			s.t.Errorf("%s does not exist, want it to", object)
		}
	}
}

// change patches an object as another client.
func (s *scenario) change(kind, name, patch string) {
	s.t.Helper()
	if status, o := s.request(s.t, http.MethodPatch, s.collection(kind)+"/"+name, mergePatch, patch); status != http.StatusOK {
		s.t.Fatalf("patch %s %s: got %d %v, want 200", kind, name, status, o["message"])
	}
}

// create creates an object as another client.
func (s *scenario) create(kind, manifest string) {
	s.t.Helper()
	s.request(s.t, http.MethodPost, "/api/v1/namespaces", "application/json", fmt.Sprintf(`{"metadata":{"name":%q}}`, s.name))
	if status, o := s.request(s.t, http.MethodPost, s.collection(kind), "application/json", manifest); status != http.StatusCreated {
		s.t.Fatalf("create %s: got %d %v, want 201", kind, status, o["message"])
	}
}

// open opens the gate for the scenario's pods.
func (s *scenario) open() {
	s.t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"labels":{"gate-%s":"open"}}}`, s.name)
	if status, _ := s.request(s.t, http.MethodPatch, "/api/v1/nodes/node-0", mergePatch, patch); status != http.StatusOK {
		s.t.Fatalf("label node: got %d, want 200", status)
	}
}

// gate is the resource for which waiting pods ask.
func (s *scenario) gate() map[string]any {
	return map[string]any{"gate-" + s.name: "open"}
}

func at(o map[string]any, path ...string) any {
	var value any = o
	for _, key := range path {
		fields, _ := value.(map[string]any)
		value = fields[key]
	}
	return value
}

func uidOf(o map[string]any) string {
	uid, _ := at(o, "metadata", "uid").(string)
	return uid
}

// manifest writes an object with annotations, each "key=value".
func manifest(apiVersion, kind, name string, rest map[string]any, annotations ...string) string {
	metadata := map[string]any{"name": name}
	if len(annotations) > 0 {
		all := map[string]any{}
		for _, a := range annotations {
			key, value, _ := strings.Cut(a, "=")
			all[key] = value
		}
		metadata["annotations"] = all
	}
	o := map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": metadata}
	maps.Copy(o, rest)
	text, err := json.Marshal(o)
	if err != nil {
		return err.Error() // which no parser takes
	}
	return string(text)
}

func config(name, value string, annotations ...string) string {
	return manifest("v1", "ConfigMap", name, map[string]any{"data": map[string]any{"value": value}}, annotations...)
}

func pods(selector map[string]any, restart string) map[string]any {
	spec := map[string]any{"containers": []any{map[string]any{"name": "x", "image": "example.test/x"}}}
	if restart != "" {
		spec["restartPolicy"] = restart
	}
	if selector != nil {
		spec["nodeSelector"] = selector
	}
	return spec
}

// job completes automatically.
func job(name string, annotations ...string) string {
	return jobWith(name, map[string]any{"template": map[string]any{"spec": pods(nil, "Never")}}, annotations...)
}

func jobWith(name string, spec map[string]any, annotations ...string) string {
	return manifest("batch/v1", "Job", name, map[string]any{"spec": spec}, annotations...)
}

// gatedJob completes when the gate is open.
func (s *scenario) gatedJob(name string, annotations ...string) string {
	return jobWith(name, map[string]any{"template": map[string]any{"spec": pods(s.gate(), "Never")}}, annotations...)
}

// failingJob fails after a second.
func failingJob(name string, annotations ...string) string {
	spec := map[string]any{"activeDeadlineSeconds": 1, "template": map[string]any{"spec": pods(map[string]any{"no": "where"}, "Never")}}
	return jobWith(name, spec, annotations...)
}

// gatedDeployment is ready when the gate is open.
func (s *scenario) gatedDeployment(name string, annotations ...string) string {
	return deploymentWith(name, map[string]any{}, s.gate(), annotations...)
}

func deploymentWith(name string, spec, selector map[string]any, annotations ...string) string {
	labels := map[string]any{"app": name}
	full := map[string]any{
		"replicas": 1, "selector": map[string]any{"matchLabels": labels},
		"template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": pods(selector, "")},
	}
	maps.Copy(full, spec)
	return manifest("apps/v1", "Deployment", name, map[string]any{"spec": full}, annotations...)
}
