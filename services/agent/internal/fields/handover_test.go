// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fields_test

import (
	"bytes"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/leatdev/leat/services/agent/internal/fields"
)

func entry(manager, operation, version, subresource, owned string) string {
	return "{manager: " + manager + ", operation: " + operation + ", apiVersion: " + version + ", subresource: '" + subresource +
		"', fieldsType: FieldsV1, fieldsV1: " + owned + "}"
}

func object(t *testing.T, entries string) *unstructured.Unstructured {
	t.Helper()
	return parsed(t, "{apiVersion: example.test/v1, kind: Thing, spec: {a: 1, b: 1, list: [{name: x, v: 1}], set: [s]},"+
		"metadata: {name: x, annotations: {kubectl.kubernetes.io/last-applied-configuration: '{}'}, managedFields: ["+entries+"]}}")
}

func TestHandOver(t *testing.T) {
	t.Parallel()
	const ours, theirs, v0 = "example.test/v1", "example.test/v1", "example.test/v0"
	for name, test := range map[string]struct{ from, want string }{
		"nothing":       {"", ""},
		"only ours":     {entry("leat", "Apply", ours, "", "{f:spec: {f:a: {}}}"), ""},
		"others":        {entry("hpa", "Update", theirs, "scale", "{f:spec: {f:a: {}}}"), ""},
		"a subresource": {entry("kubectl", "Update", theirs, "status", "{f:status: {f:a: {}}}"), ""},
		"a deployer": {
			entry("helm", "Update", theirs, "", "{f:spec: {f:a: {}}}"), entry("leat", "Apply", ours, "", "{f:spec: {f:a: {}}}"),
		},
		"our own requests": {
			entry("leat", "Update", theirs, "", "{f:spec: {f:a: {}}}"), entry("leat", "Apply", ours, "", "{f:spec: {f:a: {}}}"),
		},
		"several, and ours, and others": {
			entry("helm", "Update", theirs, "", "{f:spec: {f:a: {}}}") + "," + entry("hpa", "Update", theirs, "", "{f:spec: {f:b: {}}}") + "," +
				entry("leat", "Apply", ours, "", "{f:spec: {f:c: {}}}") + "," + entry("kubectl", "Apply", theirs, "", "{f:spec: {.: {}, f:a: {}}}"),
			entry("hpa", "Update", theirs, "", "{f:spec: {f:b: {}}}") + "," + entry("leat", "Apply", ours, "", "{f:spec: {.: {}, f:a: {}, f:c: {}}}"),
		},
		"a whole and a part of it": {
			entry("helm", "Update", theirs, "", "{f:spec: {}}") + "," + entry("kubectl", "Apply", theirs, "", "{f:spec: {f:a: {}}}"),
			entry("leat", "Apply", ours, "", "{f:spec: {.: {}, f:a: {}}}"),
		},
		"what kubectl notes": {
			entry("kubectl-client-side-apply", "Update", theirs, "",
				"{f:metadata: {f:annotations: {.: {}, f:kubectl.kubernetes.io/last-applied-configuration: {}, f:x: {}}}, f:spec: {f:a: {}}}"),
			entry("leat", "Apply", ours, "", "{f:metadata: {f:annotations: {.: {}, f:x: {}}}, f:spec: {f:a: {}}}"),
		},
		"nothing but what kubectl notes": {
			entry("kubectl-client-side-apply", "Update", theirs, "",
				"{f:metadata: {f:annotations: {f:kubectl.kubernetes.io/last-applied-configuration: {}}}, f:spec: {f:a: {}}}"),
			entry("leat", "Apply", ours, "", "{f:spec: {f:a: {}}}"),
		},
		"another version": {
			entry("helm", "Update", v0, "", "{f:spec: {f:a: {}, f:gone: {}, f:list: {'k:{\"name\":\"x\"}': {.: {}, f:v: {}, f:gone: {}}, 'k:{\"name\":\"y\"}': {.: {}}}, f:set: {'v:\"s\"': {}, 'v:\"t\"': {}}}}"),
			entry("leat", "Apply", ours, "", "{f:spec: {f:a: {}, f:list: {'k:{\"name\":\"x\"}': {.: {}, f:v: {}}}, f:set: {'v:\"s\"': {}}}}"),
		},
	} {
		live := object(t, test.from)
		before := live.DeepCopy()
		got, changed := fields.HandOver(live, "example.test/v1")
		if want := test.want != ""; changed != want {
			t.Errorf("%s: got %v, want %v", name, changed, want)
		} else if changed {
			want, _, _ := unstructured.NestedSlice(object(t, test.want).Object, "metadata", "managedFields")
			assertEqual(t, name, want, got)
		}
		assertEqual(t, name+" leaves the original", before.Object, live.Object)
	}
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	const v1, v0, v00 = "example.test/v1", "example.test/v0", "example.test/v00"
	gone := func(version string) bool { return version != v1 }
	for name, test := range map[string]struct{ from, want string }{
		"nothing": {entry("leat", "Apply", v1, "", "{f:spec: {f:a: {}}}"), ""},
		"ours":    {entry("leat", "Apply", v0, "", "{f:spec: {f:a: {}, f:gone: {}}}"), entry("leat", "Apply", v1, "", "{f:spec: {f:a: {}}}")},
		"of others": {
			entry("leat", "Apply", v1, "", "{f:spec: {f:a: {}}}") + "," + entry("x", "Update", v0, "status", "{f:spec: {f:b: {}}}"),
			entry("leat", "Apply", v1, "", "{f:spec: {f:a: {}}}") + "," + entry("x", "Update", v1, "status", "{f:spec: {f:b: {}}}"),
		},
		"duplicates": {
			entry("x", "Update", v0, "", "{f:spec: {f:b: {}}}") + "," + entry("x", "Update", v1, "", "{f:spec: {f:a: {}}}") + "," + entry("x", "Update", v00, "status", "{f:spec: {f:a: {}}}"),
			entry("x", "Update", v1, "", "{f:spec: {f:a: {}, f:b: {}}}") + "," + entry("x", "Update", v1, "status", "{f:spec: {f:a: {}}}"),
		},
	} {
		got, changed := fields.Migrate(object(t, test.from), v1, gone)
		if want := test.want != ""; changed != want {
			t.Errorf("%s: got %v, want %v", name, changed, want)
		} else if changed {
			want, _, _ := unstructured.NestedSlice(object(t, test.want).Object, "metadata", "managedFields")
			assertEqual(t, name, want, got)
		}
	}
}

