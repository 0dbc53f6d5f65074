// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"regexp"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/json"

	"github.com/leatdev/leat/render"
)

// ownSchemas compares objects with the schemas of Kubernetes' own kinds.
type ownSchemas struct{ converter managedfields.TypeConverter }

func newOwnSchemas() ownSchemas {
	return ownSchemas{converter: applyconfigurations.NewTypeConverter(scheme.Scheme)}
}

// check returns the defects of an object of one of Kubernetes' own kinds. The schema finds unknown
// fields and values of a wrong type. Decoding also finds values that are wrong in themselves, such
// as quantities, but only the first, and is asked if the schema finds nothing.
func (s ownSchemas) check(o render.Object) (found []Finding) {
	fields, hasSchema := compare(s.converter, o)
	for _, v := range fields {
		found = append(found, findingOf(o, v.field, v.message))
	}
	unknown, err := decode(o)
	for _, field := range unknown {
		if !hasSchema {
			found = append(found, findingOf(o, field, unknownField))
		}
	}
	if err != nil && len(found) == 0 {
		found = append(found, findingOf(o, "", plainDecodeError(err)))
	}
	return found
}

// compare returns how an object differs from the schema of its kind. It returns false if there is
// none.
func compare(converter managedfields.TypeConverter, o render.Object) (found []violation, hasSchema bool) {
	typed, err := converter.ObjectToTyped(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": o.GetAPIVersion(), "kind": o.GetKind(),
	}})
	if err != nil {
		return nil, false
	}
	w := walker{schema: typed.Schema()}
	w.value("", typed.TypeRef(), o.Object)
	return w.found, true
}

// decode returns the unknown fields of an object, and the first error about a value.
func decode(o render.Object) (unknown []string, err error) {
	object := newObject(o.GroupVersionKind())
	if object == nil {
		return nil, nil // its types are gone, and its lifecycle is all that is known
	}
	text, err := o.MarshalJSON()
	if err != nil {
		return nil, err
	}
	strict, err := json.UnmarshalStrict(text, object, json.DisallowUnknownFields)
	for _, problem := range strict {
		if field := unknownName.FindStringSubmatch(problem.Error()); field != nil {
			unknown = append(unknown, field[1])
		}
	}
	return unknown, err
}

var (
	unknownName = regexp.MustCompile(`unknown field "(.*)"$`)
	decodeWhere = regexp.MustCompile(`^json: cannot unmarshal (\w+).* into Go struct field \w+\.(\S+) of type (\S+)$`)
)

// newObject returns an empty object of one of Kubernetes' own kinds, or nil if its type is not linked.
func newObject(gvk schema.GroupVersionKind) runtime.Object {
	if gvk == apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition") {
		return &apiextensionsv1.CustomResourceDefinition{}
	}
	if object, err := scheme.Scheme.New(gvk); err == nil {
		return object
	}
	return nil
}

// plainDecodeError returns an error of decoding without the names of Go types.
func plainDecodeError(err error) string {
	if parts := decodeWhere.FindStringSubmatch(err.Error()); parts != nil {
		return parts[2] + ": want " + parts[3] + ", got " + parts[1]
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}
