// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/services/agent/internal/fields"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// ignorable are pointers into a PodTemplate, and for each the path to its field. If it ends in an
// item's field, the item has to exist in the manifest and in the cluster.
var ignorable = map[string]string{
	"/template/spec/containers/[name=app]/image":       "template spec containers app image",
	"/template/spec/containers/[name=app]/env":         "template spec containers app env",
	"/template/spec/containers/*/resources/limits/cpu": "template spec containers app resources limits cpu",
	"/template/spec/containers/[name=side]":            "template spec containers side",
	"/template/spec/tolerations":                       "template spec tolerations",
	"/template/spec/nodeSelector":                      "template spec nodeSelector",
	"/template/spec/activeDeadlineSeconds":             "template spec activeDeadlineSeconds",
	"/metadata/annotations/example.test~1a":            "metadata annotations example.test/a",
}

// drawTemplate draws a PodTemplate. The API server turns 1000m into 1.
func drawTemplate(t *rapid.T, name string) map[string]any {
	container := func(of string) map[string]any {
		c := map[string]any{"name": of, "image": rapid.SampledFrom([]string{"i:1", "i:2"}).Draw(t, of+" image")}
		if cpu := rapid.SampledFrom([]string{"", "1", "1000m", "2"}).Draw(t, of+" cpu"); cpu != "" {
			c["resources"] = map[string]any{"limits": map[string]any{"cpu": cpu}}
		}
		if value := rapid.SampledFrom([]string{"", "1", "2"}).Draw(t, of+" env"); value != "" {
			c["env"] = []any{map[string]any{"name": "A", "value": value}}
		}
		return c
	}
	spec := map[string]any{"containers": []any{container("app")}}
	if rapid.Bool().Draw(t, "has side") {
		spec["containers"] = []any{container("side"), container("app")}
	}
	for field, values := range map[string][]any{
		"tolerations": {[]any{map[string]any{"key": "a"}}, []any{map[string]any{"key": "b"}}}, "activeDeadlineSeconds": {int64(1), int64(2)},
		"nodeSelector": {map[string]any{"a": "1"}, map[string]any{"a": "2", "b": "1"}},
	} {
		if rapid.Bool().Draw(t, "has "+field) {
			spec[field] = rapid.SampledFrom(values).Draw(t, field)
		}
	}
	metadata := map[string]any{"name": name, "namespace": "default"}
	if value := rapid.SampledFrom([]string{"", "1", "2"}).Draw(t, "annotation"); value != "" {
		metadata["annotations"] = map[string]any{"example.test/a": value}
	}
	return map[string]any{"apiVersion": "v1", "kind": "PodTemplate", "metadata": metadata, "template": map[string]any{"spec": spec}}
}

// testShapedOnAServer has managers change objects in any order, and shows that applying the shaped
// form of any manifest leaves ignored fields unchanged.
func testShapedOnAServer(t *testing.T, c *cluster) {
	round := 0
	rapid.Check(t, func(rt *rapid.T) {
		round++
		name := fmt.Sprintf("shaped-%d", round)
		send := func(manager string) {
			text, err := json.Marshal(drawTemplate(rt, name))
			if err != nil {
				rt.Fatal(err)
			}
			// The API server may refuse to drop an item of which another manager owns a part. That
			// changes nothing.
			if status, answer := c.request(t, http.MethodPatch, podTemplates+name+"?force=true&fieldManager="+manager, applyPatch, string(text)); status > http.StatusCreated && status != http.StatusUnprocessableEntity {
				rt.Fatalf("apply as %s: got %d, %v", manager, status, answer["message"])
			}
		}
		send("leat")
		for range rapid.IntRange(0, 3).Draw(rt, "changes") {
			send(rapid.SampledFrom([]string{"leat", "x"}).Draw(rt, "manager"))
		}
		pointer := rapid.SampledFrom(slices.Sorted(maps.Keys(ignorable))).Draw(rt, "pointer")
		path := strings.Fields(ignorable[pointer])
		next := &unstructured.Unstructured{Object: drawTemplate(rt, name)}
		rules, err := fields.Compile([]syncpolicy.IgnoreRule{{Pointers: []string{pointer}}})
		if err != nil {
			rt.Fatal(err)
		}
		ignored, err := rules.Of(next)
		if err != nil {
			rt.Fatal(err)
		}
		live, err := c.client.Get(t.Context(), inventory.RefOf(next))
		if err != nil {
			rt.Fatal(err)
		}
		after, err := c.client.Apply(t.Context(), ignored.Shape(next, live), k8s.ApplyOptions{Force: true})
		if problem := new(reason.Problem); errors.As(err, &problem) && strings.Contains(problem.Message, "Required value") {
			return
		}
		if err != nil {
			rt.Fatalf("apply: %v", err)
		}
		if diff := cmp.Diff(part(live.Object, path...), part(after.Object, path...)); diff != "" {
			rt.Fatalf("%s changed (-before +after):\n%s", pointer, diff)
		}
	})
}

