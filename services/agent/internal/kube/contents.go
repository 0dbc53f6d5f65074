// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/leatdev/leat/services/agent/internal/inventory"
)

// contentsEnough is how many objects Contents names, and how many it asks for at once.
const (
	contentsEnough = 5
	contentsPage   = 100
)

// Contents implements reconcile.Cluster.
func (c *Client) Contents(ctx context.Context, container inventory.Ref) ([]inventory.Object, error) {
	if c.agent != nil {
		return c.agent.Contents(ctx, container) // what an account cannot see would go, too
	}
	resources, namespace := []listed(nil), ""
	var err error
	if container.Kind == "Namespace" {
		namespace = container.Name
		resources, err = c.namespacedResources(ctx)
	} else {
		resources, err = c.instances(ctx, container)
	}
	if err != nil {
		return nil, err
	}
	var found []inventory.Object
	for _, resource := range resources {
		if found, err = c.collect(ctx, resource, namespace, found); err != nil || len(found) >= contentsEnough {
			return found, err
		}
	}
	return found, nil
}

// listed is a resource that can be listed, and the kind of its objects.
type listed struct {
	schema.GroupVersionResource

	kind string
}

// instances is the resource that a definition defines.
func (c *Client) instances(ctx context.Context, definition inventory.Ref) ([]listed, error) {
	live, err := c.Get(ctx, definition)
	if err != nil {
		return nil, err
	}
	group, _, _ := unstructured.NestedString(live.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(live.Object, "spec", "names", "plural")
	kind, _, _ := unstructured.NestedString(live.Object, "spec", "names", "kind")
	versions, _, _ := unstructured.NestedSlice(live.Object, "spec", "versions")
	for _, item := range versions {
		version, _ := item.(map[string]any)
		if name, _ := version["name"].(string); version["served"] == true {
			return []listed{{schema.GroupVersionResource{Group: group, Version: name, Resource: plural}, kind}}, nil
		}
	}
	return nil, nil // what no version serves nobody can read
}

// namespacedResources are all whose objects live in namespaces. That some cannot be found out is an error: they might hold what
// must not go.
func (c *Client) namespacedResources(ctx context.Context) (all []listed, err error) {
	var lists []*metav1.APIResourceList
	err = c.try(ctx, "APIResourceList", func(context.Context) error {
		lists, err = c.discovery.ServerPreferredNamespacedResources()
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, rejectedf("the API server names a version that cannot be read: %v", err)
		}
		for _, r := range list.APIResources {
			if slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "delete") && !derived(version.Group, r.Kind) {
				all = append(all, listed{version.WithResource(r.Name), r.Kind})
			}
		}
	}
	return all, nil
}

// derived tells kinds whose objects only tell of others.
func derived(group, kind string) bool {
	return kind == "Event" && (group == "" || group == "events.k8s.io") || kind == "Endpoints" && group == "" ||
		strings.HasSuffix(group, "metrics.k8s.io")
}

// collect adds what a namespace, or with "" the cluster, holds of one resource.
func (c *Client) collect(ctx context.Context, resource listed, namespace string, found []inventory.Object) ([]inventory.Object, error) {
	options := metav1.ListOptions{Limit: contentsPage}
	for {
		var page *unstructured.UnstructuredList
		err := c.try(ctx, resource.kind, func(ctx context.Context) (err error) {
			page, err = c.dynamic.Resource(resource.GroupVersionResource).Namespace(namespace).List(ctx, options)
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, item := range page.Items {
			if !provided(&item) {
				item.SetGroupVersionKind(resource.GroupVersion().WithKind(resource.kind))
				found = append(found, inventory.Object{Ref: inventory.RefOf(&item), UID: string(item.GetUID())})
			}
		}
		if options.Continue = page.GetContinue(); options.Continue == "" || len(found) >= contentsEnough {
			return found, nil
		}
	}
}

// provided tells objects that nobody has to miss: those that are going, that an owner takes along, or that the cluster puts into
// every namespace.
func provided(o *unstructured.Unstructured) bool {
	if o.GetDeletionTimestamp() != nil || len(o.GetOwnerReferences()) > 0 {
		return true
	}
	switch o.GetKind() {
	case "ConfigMap":
		return slices.Contains([]string{"kube-root-ca.crt", "istio-ca-root-cert", "openshift-service-ca.crt"}, o.GetName())
	case "ServiceAccount":
		return o.GetName() == "default"
	case "Secret":
		return o.GetAnnotations()["kubernetes.io/service-account.name"] != ""
	default:
		return false
	}
}
