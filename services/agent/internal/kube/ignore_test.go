// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/agent/internal/plan"
)

func ignoring(rules ...syncpolicy.IgnoreRule) plan.Spec {
	return plan.Spec{Prune: new(true), Policy: syncpolicy.Policy{Ignore: rules}}
}

func pointers(texts ...string) plan.Spec {
	return ignoring(syncpolicy.IgnoreRule{Pointers: texts})
}

// edited merges patches into the object as the named managers.
func edited(pairs ...string) func(t *testing.T, c *cluster, path, name string) {
	return func(t *testing.T, c *cluster, path, _ string) {
		t.Helper()
		for i := 0; i < len(pairs); i += 2 {
			c.editAs(t, pairs[i], path, pairs[i+1])
		}
	}
}

// ignored are encounters about fields that are left to others.
var ignored = map[string]encounter{
	"a new object has the manifest's value": {
		ours: settings("{a: us}"), spec: pointers("/data/a"), values: map[string]any{"data.a": "us"},
	},
	"a field of another is left out": {
		first: settings("{a: '1', b: '1'}"), others: edited("x", `{"data": {"a": "x"}}`), ours: settings("{a: '2', b: '2'}"), spec: pointers("/data/a"),
		values: map[string]any{"data.a": "x", "data.b": "2"}, owners: map[string]string{"f:data f:a": "x", "f:data f:b": "leat"},
	},
	"a field that is only ours keeps its value": {
		first: settings("{a: '1', b: '1'}"), ours: settings("{a: '2', b: '2'}"), spec: pointers("/data/a"),
		values: map[string]any{"data.a": "1", "data.b": "2"}, owners: map[string]string{"f:data f:a": "leat"},
	},
	"a field that left the manifest stays": {
		first: settings("{a: '1', b: '1'}"), ours: settings("{b: '2'}"), spec: pointers("/data/a"),
		values: map[string]any{"data.a": "1", "data.b": "2"},
	},
	"a field that another removed stays away": {
		first: settings("{a: '1', b: '1'}"), others: edited("x", `{"data": {"a": null}}`), ours: settings("{a: '1', b: '2'}"), spec: pointers("/data/a"),
		values: map[string]any{"data.a": nil, "data.b": "2"},
	},
	"a field that both own is left to the other": {
		first: settings("{a: '1', b: '1'}"), others: applied("x", settings("{a: '1'}")), ours: settings("{a: '2', b: '1'}"), spec: pointers("/data/a"),
		values: map[string]any{"data.a": "1"}, owners: map[string]string{"f:data f:a": "x"},
	},
	"another selector, another object": {
		first: settings("{a: '1'}"), ours: settings("{a: '2'}"), values: map[string]any{"data.a": "2"},
		spec: ignoring(syncpolicy.IgnoreRule{Objects: syncpolicy.Selector{Kind: "Secret"}, Pointers: []string{"/data/a"}},
			syncpolicy.IgnoreRule{Objects: syncpolicy.Selector{Name: "other-*"}, Pointers: []string{"/data/a"}},
			syncpolicy.IgnoreRule{Objects: syncpolicy.Selector{Group: "apps"}, Pointers: []string{"/data/a"}},
			syncpolicy.IgnoreRule{Objects: syncpolicy.Selector{Namespace: "kube-*"}, Pointers: []string{"/data/a"}},
			syncpolicy.IgnoreRule{Objects: syncpolicy.Selector{Labels: "tier=db"}, Pointers: []string{"/data/a"}}),
	},
	"by every part of a selector": {
		first: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME, labels: {tier: db}}\ndata: {a: '1'}\n",
		ours:  "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME, labels: {tier: db}}\ndata: {a: '2'}\n",
		spec: ignoring(syncpolicy.IgnoreRule{
			Objects:  syncpolicy.Selector{Group: "core", Kind: "Config*", Namespace: "defaul?", Name: "ignored-*", Labels: "tier in (db, web)"},
			Pointers: []string{"/data/a"},
		}),
		values: map[string]any{"data.a": "1"},
	},
	"by annotation": {
		first:  settings("{a: '1', b: '1', c: '1'}"),
		ours:   "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME, annotations: {leat.dev/ignore: '/data/a, /data/b'}}\ndata: {a: '2', b: '2', c: '2'}\n",
		values: map[string]any{"data.a": "1", "data.b": "1", "data.c": "2"},
	},
	"by an annotation that cannot be read": {
		first: settings("{a: '1'}"), ours: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME, annotations: {leat.dev/ignore: data.a}}\ndata: {a: '2'}\n",
		reason: reason.ManifestInvalid, words: []string{"leat.dev/ignore", "data.a"}, values: map[string]any{"data.a": "1"},
	},
	"by manager": {
		first: settings("{a: '1', b: '1'}"), others: edited("tuner-7", `{"data": {"a": "x"}}`), ours: settings("{a: '2', b: '2'}"),
		spec: ignoring(syncpolicy.IgnoreRule{Managers: []string{"tuner-*"}}), values: map[string]any{"data.a": "x", "data.b": "2"},
	},
	"by manager, others conflict": {
		first: settings("{a: '1', b: '1'}"), others: edited("tuner", `{"data": {"a": "x"}}`, "person", `{"data": {"b": "x"}}`), ours: settings("{a: '2', b: '2'}"),
		spec:   ignoring(syncpolicy.IgnoreRule{Managers: []string{"tuner"}}),
		reason: reason.ApplyConflict, words: []string{"person owns data.b;"}, values: map[string]any{"data.a": "x", "data.b": "x"},
	},
	"in an item of a list": {
		at: podTemplates, first: template("[{name: app, image: '1'}, {name: side, image: '1'}]"),
		others: applied("x", template("[{name: side, image: x}]")), ours: template("[{name: app, image: '2'}, {name: side, image: '2', workingDir: /us}]"),
		spec: pointers("/template/spec/containers/[name=side]/image"),
		values: map[string]any{
			"template.spec.containers.app.image": "2", "template.spec.containers.side.image": "x", "template.spec.containers.side.workingDir": "/us",
		},
	},
	"in an item that is only ours": {
		at: podTemplates, first: template("[{name: app, image: '1'}, {name: side, image: '1'}]"), ours: template("[{name: app, image: '2'}, {name: side, image: '2'}]"),
		spec:   pointers("/template/spec/containers/[name=side]/image"),
		values: map[string]any{"template.spec.containers.app.image": "2", "template.spec.containers.side.image": "1"},
	},
	"in a new item": {
		at: podTemplates, first: template("[{name: app, image: '1'}]"), ours: template("[{name: app, image: '2'}, {name: side, image: '2'}]"),
		spec:   pointers("/template/spec/containers/*/image"),
		values: map[string]any{"template.spec.containers.app.image": "1", "template.spec.containers.side.image": "2"},
	},
	"with conflicts elsewhere forced": {
		first: settings("{a: '1', b: '1'}"), others: edited("x", `{"data": {"a": "x", "b": "x"}}`), ours: settings("{a: '2', b: '2'}"),
		spec:   plan.Spec{ForceConflicts: true, Policy: pointers("/data/a").Policy},
		values: map[string]any{"data.a": "x", "data.b": "2"}, owners: map[string]string{"f:data f:a": "x"},
	},
}

