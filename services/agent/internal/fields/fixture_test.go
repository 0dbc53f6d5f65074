// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fields_test

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields/managedfieldstest"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/yaml"

	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/agent/internal/fields"
)

// things is the schema of a kind that has fields of every sort that server-side apply knows.
const things = `
types:
- name: thing
  map:
    fields:
    - {name: apiVersion, type: {scalar: string}}
    - {name: kind, type: {scalar: string}}
    - {name: metadata, type: {namedType: metadata}}
    - {name: spec, type: {namedType: spec}}
    - {name: data, type: {map: {elementType: {scalar: string}}}}
- name: metadata
  map:
    fields:
    - {name: name, type: {scalar: string}}
    - {name: managedFields, type: {namedType: __untyped}}
    - {name: labels, type: {map: {elementType: {scalar: string}}}}
    - {name: annotations, type: {map: {elementType: {scalar: string}}}}
    - {name: finalizers, type: {list: {elementType: {scalar: string}, elementRelationship: associative}}}
- name: spec
  map:
    fields:
    - {name: replicas, type: {scalar: numeric}}
    - {name: paused, type: {scalar: boolean}}
    - {name: selector, type: {map: {elementType: {scalar: string}, elementRelationship: atomic}}}
    - {name: rules, type: {list: {elementType: {namedType: __untyped}, elementRelationship: atomic}}}
    - {name: limits, type: {map: {elementType: {scalar: untyped}}}}
    - {name: items, type: {list: {elementType: {namedType: item}, elementRelationship: associative, keys: [name]}}}
- name: item
  map:
    fields:
    - {name: name, type: {scalar: string}}
    - {name: image, type: {scalar: string}}
    - {name: size, type: {scalar: numeric}}
    - {name: env, type: {list: {elementType: {namedType: variable}, elementRelationship: associative, keys: [name]}}}
- name: variable
  map:
    fields:
    - {name: name, type: {scalar: string}}
    - {name: value, type: {scalar: string}}
- name: __untyped
  scalar: untyped
  list: {elementType: {namedType: __untyped}, elementRelationship: atomic}
  map: {elementType: {namedType: __untyped}, elementRelationship: atomic}
`

// server is the part of an API server that merges what managers apply: the real one.
type server struct {
	manager managedfieldstest.TestFieldManager
}

// converter makes typed values of things.
type converter struct{ thing typed.ParseableType }

func (c converter) ObjectToTyped(o runtime.Object, options ...typed.ValidationOptions) (*typed.TypedValue, error) {
	return c.thing.FromUnstructured(o.(*unstructured.Unstructured).Object, options...)
}

func (c converter) TypedToObject(value *typed.TypedValue) (runtime.Object, error) {
	object, _ := value.AsValue().Unstructured().(map[string]any)
	return &unstructured.Unstructured{Object: object}, nil
}

// fataler is a test, or an attempt of a property.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// parser is the schema as the merge code wants it; it is slow to read.
var parser = sync.OnceValues(func() (*typed.Parser, error) { return typed.NewParser(things) })

func newServer(t fataler) *server {
	t.Helper()
	parser, err := parser()
	if err != nil {
		t.Fatalf("read schema: %v", err)
	}
	gvk := schema.GroupVersionKind{Group: "example.test", Version: "v1", Kind: "Thing"}
	return &server{manager: managedfieldstest.NewTestFieldManager(converter{parser.Type("thing")}, gvk)}
}

// apply applies a manifest as a manager.
func (s *server) apply(t fataler, manager string, o *unstructured.Unstructured, force bool) error {
	t.Helper()
	o = o.DeepCopy()
	o.SetManagedFields(nil)
	return s.manager.Apply(o, manager, force)
}

func (s *server) mustApply(t fataler, manager, text string) {
	t.Helper()
	if err := s.apply(t, manager, thing(t, text), true); err != nil {
		t.Fatalf("apply as %s: %v", manager, err)
	}
}

// edit changes the object as a client does that sends all of it.
func (s *server) edit(t fataler, manager string, change func(o *unstructured.Unstructured)) {
	t.Helper()
	o := s.live(t)
	change(o)
	if err := s.manager.Update(o, manager); err != nil {
		t.Fatalf("update as %s: %v", manager, err)
	}
}

func (s *server) set(t fataler, manager string, value any, path ...string) {
	t.Helper()
	s.edit(t, manager, func(o *unstructured.Unstructured) {
		if err := unstructured.SetNestedField(o.Object, value, path...); err != nil {
			t.Fatalf("set %v: %v", path, err)
		}
	})
}

// live is the object as a client receives it.
func (s *server) live(t fataler) *unstructured.Unstructured {
	t.Helper()
	text, err := json.Marshal(s.manager.Live())
	if err != nil {
		t.Fatalf("encode: %v", err)
	}
	return decoded(t, text)
}

func parsed(t fataler, text string) *unstructured.Unstructured {
	t.Helper()
	encoded, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatalf("read %s: %v", text, err)
	}
	return decoded(t, encoded)
}

func decoded(t fataler, text []byte) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON(text); err != nil {
		t.Fatalf("read %s: %v", text, err)
	}
	return o
}

// thing completes the special part of a manifest.
func thing(t fataler, text string) *unstructured.Unstructured {
	t.Helper()
	o := decoded(t, []byte(`{"apiVersion": "example.test/v1", "kind": "Thing"}`))
	var fields map[string]any
	if err := yaml.Unmarshal([]byte(text), &fields); err != nil {
		t.Fatalf("read %s: %v", text, err)
	}
	encoded, err := json.Marshal(fields)
	if err != nil {
		t.Fatalf("encode: %v", err)
	}
	for name, value := range decoded(t, fmt.Appendf(nil, `{"apiVersion": "a", "kind": "b", "all": %s}`, encoded)).Object["all"].(map[string]any) {
		o.Object[name] = value
	}
	metadata, _ := o.Object["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
	}
	metadata["name"] = "x"
	o.Object["metadata"] = metadata
	return o
}

// ignore compiles one rule for everything.
func ignore(t fataler, o *unstructured.Unstructured, rule syncpolicy.IgnoreRule) fields.Ignored {
	t.Helper()
	rules, err := fields.Compile([]syncpolicy.IgnoreRule{rule})
	if err != nil {
		t.Fatalf("compile %v: %v", rule, err)
	}
	ignored, err := rules.Of(o)
	if err != nil {
		t.Fatalf("find rules: %v", err)
	}
	return ignored
}

func assertThing(t *testing.T, want string, got *unstructured.Unstructured) {
	t.Helper()
	if diff := cmp.Diff(thing(t, want).Object, got.Object); diff != "" {
		t.Errorf("object (-want +got):\n%s", diff)
	}
}
