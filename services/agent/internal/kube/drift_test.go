// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/internal/runtime/localkube"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// stage is the service and the namespace of one scenario.
type stage struct {
	*cluster

	name   string
	s      plan.Service
	fences int
	events <-chan report.Event
}

// maxFences is the maximum number of fences of a scenario.
const maxFences = 4

// enter applies a service with the manifests and some ConfigMaps of the test.
func (c *cluster) enter(t *testing.T, name string, mode syncpolicy.DriftMode, manifests ...string) *stage {
	t.Helper()
	files := map[string]string{}
	for i, text := range manifests {
		files[fmt.Sprintf("%d.yaml", i)] = text
	}
	for i := range maxFences {
		files[fmt.Sprintf("fence-%d.yaml", i)] = configMap(fmt.Sprintf("fence-%d", i), "1")
	}
	g := &stage{cluster: c, name: name}
	var stop func()
	g.events, stop = c.engine.Subscribe(name)
	t.Cleanup(stop)
	g.s = c.put(t, name, files, plan.Spec{
		Namespace: name, CreateNamespace: new(true), Prune: new(true), Policy: syncpolicy.Policy{Drift: mode},
	})
	c.await(t, name, func(got report.Status) bool { return got.Applied.SpecDigest == g.s.SpecDigest })
	return g
}

// path returns the path of an object in the scenario's namespace, such as "configmaps/target" or
// "apps/v1 deployments/web".
func (g *stage) path(object string) string {
	group, rest, found := strings.Cut(object, " ")
	if !found {
		return "/api/v1/namespaces/" + g.name + "/" + object
	}
	return "/apis/" + group + "/namespaces/" + g.name + "/" + rest
}

// must sends a request as another client, which has to succeed.
func (g *stage) must(t *testing.T, method, object, contentType, body string) map[string]any {
	t.Helper()
	status, answer := g.request(t, method, g.path(object), contentType, body)
	if status >= http.StatusBadRequest {
		t.Fatalf("%s %s: got %d, %v", method, object, status, answer["message"])
	}
	return answer
}

func (g *stage) merge(t *testing.T, object, body string) {
	t.Helper()
	g.must(t, http.MethodPatch, object+"?fieldManager=somebody", mergePatch, body)
}

// corrected waits until an object has been corrected.
func (g *stage) corrected(t *testing.T, name string) {
	t.Helper()
	for {
		e := await.Value(t, name+" to be put right", g.events)
		if e.Object != nil && e.Object.Name == name && strings.Contains(e.Message, "put right") {
			return
		}
	}
}

// fence waits until all previous changes of ConfigMaps have been observed and handled: it changes
// one that the watch reports after them.
func (g *stage) fence(t *testing.T) {
	t.Helper()
	if g.fences == maxFences {
		t.Fatal("there are too few fences")
	}
	name := fmt.Sprintf("fence-%d", g.fences)
	g.fences++
	g.merge(t, "configmaps/"+name, `{"data":{"value":"2"}}`)
	g.corrected(t, name)
}

// data returns the data of a ConfigMap.
func (g *stage) data(t *testing.T, name string) any {
	t.Helper()
	return g.must(t, http.MethodGet, "configmaps/"+name, "", "")["data"]
}

const target = "configmaps/target"