// assertAfter counts the writes of an object after a change.
func (c *cluster) assertAfter(t *testing.T, name string, want int, change func()) {
	t.Helper()
	before := c.writes(t, name)
	change()
	if got := c.writes(t, name) - before; got != want {
		t.Errorf("%s: got %d writes, want %d", name, got, want)
	}
}

// assertQuiet counts the writes of an object after a change, immediate or later. It then changes
// sentinels one after the other, and waits until each has been corrected: the second correction is
// in a run that follows the run of the first.
func (c *cluster) assertQuiet(t *testing.T, path string, s *sentinels, want int, change func()) {
	t.Helper()
	c.assertAfter(t, path[strings.LastIndex(path, "/")+1:], want, func() {
		change()
		for range 2 {
			sentinel := fmt.Sprintf("%s-%d", s.path, s.used)
			s.used++
			c.editAs(t, "person", sentinel, `{"metadata": {"labels": {"leat.test/mark": "spoilt"}}}`)
			c.until(t, sentinel, func(o map[string]any) bool { return part(o, "metadata", "labels", "leat.test/mark") == "kept" })
		}
	})
}

// sentinels are objects of one kind. Each is used once, because the engine slows down for objects
// that are changed repeatedly.
type sentinels struct {
	path string // of all, without their numbers
	used int
}

// guard adds sentinels to a service's files: objects in that collection, of that manifest.
func guard(files map[string]string, collection, manifest, name string) *sentinels {
	for i := range 4 {
		one := fmt.Sprintf("%s-%d", name, i)
		text := strings.ReplaceAll(manifest, "NAME", one)
		files[one+".yaml"] = strings.Replace(text, "{name: "+one, "{labels: {leat.test/mark: kept}, name: "+one, 1)
	}
	return &sentinels{path: collection + name}
}

