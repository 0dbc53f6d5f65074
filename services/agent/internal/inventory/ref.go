// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"cmp"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Key identifies an object in a cluster. It does not include the API version, because the same
// object can be read and written in several. Keys are comparable.
type Key struct {
	Group     string // empty for the core group
	Kind      string
	Namespace string // empty for cluster-scoped objects
	Name      string
}

// Ref is a Key and the API version in which the object was last written.
type Ref struct {
	Key

	Version string
}

// RefOf returns the reference of obj. It returns the namespace in obj, even if the kind turns out
// to have no namespaces, which only the cluster can answer.
func RefOf(obj *unstructured.Unstructured) Ref {
	gvk := obj.GroupVersionKind()
	return Ref{
		Key:     Key{Group: gvk.Group, Kind: gvk.Kind, Namespace: obj.GetNamespace(), Name: obj.GetName()},
		Version: gvk.Version,
	}
}

// GroupKind returns the kind without the version.
func (k Key) GroupKind() schema.GroupKind {
	return schema.GroupKind{Group: k.Group, Kind: k.Kind}
}

// GroupVersionKind returns the kind with the version.
func (r Ref) GroupVersionKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
}

// String names the object for people: "Deployment.apps web/frontend".
func (k Key) String() string {
	kind := k.Kind
	if k.Group != "" {
		kind += "." + k.Group
	}
	if k.Namespace == "" {
		return kind + " " + k.Name
	}
	return kind + " " + k.Namespace + "/" + k.Name
}

// Compare orders keys by group, kind, namespace, name.
func (k Key) Compare(other Key) int {
	return cmp.Or(
		strings.Compare(k.Group, other.Group),
		strings.Compare(k.Kind, other.Kind),
		strings.Compare(k.Namespace, other.Namespace),
		strings.Compare(k.Name, other.Name),
	)
}
