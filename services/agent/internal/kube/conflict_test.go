// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// encounter is a service with one object that other managers change. NAME in texts is the name of
// the object.
type encounter struct {
	at     string // the collection; ConfigMaps where empty
	first  string // what the service has applied before the others came; empty: nothing
	others func(t *testing.T, c *cluster, path, name string)
	ours   string
	spec   plan.Spec

	reason reason.Reason  // of the failure; empty: none
	words  []string       // in the message
	values map[string]any // of fields, by dotted paths, afterwards
	owners map[string]string
}

func rules(pairs ...string) plan.Spec {
	var spec plan.Spec
	for i := 0; i < len(pairs); i += 2 {
		spec.Policy.Conflicts = append(spec.Policy.Conflicts, syncpolicy.ConflictRule{Manager: pairs[i], Action: syncpolicy.ConflictAction(pairs[i+1])})
	}
	return spec
}

// meet lets others create the object, and then the service.
func (e encounter) meet(t *testing.T, c *cluster) {
	t.Helper()
	name := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(t.Name(), "TestOthers/"), "_", "-"))
	name = strings.NewReplacer("/", "-", ",", "", "'", "").Replace(name)
	at := e.at
	if at == "" {
		at = configMaps
	}
	if e.first != "" {
		undisturbed := plan.Spec{Prune: new(true), Policy: syncpolicy.Policy{Drift: syncpolicy.DriftOff}} // so others can act
		c.carriedOut(t, c.put(t, name, map[string]string{"a.yaml": strings.ReplaceAll(e.first, "NAME", name)}, undisturbed))
	}
	if e.others != nil {
		e.others(t, c, at+name, name)
	}
	s := c.put(t, name, map[string]string{"a.yaml": strings.ReplaceAll(e.ours, "NAME", name)}, e.spec)
	if e.reason == 0 {
		c.carriedOut(t, s)
	} else {
		e.assertFailed(t, c.settled(t, s, report.Failed))
	}
	live := c.get(t, at+name)
	for path, want := range e.values {
		if diff := cmp.Diff(want, part(live, strings.Split(path, ".")...)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
	for path, want := range e.owners {
		if got := strings.Join(ownersOf(live, strings.Split(path, " ")...), ","); got != want {
			t.Errorf("owners of %s: got %q, want %q", path, got, want)
		}
	}
}

func (e encounter) assertFailed(t *testing.T, got report.Status) {
	t.Helper()
	if got.Problem.Reason != e.reason || len(got.Objects) != 1 {
		t.Fatalf("got problem %+v, objects %+v, want %s of one object", got.Problem, got.Objects, e.reason)
	}
	for _, word := range e.words {
		if !strings.Contains(got.Objects[0].Problem.Message, word) {
			t.Errorf("message: got %q, want it to hold %q", got.Objects[0].Problem.Message, word)
		}
	}
}

// template is a PodTemplate with containers.
func template(containers string) string {
	return "apiVersion: v1\nkind: PodTemplate\nmetadata: {name: NAME}\ntemplate: {spec: {containers: " + containers + "}}\n"
}

func settings(data string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME}\ndata: " + data + "\n"
}

// applied applies manifests as the named managers, before the service.
func applied(pairs ...string) func(t *testing.T, c *cluster, path, name string) {
	return func(t *testing.T, c *cluster, path, name string) {
		t.Helper()
		for i := 0; i < len(pairs); i += 2 {
			c.applyAs(t, pairs[i], path, strings.ReplaceAll(pairs[i+1], "NAME", name))
		}
	}
}