// testQuiet counts the writes after changes of fields.
func testQuiet(t *testing.T, c *cluster) {
	for name, test := range map[string]struct {
		spec   plan.Spec
		editor string
		patch  string
		want   int
	}{
		"no rule":                  {editor: "x", patch: `{"data": {"a": "x"}}`, want: 1},
		"pointer":                  {pointers("/data/a"), "x", `{"data": {"a": "x"}}`, 0},
		"pointer, removed":         {pointers("/data/a"), "x", `{"data": {"a": null}}`, 0},
		"pointer to the map":       {pointers("/data"), "x", `{"data": {"a": "x", "b": null, "c": "x"}}`, 0},
		"pointer to another field": {pointers("/data/b"), "x", `{"data": {"a": "x"}}`, 2}, // one that is refused, and one by force
		"manager":                  {ignoring(syncpolicy.IgnoreRule{Managers: []string{"x"}}), "x", `{"data": {"a": "x"}}`, 0},
		"another manager":          {ignoring(syncpolicy.IgnoreRule{Managers: []string{"z"}}), "x", `{"data": {"a": "x"}}`, 2},
		"yielded":                  {rules("x", "yield"), "x", `{"data": {"a": "x"}}`, 2}, // one that is refused, and one without the field
		"forced":                   {rules("x", "force"), "x", `{"data": {"a": "x"}}`, 2},
		"forced for all":           {rules("*", "force"), "x", `{"data": {"a": "x"}}`, 1},
		"yielded to all":           {rules("*", "yield"), "x", `{"data": {"a": "x"}}`, 1}, // drift is no conflict
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			service := strings.ReplaceAll(strings.ReplaceAll(name, " ", "-"), ",", "")
			object := "quiet-" + service
			files := map[string]string{"a.yaml": strings.ReplaceAll(settings("{a: us, b: us}"), "NAME", object)}
			guards := guard(files, configMaps, settings("{s: us}"), "sentinel-"+service)
			c.carriedOut(t, c.put(t, service, files, test.spec))
			for round, want := range []int{test.want, 0} { // at once, and then never again
				c.assertQuiet(t, configMaps+object, guards, want, func() {
					if round == 0 {
						c.editAs(t, test.editor, configMaps+object, test.patch)
					}
				})
			}
		})
	}
}

// testAutoscaler has the controller of a real HorizontalPodAutoscaler change the replicas that a
// manifest sets.
func testAutoscaler(t *testing.T, c *cluster) {
	deployment := "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: NAME}\nspec:\n  replicas: %d\n  selector: {matchLabels: {app: NAME}}\n" +
		"  template:\n    metadata: {labels: {app: NAME}}\n    spec: {containers: [{name: app, image: 'example.test/app:%d'}]}\n"
	scaler := "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: NAME}\nspec:\n" +
		"  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: NAME}\n  minReplicas: 3\n  maxReplicas: 5\n"
	for name, spec := range map[string]plan.Spec{
		"by-pointer": ignoring(syncpolicy.IgnoreRule{Objects: syncpolicy.Selector{Group: "apps", Kind: "Deployment"}, Pointers: []string{"/spec/replicas"}}),
		"by-manager": ignoring(syncpolicy.IgnoreRule{Managers: []string{"kube-controller-manager"}}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := "scaled-" + name
			files := map[string]string{"a.yaml": strings.ReplaceAll(fmt.Sprintf(deployment, 1, 1), "NAME", object)}
			guards := guard(files, deploymentsPath, fmt.Sprintf(deployment, 0, 1), "sentinel-"+name)
			c.carriedOut(t, c.put(t, name, files, spec))
			c.assertQuiet(t, deploymentsPath+object, guards, 0, func() {
				c.must(t, http.MethodPost, "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers", plainYAML, strings.ReplaceAll(scaler, "NAME", object))
				c.until(t, deploymentsPath+object, func(o map[string]any) bool { return part(o, "spec", "replicas") == 3.0 })
			})
			files["a.yaml"] = strings.ReplaceAll(fmt.Sprintf(deployment, 2, 2), "NAME", object)
			c.assertQuiet(t, deploymentsPath+object, guards, 1, func() { c.carriedOut(t, c.put(t, name, files, spec)) })
			live := c.get(t, deploymentsPath+object)
			if got := part(live, "spec", "replicas"); got != 3.0 {
				t.Errorf("replicas: got %v, want 3", got)
			}
			if got := part(live, "spec", "template", "spec", "containers", "app", "image"); got != "example.test/app:2" {
				t.Errorf("image: got %v, want that of the second manifest", got)
			}
		})
	}
}
