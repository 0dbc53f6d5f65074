// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/leatdev/leat/cli/internal/kubeclient"
)

// pageSize is the number of objects in one answer.
const pageSize = 500

// Kind is a kind of objects to list in a cluster.
type Kind struct {
	schema.GroupKind

	// Selector selects objects by labels. Empty: all.
	Selector string
}

// List returns the objects of a tool in a cluster, in all namespaces. A kind that the cluster does not have has none, and one that
// the caller may not list has an entry of its own.
func List(ctx context.Context, tool Tool, config *rest.Config, kinds []Kind) (objects []Object, unread []Entry, err error) {
	config = kubeclient.Bounded(config)
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	finder, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	groups, err := restmapper.GetAPIGroupResources(finder)
	if err != nil {
		return nil, nil, fmt.Errorf("read the kinds that the cluster serves: %w", err)
	}
	mapper := restmapper.NewDiscoveryRESTMapper(groups)
	r := &reader{tool: tool}
	for _, kind := range kinds {
		mapping, err := mapper.RESTMapping(kind.GroupKind)
		if meta.IsNoMatchError(err) {
			continue
		}
		if err != nil {
			return nil, nil, fmt.Errorf("find the kind %s: %w", kind.Kind, err)
		}
		resource := mapping.Resource.GroupResource().String()
		switch err := r.list(ctx, client.Resource(mapping.Resource), kind); {
		case apierrors.IsForbidden(err):
			r.fail(resource, "you may not list "+resource+" in all namespaces of the cluster")
		case err != nil:
			return nil, nil, fmt.Errorf("list %s: %w", resource, err)
		}
	}
	return r.objects, r.unread, nil
}

// list takes the objects of a kind, page by page.
func (r *reader) list(ctx context.Context, from dynamic.ResourceInterface, kind Kind) error {
	options := metav1.ListOptions{LabelSelector: kind.Selector, Limit: pageSize}
	for {
		page, err := from.List(ctx, options)
		if err != nil {
			return err
		}
		for i := range page.Items {
			if err := r.take(&page.Items[i], "the cluster"); err != nil {
				return err
			}
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return nil
		}
	}
}
