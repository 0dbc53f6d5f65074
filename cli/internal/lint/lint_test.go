// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package lint_test

import (
	"math/rand"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/leatdev/leat/cli/internal/kubeapi"
	"github.com/leatdev/leat/cli/internal/lint"
	"github.com/leatdev/leat/render"
)

// TestGoodObjectsHaveNoFindings fills objects of every kind at random, as Kubernetes' own tests do.
func TestGoodObjectsHaveNoFindings(t *testing.T) {
	t.Parallel()
	fill := fuzzer.FuzzerFor(metafuzzer.Funcs, rand.NewSource(1), scheme.Codecs)
	kinds := 0
	for gvk := range scheme.Scheme.AllKnownTypes() {
		object, err := scheme.Scheme.New(gvk)
		if err != nil {
			t.Fatal(err)
		}
		if _, hasMetadata := object.(metav1.Object); !hasMetadata || gvk.Version == "__internal" {
			continue
		}
		kinds++
		fill.Fill(object)
		object.GetObjectKind().SetGroupVersionKind(gvk)
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			t.Fatalf("%v: %v", gvk, err)
		}
		report := lint.Check([]render.Object{{Unstructured: &unstructured.Unstructured{Object: fields}}}, kubeapi.Newest)
		for _, f := range report.Findings {
			if f.Field != "apiVersion" {
				t.Errorf("%v: got %s: %s", gvk, f.Field, f.Message)
			}
		}
	}
	if kinds < 100 {
		t.Errorf("got %d kinds, want those of Kubernetes", kinds)
	}
}

// objects reads manifests.
func objects(t *testing.T, manifests string) []render.Object {
	t.Helper()
	var all []render.Object
	for i, text := range strings.Split(manifests, "---\n") {
		fields := map[string]any{}
		if err := yaml.Unmarshal([]byte(text), &fields); err != nil {
			t.Fatal(err)
		}
		all = append(all, render.Object{Unstructured: &unstructured.Unstructured{Object: fields}, Path: "a.yaml", Document: i + 1})
	}
	return all
}

// TestBadDefinitions checks objects of definitions that no API server takes.
func TestBadDefinitions(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("{type: object, properties: {a: ", 40) + "{type: string}" + strings.Repeat("}}", 40)
	for name, test := range map[string]struct {
		schema string
		want   string // part of a message; empty: no finding
	}{
		"an unknown type":        {"{type: object, properties: {spec: {type: colour}}}", "unrecognized type"},
		"a list without items":   {"{type: object, properties: {spec: {type: array}}}", "must be specified on arrays"},
		"a reference to nothing": {"{type: object, properties: {spec: {$ref: '#/nothing'}}}", ""},
		"another type":           {"{type: object, properties: {spec: {type: string}}}", "want text, got a map"},
		"no schema":              {"{}", ""},
		"a schema that is text":  {"text", ""},
		"nested":                 {deep, "unknown field"},
		"types of types":         {"{type: {a: b}}", "StringOrArray"},
	} {
		report := lint.Check(objects(t, `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: a}, spec: {
  group: example.com, names: {kind: Well}, versions: [text, {name: v1, served: true, schema: {openAPIV3Schema: `+test.schema+`}}]}}
---
{apiVersion: example.com/v1, kind: Well, metadata: {name: a}, spec: {a: {b: 1}}}
`), kubeapi.Newest)
		found := ""
		for _, f := range report.Findings {
			if strings.HasPrefix(f.Field, "spec") && f.Kind == "Well" || strings.HasSuffix(f.Field, "openAPIV3Schema") {
				found += f.Message + "\n"
			}
		}
		if test.want == "" && found != "" || !strings.Contains(found, test.want) {
			t.Errorf("%s: got %q, want %q", name, found, test.want)
		}
	}
}