// TestDriftMatrix has others change an object in every possible way, and counts the resulting
// requests.
func TestDriftMatrix(t *testing.T) {
	t.Parallel()
	c := startCluster(t, func(p *localkube.Params) { p.Audit = true })
	theirs := func(value string) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: target\ndata:\n  value: \"" + value + "\"\n"
	}
	for name, test := range map[string]func(*testing.T, *cluster){
		"report": testDriftReport, "scale": testScale, "status": testStatus, "admission": testAdmission, "versions": testVersions,
		"autoscaler": testAutoscaler,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, c)
		})
	}
	for name, test := range map[string]struct {
		change func(t *testing.T, g *stage)
		want   int // applies beside the first
	}{
		"update":        {func(t *testing.T, g *stage) { g.merge(t, target, `{"data":{"value":"theirs"}}`) }, 1},
		"field removed": {func(t *testing.T, g *stage) { g.merge(t, target, `{"data":{"value":null}}`) }, 1},
		"replaced as a whole": {func(t *testing.T, g *stage) {
			o := g.must(t, http.MethodGet, target, "", "")
			o["data"] = map[string]any{"value": "theirs"}
			g.must(t, http.MethodPut, target+"?fieldManager=somebody", "application/json", encode(t, o))
		}, 1},
		"apply by force": {func(t *testing.T, g *stage) {
			g.must(t, http.MethodPatch, target+"?fieldManager=somebody&force=true", applyPatch, theirs("theirs"))
		}, 1},
		"apply of the same value": {func(t *testing.T, g *stage) {
			g.must(t, http.MethodPatch, target+"?fieldManager=somebody", applyPatch, theirs("1"))
		}, 0},
		"field of others":      {func(t *testing.T, g *stage) { g.merge(t, target, `{"data":{"other":"theirs"}}`) }, 0},
		"annotation of others": {func(t *testing.T, g *stage) { g.merge(t, target, `{"metadata":{"annotations":{"a":"b"}}}`) }, 0},
		"owner of others": {func(t *testing.T, g *stage) {
			g.merge(t, target, `{"metadata":{"finalizers":["example.test/x"],"labels":{"x":"y"}}}`)
		}, 0},
		"label of the manifest": {func(t *testing.T, g *stage) { g.merge(t, target, `{"metadata":{"labels":{"tier":null}}}`) }, 1},
		"leat's label removed":  {func(t *testing.T, g *stage) { g.merge(t, target, `{"metadata":{"labels":{"leat.dev/service":null}}}`) }, 1},
		"leat's label of others": {func(t *testing.T, g *stage) {
			g.merge(t, target, `{"metadata":{"labels":{"leat.dev/service":"nobody"}}}`)
		}, 1},
		"ownership wiped": {func(t *testing.T, g *stage) { g.merge(t, target, `{"metadata":{"managedFields":[{}]}}`) }, 1},
		"deleted":         {func(t *testing.T, g *stage) { g.must(t, http.MethodDelete, target, "", "") }, 1},
		"deleted and recreated": {func(t *testing.T, g *stage) {
			g.must(t, http.MethodDelete, target, "", "")
			// The agent and this request may come in any order; the second has nothing to do.
			if status, _ := g.request(t, http.MethodPost, g.path("configmaps"), "application/yaml", theirs("1")); status != http.StatusCreated && status != http.StatusConflict {
				t.Errorf("create: got %d, want 201 or 409", status)
			}
		}, 1},
		"finalizer stuck": {func(t *testing.T, g *stage) {
			g.merge(t, target, `{"metadata":{"finalizers":["example.test/stuck"]}}`)
			g.must(t, http.MethodDelete, target, "", "")
			g.merge(t, target, `{"data":{"value":"theirs"}}`)
			g.fence(t)
			if got := g.applies(t, "configmaps", g.name, "target"); got != 1 {
				t.Errorf("applies while it terminates: got %d, want only the first", got)
			}
			g.merge(t, target, `{"metadata":{"finalizers":null}}`)
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := c.enter(t, strings.NewReplacer(" ", "-", "'", "").Replace(name), syncpolicy.DriftCorrect,
				strings.Replace(configMap("target", "1"), "name: target", "name: target\n  labels: {tier: front}", 1))
			g.await(t, g.name, func(got report.Status) bool { return got.Phase == report.Healthy })
			test.change(t, g)
			if test.want > 0 {
				g.corrected(t, "target")
			}
			g.fence(t)
			g.fence(t) // the first saw to the change, the second to what came of that
			if got := g.applies(t, "configmaps", g.name, "target") - 1; got != test.want {
				t.Errorf("applies: got %d, want %d", got, test.want)
			}
			o := g.must(t, http.MethodGet, target, "", "")
			if got := o["data"].(map[string]any)["value"]; got != "1" {
				t.Errorf("value: got %v, want 1", got)
			}
			if got := o["metadata"].(map[string]any)["labels"].(map[string]any); got[k8s.ServiceLabel] != g.name || got["tier"] != "front" {
				t.Errorf("labels: got %v, want those of the manifest and the service's", got)
			}
		})
	}
}

// testDriftReport reports changes by others, and does not correct them.
func testDriftReport(t *testing.T, c *cluster) {
	g := c.enter(t, "drift-report", syncpolicy.DriftReport, configMap("target", "1"),
		"apiVersion: v1\nkind: Secret\nmetadata: {name: key}\nstringData: {password: hunter2}\n")
	g.await(t, g.name, func(got report.Status) bool { return got.Phase == report.Healthy })
	g.merge(t, target, `{"data":{"value":"theirs"},"metadata":{"labels":{"leat.dev/service":null}}}`)
	g.merge(t, "secrets/key", `{"data":{"password":"dGhlaXJz"}}`)
	got := g.await(t, g.name, func(got report.Status) bool { return len(got.Drift) == 2 })
	var lines []string
	for _, o := range got.Drift {
		for _, f := range o.Fields {
			lines = append(lines, fmt.Sprintf("%s: %s %s -> %s by %s", o.Ref.Name, f.Path, f.Old, f.New, f.Manager))
		}
	}
	want := []string{
		"target: data.value 1 -> theirs by somebody", `target: metadata.labels {"leat.dev/service":"drift-report"} ->  by `,
		"key: data.password (masked) -> (masked) by somebody",
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("drift (-want +got):\n%s", diff)
	}
	if got := g.applies(t, "configmaps", g.name, "target"); got != 2 { // the first, and the dry run
		t.Errorf("applies: got %d, want 2", got)
	}
	if err := g.engine.Reconcile(g.name); err != nil {
		t.Fatal(err)
	}
	g.await(t, g.name, func(got report.Status) bool {
		return got.Phase == report.Healthy && got.Problem == nil && len(got.Drift) == 0
	})
	if got := g.data(t, "target"); !maps.Equal(got.(map[string]any), map[string]any{"value": "1"}) {
		t.Errorf("data: got %v, want that of the manifest", got)
	}
}

func encode(t *testing.T, o map[string]any) string {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
