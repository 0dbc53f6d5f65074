// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package order

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// rank orders the objects of a stage: each may need objects of lower ranks.
type rank int

const (
	foundation    rank = iota // namespaces and definitions
	configuration             // configuration, identity, storage and network of workloads
	workload                  // everything else, custom resources included
	admission                 // webhooks and policies, which could refuse the rest of the stage
)

func rankOf(o *unstructured.Unstructured) rank {
	kind := o.GroupVersionKind().GroupKind()
	switch {
	case isFoundation(o):
		return foundation
	case kind.Group == "admissionregistration.k8s.io":
		return admission
	case slices.Contains([]string{"rbac.authorization.k8s.io", "storage.k8s.io", "scheduling.k8s.io", "node.k8s.io", "policy"}, kind.Group),
		slices.Contains(configurations(), kind):
		return configuration
	default:
		return workload
	}
}

func configurations() []schema.GroupKind {
	return []schema.GroupKind{
		{Kind: "ResourceQuota"},
		{Kind: "LimitRange"},
		{Kind: "ServiceAccount"},
		{Kind: "Secret"},
		{Kind: "ConfigMap"},
		{Kind: "PersistentVolume"},
		{Kind: "PersistentVolumeClaim"},
		{Kind: "Service"},
		{Kind: "Endpoints"},
		{Group: "networking.k8s.io", Kind: "NetworkPolicy"},
		{Group: "networking.k8s.io", Kind: "IngressClass"},
		{Group: "discovery.k8s.io", Kind: "EndpointSlice"},
	}
}

func isFoundation(o *unstructured.Unstructured) bool {
	kind := o.GroupVersionKind().GroupKind()
	return kind == schema.GroupKind{Kind: "Namespace"} || kind == definition()
}

func definition() schema.GroupKind {
	return schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}
}

// definedBy returns the kind that o defines, in the form of schema.GroupKind.String, or "" if o is
// not a definition.
func definedBy(o *unstructured.Unstructured) string {
	if o.GroupVersionKind().GroupKind() != definition() {
		return ""
	}
	group, _, _ := unstructured.NestedString(o.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(o.Object, "spec", "names", "kind")
	return schema.GroupKind{Group: group, Kind: kind}.String()
}
