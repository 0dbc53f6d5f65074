// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kubeapi

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// The groups of Kubernetes whose types are not in client-go's scheme.
const (
	apiExtensions   = "apiextensions.k8s.io"
	apiRegistration = "apiregistration.k8s.io"
)

// These are the methods that the generated code of k8s.io/api
// (zz_generated.prerelease-lifecycle.go) adds to types.
type (
	introduced interface {
		APILifecycleIntroduced() (major, minor int)
	}
	deprecated interface {
		APILifecycleDeprecated() (major, minor int)
	}
	removed interface {
		APILifecycleRemoved() (major, minor int)
	}
	replaced interface {
		APILifecycleReplacement() schema.GroupVersionKind
	}
)

// lifecycleOf returns the lifecycle of an API of Kubernetes. It returns false for others.
func lifecycleOf(gvk schema.GroupVersionKind) (API, bool) {
	if api, ok := others()[gvk]; ok {
		return api, true
	}
	object, err := scheme.Scheme.New(gvk)
	if err != nil {
		return API{}, false
	}
	var api API
	if o, ok := object.(introduced); ok {
		api.Introduced.Major, api.Introduced.Minor = o.APILifecycleIntroduced()
	}
	if o, ok := object.(deprecated); ok {
		api.Deprecated.Major, api.Deprecated.Minor = o.APILifecycleDeprecated()
	}
	if o, ok := object.(removed); ok {
		api.Removed.Major, api.Removed.Minor = o.APILifecycleRemoved()
	}
	if o, ok := object.(replaced); ok {
		api.Replacement = o.APILifecycleReplacement()
	}
	return api, true
}

// others returns the APIs whose types are not in client-go's scheme: the APIs of API extensions,
// and the APIs whose types were removed. Sources: the generated lifecycles of Kubernetes 1.21 and
// 1.24, and for alpha versions, which had none, the comments on their types.
func others() map[schema.GroupVersionKind]API {
	gvk := func(group, version, kind string) schema.GroupVersionKind {
		return schema.GroupVersionKind{Group: group, Version: version, Kind: kind}
	}
	past := func(came, deprecated, gone int, replacement schema.GroupVersionKind) API {
		return API{
			Introduced: Version{1, came}, Deprecated: Version{1, deprecated}, Removed: Version{1, gone}, Replacement: replacement,
		}
	}
	definition, service := gvk(apiExtensions, "v1", "CustomResourceDefinition"), gvk(apiRegistration, "v1", "APIService")
	autoscaler := gvk("autoscaling", "v2", "HorizontalPodAutoscaler")
	none := schema.GroupVersionKind{}
	all := map[schema.GroupVersionKind]API{
		definition: {Introduced: Version{1, 16}},
		service:    {Introduced: Version{1, 10}},
		gvk(apiExtensions, "v1beta1", "CustomResourceDefinition"): past(7, 16, 22, definition),
		gvk(apiRegistration, "v1beta1", "APIService"):             past(7, 19, 22, service),
		gvk("autoscaling", "v2beta1", "HorizontalPodAutoscaler"):  past(8, 22, 25, autoscaler),
		gvk("autoscaling", "v2beta2", "HorizontalPodAutoscaler"):  past(12, 23, 26, autoscaler),
		gvk("batch", "v2alpha1", "CronJob"):                       past(5, 8, 21, gvk("batch", "v1", "CronJob")),
		gvk("extensions", "v1beta1", "PodSecurityPolicy"):         past(2, 11, 16, gvk("policy", "v1beta1", "PodSecurityPolicy")),
		gvk("policy", "v1beta1", "PodSecurityPolicy"):             past(10, 21, 25, none),
		gvk("scheduling.k8s.io", "v1alpha1", "PriorityClass"):     past(8, 14, 22, gvk("scheduling.k8s.io", "v1", "PriorityClass")),
	}
	for _, kind := range []string{"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"} {
		all[gvk("rbac.authorization.k8s.io", "v1alpha1", kind)] = past(5, 17, 22, gvk("rbac.authorization.k8s.io", "v1", kind))
	}
	return all
}
