// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/document"
)

// Entry says what became of an object.
type Entry struct {
	// Object is kind and name, such as Application argocd/shop.
	Object string `json:"object"`
	// Origin is the file and the line where the object begins, or the cluster.
	Origin string `json:"origin"`
	// Documents are the documents that it became or is part of, such as service/shop. Empty: it is not imported.
	Documents []string `json:"documents"`
	// Notes are sorted by their grade. Those of an object that is not imported say why, and nothing else.
	Notes []Note `json:"notes"`
}

// Object is an object of another tool.
type Object struct {
	// Kind, Namespace and Name are as in the object; Group is the one of its API.
	Group, Kind, Namespace, Name string
	Labels, Annotations          map[string]string
	Finalizers                   []string
	// Owners are the kinds and names of the objects that made it, such as ApplicationSet shop.
	Owners []string
	// Origin is the file and the line where it begins, or the cluster.
	Origin string
	// Fields are all fields but those that say what it is.
	Fields *Fields
}

// String returns kind, namespace and name, for people.
func (o Object) String() string {
	return Line(o.Kind + " " + strings.TrimPrefix(o.Namespace+"/"+o.Name, "/"))
}

// NewObject returns an object that was found at a place.
func NewObject(u *unstructured.Unstructured, origin string) Object {
	o := Object{
		Group: u.GroupVersionKind().Group, Kind: u.GetKind(), Namespace: u.GetNamespace(), Name: u.GetName(), Labels: u.GetLabels(),
		Annotations: u.GetAnnotations(), Finalizers: u.GetFinalizers(), Origin: origin, Fields: NewFields(u.Object),
	}
	for _, owner := range u.GetOwnerReferences() {
		o.Owners = append(o.Owners, owner.Kind+" "+owner.Name)
	}
	o.Fields.Skip("apiVersion", "kind", "metadata", "status")
	return o
}

// Finish returns the entry of an object whose fields were read, with the documents that it became. A field that was not
// read is Missing: the translation does not know what it does. An object without a document needs a note that is
// Refused, unless only a person can act on it.
func (o Object) Finish(documents ...*fleetv1.Document) Entry {
	entry := Entry{Object: o.String(), Origin: o.Origin, Documents: []string{}}
	for _, d := range documents {
		entry.Documents = append(entry.Documents, ID(d))
	}
	entry.Notes = o.Fields.finish(len(documents) > 0)
	return entry
}

// ID returns the name of a document, as commands take it, such as service/shop.
func ID(d *fleetv1.Document) string {
	kind, name := document.Identify(d)
	return strings.ToLower(kind) + "/" + name
}
