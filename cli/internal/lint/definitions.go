// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/leatdev/leat/render"
)

// definitions are the CustomResourceDefinitions among the objects, by what they define.
type definitions map[schema.GroupKind]definition

// definition is one of them: a converter for each version. A nil converter is one without a schema.
type definition map[string]version

type version struct {
	served    bool
	converter managedfields.TypeConverter
}

// add adds an object if it is a definition. It returns the defects of the schema.
func (d definitions) add(o render.Object) (found []Finding) {
	if (o.GroupVersionKind() != schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}) {
		return nil
	}
	group, _, _ := unstructured.NestedString(o.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(o.Object, "spec", "names", "kind")
	all, _, _ := unstructured.NestedSlice(o.Object, "spec", "versions")
	defined := definition{}
	for i, item := range all {
		fields, _ := item.(map[string]any)
		name, _, _ := unstructured.NestedString(fields, "name")
		served, _, _ := unstructured.NestedBool(fields, "served")
		tree, _, _ := unstructured.NestedMap(fields, "schema", "openAPIV3Schema")
		v := version{served: served}
		if tree != nil {
			var err error
			if v.converter, err = converterOf(schema.GroupVersionKind{Group: group, Version: name, Kind: kind}, tree); err != nil {
				found = append(found, findingOf(o, fmt.Sprintf("spec.versions[%d].schema.openAPIV3Schema", i), err.Error()))
			}
		}
		defined[name] = v
	}
	d[schema.GroupKind{Group: group, Kind: kind}] = defined
	return found
}

// converterOf returns the converter of one version's schema.
func converterOf(gvk schema.GroupVersionKind, tree map[string]any) (managedfields.TypeConverter, error) {
	text, err := json.Marshal(tree)
	if err != nil {
		return nil, err
	}
	var s spec.Schema
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, err
	}
	if s.Properties != nil { // without, every field is allowed
		s.Properties["apiVersion"], s.Properties["kind"] = *spec.StringProperty(), *spec.StringProperty()
		s.Properties["metadata"] = *spec.MapProperty(nil) // the renderer has checked it
	}
	s.AddExtension("x-kubernetes-group-version-kind", []any{
		map[string]any{"group": gvk.Group, "version": gvk.Version, "kind": gvk.Kind},
	})
	return managedfields.NewTypeConverter(map[string]*spec.Schema{gvk.String(): &s}, false)
}

// check returns the defects of an object of a definition. It returns false if no definition with a
// schema is known.
func (d definitions) check(o render.Object) (found []Finding, hasSchema bool) {
	gvk := o.GroupVersionKind()
	defined, ok := d[gvk.GroupKind()]
	if !ok {
		return nil, false
	}
	v, ok := defined[gvk.Version]
	if !ok || !v.served {
		return []Finding{findingOf(o, "apiVersion", fmt.Sprintf("the definition of %s serves no version %q", gvk.GroupKind(), gvk.Version))}, true
	}
	if v.converter == nil {
		return nil, false
	}
	fields, hasSchema := compare(v.converter, o)
	for _, f := range fields {
		found = append(found, findingOf(o, f.field, f.message))
	}
	return found, hasSchema
}
