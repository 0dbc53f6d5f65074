// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/leatdev/leat/services/agent/internal/inventory"
)

// Contents returns at most this many objects, and requests as many at once.
const (
	contentsEnough = 5
	contentsPage   = 100
)

// Contents implements reconcile.Cluster.
func (c *Client) Contents(ctx context.Context, container inventory.Ref) ([]inventory.Object, error) {
	if c.agent != nil { // objects that an account cannot see would be deleted, too
		return lister{agent: c.agent, tenant: c}.contents(ctx, container)
	}
	return lister{agent: c}.contents(ctx, container)
}

// lister lists as the agent, and a kind that the agent may not list as the tenant, if there is one.
// Both see the same: the right to list a kind is about all of its objects in the namespace.
type lister struct{ agent, tenant *Client }

func (l lister) contents(ctx context.Context, container inventory.Ref) ([]inventory.Object, error) {
	resources, namespace := []listed(nil), ""
	var err error
	if container.Kind == "Namespace" {
		namespace = container.Name
		resources, err = l.agent.namespacedResources(ctx)
	} else {
		resources, err = l.agent.instances(ctx, container)
	}
	if err != nil {
		return nil, err
	}
	var found []inventory.Object
	for _, resource := range resources {
		if found, err = l.collect(ctx, resource, namespace, found); err != nil || len(found) >= contentsEnough {
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

// instances returns the resource that a definition defines.
func (c *Client) instances(ctx context.Context, definition inventory.Ref) ([]listed, error) {
	live, err := c.Get(ctx, definition)
	if err != nil {
		return nil, err
	}
	served, plural := servedBy(live)
	if len(served) == 0 {
		return nil, nil // objects that no version serves cannot be read
	}
	return []listed{{served[0].GroupVersion().WithResource(plural), served[0].Kind}}, nil
}

// namespacedResources returns all resources whose objects live in namespaces. It fails if discovery
// is incomplete: the missing resources might hold objects that must not be deleted.
func (c *Client) namespacedResources(ctx context.Context) (all []listed, err error) {
	lists, err := request(ctx, c, "APIResourceList", func(context.Context) ([]*metav1.APIResourceList, error) {
		return c.discovery.ServerPreferredNamespacedResources()
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
			if slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "delete") && !isDerived(version.Group, r.Kind) {
				all = append(all, listed{version.WithResource(r.Name), r.Kind})
			}
		}
	}
	return all, nil
}

// isDerived reports whether objects of a kind only describe others.
func isDerived(group, kind string) bool {
	return kind == "Event" && (group == "" || group == "events.k8s.io") || kind == "Endpoints" && group == "" ||
		strings.HasSuffix(group, "metrics.k8s.io")
}

// collect adds the objects of one resource in a namespace, or in the cluster if namespace is "".
func (l lister) collect(ctx context.Context, resource listed, namespace string, found []inventory.Object) ([]inventory.Object, error) {
	options := metav1.ListOptions{Limit: contentsPage}
	for {
		page, err := request(ctx, l.agent, resource.kind, func(ctx context.Context) (*unstructured.UnstructuredList, error) {
			page, err := l.agent.dynamic.Resource(resource.GroupVersionResource).Namespace(namespace).List(ctx, options)
			if apierrors.IsForbidden(err) && l.tenant != nil {
				return l.tenant.dynamic.Resource(resource.GroupVersionResource).Namespace(namespace).List(ctx, options)
			}
			return page, err
		})
		if err != nil {
			return nil, err
		}
		for _, item := range page.Items {
			if !isProvided(&item) {
				item.SetGroupVersionKind(resource.GroupVersion().WithKind(resource.kind))
				found = append(found, inventory.Object{Ref: inventory.RefOf(&item), UID: string(item.GetUID())})
			}
		}
		if options.Continue = page.GetContinue(); options.Continue == "" || len(found) >= contentsEnough {
			return found, nil
		}
	}
}

// isProvided reports whether the object need not be kept: it is being deleted, its owner takes it
// along, or the cluster creates it in every namespace.
func isProvided(o *unstructured.Unstructured) bool {
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
