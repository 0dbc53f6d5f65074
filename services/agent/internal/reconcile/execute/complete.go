// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package execute

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/plan"
)

// complete returns a copy of o with its namespace and the service's labels, and without the fields
// that an apply must not contain. The error is ProjectForbidden if the service's project does not allow
// the object.
func complete(ctx context.Context, cluster k8s.Reader, s plan.Service, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	isNamespaced, err := cluster.Namespaced(ctx, o.GroupVersionKind())
	if err == nil {
		err = admitObject(s, o, isNamespaced)
	}
	if err != nil {
		return nil, err
	}
	o = o.DeepCopy()
	switch {
	case !isNamespaced:
		o.SetNamespace("")
	case o.GetNamespace() == "":
		o.SetNamespace(s.Spec.NamespaceOrDefault())
	}
	labels := o.GetLabels()
	if len(labels) == 0 {
		labels = defaultLabels(o)
	}
	k8s.Mark(labels, s.Name)
	o.SetLabels(labels)
	unstructured.RemoveNestedField(o.Object, "status")
	unstructured.RemoveNestedField(o.Object, "metadata", "managedFields")
	return o, nil
}

// defaultLabels returns the labels that the API server gives an object without labels, which Leat's
// own label would prevent: a ReplicationController gets the labels of its template.
func defaultLabels(o *unstructured.Unstructured) map[string]string {
	if o.GetAPIVersion() != "v1" || o.GetKind() != "ReplicationController" {
		return map[string]string{}
	}
	labels, _, err := unstructured.NestedStringMap(o.Object, "spec", "template", "metadata", "labels")
	if err != nil || labels == nil {
		return map[string]string{}
	}
	return labels
}