// conflicts are encounters about fields that others own.
var conflicts = map[string]encounter{
	"created": {
		ours: settings("{a: '1'}"), values: map[string]any{"data.a": "1"}, owners: map[string]string{"f:data f:a": "leat"},
	},
	"reported": {
		others: applied("x", settings("{a: x, b: x}")), ours: settings("{a: us, b: us, c: us}"),
		reason: reason.ApplyConflict, words: []string{"x owns data.a, data.b;"}, values: map[string]any{"data.a": "x", "data.c": nil},
	},
	"reported of two managers": {
		others: applied("x", settings("{a: x}"), "y", settings("{b: other}")), ours: settings("{a: us, b: us}"),
		reason: reason.ApplyConflict, words: []string{"x owns data.a; y owns data.b"},
	},
	"reported of an update": {
		others: func(t *testing.T, c *cluster, path, name string) {
			c.createAs(t, "maker", configMaps, strings.ReplaceAll(settings("{a: x}"), "NAME", name))
			c.editAs(t, "editor", path, `{"data": {"a": "y"}}`)
		},
		ours: settings("{a: us}"), reason: reason.ApplyConflict, words: []string{"editor owns data.a"},
	},
	"same value is no conflict": {
		others: applied("x", settings("{a: same}")), ours: settings("{a: same}"), owners: map[string]string{"f:data f:a": "leat,x"},
	},
	"another field is no conflict": {
		others: applied("x", settings("{a: x}")), ours: settings("{b: us}"), values: map[string]any{"data.a": "x", "data.b": "us"},
	},
	"key with dots": {
		others: applied("x", settings("{a.b.yaml: x}")), ours: settings("{a.b.yaml: us, a: us}"), spec: rules("x", "yield"),
		owners: map[string]string{"f:data f:a.b.yaml": "x", "f:data f:a": "leat"},
	},
	"annotation with dots and slash": {
		others: applied("x", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME, annotations: {example.test/a.b: x}}\n"),
		ours:   "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME, annotations: {example.test/a.b: us, example.test/a: us}}\n",
		spec:   rules("x", "yield"), owners: map[string]string{"f:metadata f:annotations f:example.test/a.b": "x", "f:metadata f:annotations f:example.test/a": "leat"},
	},
	"forced for all": {
		others: applied("x", settings("{a: x}"), "y", settings("{b: other}")), ours: settings("{a: us, b: us}"),
		spec: plan.Spec{ForceConflicts: true}, values: map[string]any{"data.a": "us", "data.b": "us"},
		owners: map[string]string{"f:data f:a": "leat", "f:data f:b": "leat"},
	},
	"forced for a manager": {
		others: applied("x-1", settings("{a: x}")), ours: settings("{a: us}"), spec: rules("x-*", "force"), values: map[string]any{"data.a": "us"},
	},
	"forced for one, reported for another": {
		others: applied("x", settings("{a: x}"), "y", settings("{b: other}")), ours: settings("{a: us, b: us}"), spec: rules("x", "force"),
		reason: reason.ApplyConflict, words: []string{"y owns data.b;"}, values: map[string]any{"data.a": "x", "data.b": "other"},
	},
	"yielded to a manager": {
		others: applied("x", settings("{a: x}")), ours: settings("{a: us, b: us}"), spec: rules("x", "yield"),
		values: map[string]any{"data.a": "x", "data.b": "us"}, owners: map[string]string{"f:data f:a": "x", "f:data f:b": "leat"},
	},
	"yielded to anybody": {
		others: applied("x", settings("{a: x}"), "y", settings("{b: other}")), ours: settings("{a: us, b: us, c: us}"), spec: rules("", "yield"),
		values: map[string]any{"data.a": "x", "data.b": "other", "data.c": "us"},
	},
	"yielded for one, forced for another": {
		others: applied("x", settings("{a: x}"), "y", settings("{b: other}")), ours: settings("{a: us, b: us}"), spec: rules("x", "yield", "y", "force"),
		values: map[string]any{"data.a": "x", "data.b": "us"},
	},
	"yielded for one, reported for another": {
		others: applied("x", settings("{a: x}"), "y", settings("{b: other}")), ours: settings("{a: us, b: us}"), spec: rules("x", "yield"),
		reason: reason.ApplyConflict, words: []string{"y owns data.b;"}, values: map[string]any{"data.a": "x", "data.b": "other"},
	},
	"the first rule decides": {
		others: applied("x", settings("{a: x}")), ours: settings("{a: us}"), spec: rules("x", "yield", "*", "force"), values: map[string]any{"data.a": "x"},
	},
	"a rule comes before force for all": {
		others: applied("x", settings("{a: x}"), "y", settings("{b: other}")), ours: settings("{a: us, b: us}"),
		spec: plan.Spec{ForceConflicts: true, Policy: rules("x", "yield").Policy}, values: map[string]any{"data.a": "x", "data.b": "us"},
	},
	"yielded with nothing left": {
		others: applied("x", settings("{a: x}")), ours: settings("{a: us}"), spec: rules("x", "yield"),
		values: map[string]any{"data.a": "x", "metadata.labels": map[string]any{"leat.dev/service": "conflicts-yielded-with-nothing-left"}},
	},
	"a field of an item": {
		at: podTemplates, others: applied("x", template("[{name: app, image: x}, {name: side, image: x}]")), ours: template("[{name: app, image: us}]"),
		reason: reason.ApplyConflict, words: []string{"x owns template.spec.containers[name=app].image;"},
	},
	"a field of an item yielded": {
		at: podTemplates, others: applied("x", template("[{name: app, image: x}]")), ours: template("[{name: app, image: us, workingDir: /us}, {name: side, image: us}]"),
		spec:   rules("x", "yield"),
		values: map[string]any{"template.spec.containers.app.image": "x", "template.spec.containers.app.workingDir": "/us", "template.spec.containers.side.image": "us"},
	},
	"a field of an item forced": {
		at: podTemplates, others: applied("x", template("[{name: app, image: x}, {name: side, image: x}]")), ours: template("[{name: app, image: us}]"),
		spec:   rules("x", "force"),
		values: map[string]any{"template.spec.containers.app.image": "us", "template.spec.containers.side.image": "x"},
	},
	"an item of another stays": {
		at: podTemplates, others: applied("x", template("[{name: side, image: x}]")), ours: template("[{name: app, image: us}]"),
		values: map[string]any{"template.spec.containers.app.image": "us", "template.spec.containers.side.image": "x"},
	},
	"an item with a key of two fields": {
		at:     services,
		others: applied("x", "apiVersion: v1\nkind: Service\nmetadata: {name: NAME}\nspec: {ports: [{name: web, port: 80, targetPort: 1}]}\n"),
		ours:   "apiVersion: v1\nkind: Service\nmetadata: {name: NAME}\nspec: {ports: [{name: web, port: 80, targetPort: 2}, {name: dns, port: 80, protocol: UDP}]}\n",
		spec:   rules("x", "yield"), values: map[string]any{"spec.ports.web.targetPort": 1.0, "spec.ports.dns.port": 80.0},
	},
	"an atomic list": {
		at:     podTemplates,
		others: applied("x", "apiVersion: v1\nkind: PodTemplate\nmetadata: {name: NAME}\ntemplate: {spec: {tolerations: [{key: x}], containers: [{name: app, image: i}]}}\n"),
		ours:   "apiVersion: v1\nkind: PodTemplate\nmetadata: {name: NAME}\ntemplate: {spec: {tolerations: [{key: us}], containers: [{name: app, image: i}]}}\n",
		spec:   rules("x", "yield"), values: map[string]any{"template.spec.tolerations": []any{map[string]any{"key": "x"}}},
	},
	"a Secret is named without its values": {
		at:     secrets,
		others: applied("x", "apiVersion: v1\nkind: Secret\nmetadata: {name: NAME}\ndata: {password: aHVudGVyMg==}\n"),
		ours:   "apiVersion: v1\nkind: Secret\nmetadata: {name: NAME}\ndata: {password: c2VjcmV0}\n",
		reason: reason.ApplyConflict, words: []string{"x owns data.password;"},
	},
	"an unknown field is refused": {
		ours: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME}\ndate: {a: b}\n", others: applied("x", settings("{a: x}")),
		reason: reason.ApplyRejected, words: []string{"date"},
	},
	"an invalid object is refused though it conflicts": {
		ours: settings("{'a b': us, a: us}"), others: applied("x", settings("{a: x}")), spec: rules("x", "force"),
		reason: reason.ApplyRejected, words: []string{"a b"}, values: map[string]any{"data.a": "x"},
	},
}

// TestOthers has managers of every sort on one real API server.
func TestOthers(t *testing.T) {
	t.Parallel()
	c := startCluster(t, audited)
	for name, test := range map[string]func(*testing.T, *cluster){
		"quiet": testQuiet, "adopted once": testAdoptionIsForOnce, "adopted namespace": testAdoptedNamespace, "migration": testMigration,
		"shaped": testShapedOnAServer, "rehearsed": testRehearsed, "confidential": testConfidentialConflict, "mutated": testMutated,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, c)
		})
	}
	for group, encounters := range map[string]map[string]encounter{"conflicts": conflicts, "ignored": ignored, "adopted": adoptions} {
		for name, e := range encounters {
			t.Run(group+"/"+name, func(t *testing.T) {
				t.Parallel()
				e.meet(t, c)
			})
		}
	}
}