// testRehearsed compares an object with ignored, yielded and taken fields.
func testRehearsed(t *testing.T, c *cluster) {
	files := func(value string) map[string]string {
		data := strings.ReplaceAll("{a: 'N', b: 'N', c: 'N', d: 'N'}", "N", value)
		return map[string]string{
			"a.yaml": strings.ReplaceAll(settings(data), "NAME", "rehearsed"),
			"b.yaml": strings.ReplaceAll(settings("{a: kept}"), "NAME", "rehearsed-kept"),
		}
	}
	spec := pointers("/data/a")
	spec.Policy.Conflicts = rules("x", "yield", "kubectl-edit", "force").Policy.Conflicts
	c.carriedOut(t, c.put(t, "rehearsed", files("1"), spec))
	c.editAs(t, "tuner", configMaps+"rehearsed", `{"data": {"a": "tuned"}}`)
	c.editAs(t, "tuner", configMaps+"rehearsed-kept", `{"data": {"a": "tuned"}}`)
	spec.Paused = true
	s := c.put(t, "rehearsed", files("2"), spec)
	c.await(t, "rehearsed", func(got report.Status) bool { return got.Phase == report.Paused })
	c.applyAs(t, "x", configMaps+"rehearsed", strings.ReplaceAll(settings("{c: x}"), "NAME", "rehearsed"))
	c.editAs(t, "kubectl-edit", configMaps+"rehearsed", `{"data": {"d": "edited"}}`)
	found, err := c.engine.Diff(t.Context(), s.Name)
	if err != nil || len(found) != 2 {
		t.Fatalf("got %+v, %v, want one difference and one object that differs in what is ignored", found, err)
	}
	if kept := found[1]; kept.Change != report.Unchanged || kept.Unified != "" || len(kept.Fields) != 0 || len(kept.Ignored) != 1 || kept.Ignored[0].Rule != "/data/a" {
		t.Errorf("got %+v, want the ignored field of an object that stays", kept)
	}
	text := found[0].Unified
	if !strings.Contains(text, "+  b: \"2\"") || strings.Contains(text, "+  a:") || strings.Contains(text, "+  c:") {
		t.Errorf("got\n%s\nwant only b and d to change", text)
	}
	var lines []string
	for _, f := range slices.Concat(found[0].Fields, found[0].Ignored) {
		line := fmt.Sprintf("%s %s -> %s taken=%t %s", f.Path, f.Before, f.After, f.IsTaken, f.Rule)
		for _, owner := range f.Owners {
			line += fmt.Sprintf(" %s %s %t", owner.Name, owner.Operation, owner.Time.IsZero())
		}
		lines = append(lines, line)
	}
	want := []string{
		".data.b 1 -> 2 taken=false  leat Apply false",
		".data.d edited -> 2 taken=true  kubectl-edit Update false",
		".data.a tuned -> 2 taken=false /data/a tuner Update false",
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
}

// testConfidentialConflict has a conflict about a list item whose name is a secret of the
// configuration.
func testConfidentialConflict(t *testing.T, c *cluster) {
	manifest := strings.ReplaceAll(template("[{name: hunter2, image: us}]"), "NAME", "silent")
	c.applyAs(t, "x", podTemplates+"silent", strings.Replace(manifest, "us", "x", 1))
	secret := &render.Variables{Secrets: map[string]string{"HIDDEN": "hunter2"}}
	s := c.configure(t, "silent", map[string]string{"a.yaml": strings.Replace(manifest, "hunter2", "'${HIDDEN}'", 1)}, plan.Spec{}, secret)
	got := c.configured(t, s, report.Failed)
	text := fmt.Sprintf("%+v", got.Problem)
	for _, o := range got.Objects {
		text += fmt.Sprintf(" %+v", o.Problem)
	}
	if strings.Contains(text, "hunter2") || !strings.Contains(text, "x owns template.spec.containers[…].image;") {
		t.Errorf("got %s, want manager and field without the item's name", text)
	}
}

// testMutated has a policy of the API server overwrite an ignored field that the manifest sets.
func testMutated(t *testing.T, c *cluster) {
	policy := `{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy", "metadata": {"name": "mutated"}, "spec": {
		"reinvocationPolicy": "Never", "failurePolicy": "Fail",
		"matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"], "resourceNames": ["target"]}],
			"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "mutated"}}},
		"mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{data: {\"value\": \"by policy\"}}"}}]}}`
	const registration = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolic"
	c.must(t, http.MethodPost, registration+"ies", plainJSON, policy)
	c.must(t, http.MethodPost, registration+"ybindings", plainJSON, `{"metadata": {"name": "mutated"}, "spec": {"policyName": "mutated"}}`)
	c.untilMutated(t, "mutated", map[string]any{"value": "by policy"})
	spec := pointers("/data/value")
	spec.Namespace = "mutated"
	manifest := func(value, other string) map[string]string {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(configMap("target", value)), &object); err != nil {
			t.Fatal(err)
		}
		object["data"].(map[string]any)["other"] = other
		return map[string]string{"a.yaml": encoded(t, object)}
	}
	path := "/api/v1/namespaces/mutated/configmaps/target"
	for _, step := range []struct {
		value, other string
		writes       int
	}{{"1", "1", 1}, {"2", "1", 0}, {"2", "2", 1}} {
		c.assertAfter(t, "target", step.writes, func() { c.carriedOut(t, c.put(t, "mutated", manifest(step.value, step.other), spec)) })
		live := c.get(t, path)
		if diff := cmp.Diff(map[string]any{"value": "by policy", "other": step.other}, part(live, "data")); diff != "" {
			t.Errorf("data (-want +got):\n%s", diff)
		}
	}
}