// TestHandedOverIsUnited compares what two deployers hand over with what the API server's own code
// takes for the union.
func TestHandedOverIsUnited(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := newServer(t)
		for _, manager := range []string{"helm", "kubectl", "leat"} {
			if err := s.apply(t, manager, drawThing(t), true); err != nil {
				t.Fatalf("apply: %v", err)
			}
		}
		want := fieldpath.NewSet()
		live := s.live(t)
		for _, e := range live.GetManagedFields() {
			want = want.Union(setOf(t, e.FieldsV1.GetRawBytes()))
		}
		handed, changed := fields.HandOver(live, "example.test/v1")
		if !changed {
			return // neither has set anything
		}
		if err := unstructured.SetNestedSlice(live.Object, handed, "metadata", "managedFields"); err != nil {
			t.Fatalf("set: %v", err)
		}
		after := live.GetManagedFields()
		if len(after) != 1 || !setOf(t, after[0].FieldsV1.GetRawBytes()).Equals(want) {
			t.Fatalf("handed over: got %v, want one entry with %v", after, want)
		}
	})
}

func setOf(t *rapid.T, raw []byte) *fieldpath.Set {
	set := fieldpath.NewSet()
	if err := set.FromJSON(bytes.NewReader(raw)); err != nil {
		t.Fatalf("read set: %v", err)
	}
	return set
}
