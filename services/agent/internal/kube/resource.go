// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/leatdev/leat/services/agent/internal/inventory"
)

// Namespaced implements reconcile.Cluster.
func (c *Client) Namespaced(ctx context.Context, kind schema.GroupVersionKind) (bool, error) {
	mapping, err := c.mapping(ctx, kind)
	if err != nil {
		return false, err
	}
	return mapping.Scope.Name() == meta.RESTScopeNameNamespace, nil
}

// mapping returns the resource of a kind, with the errors of reconcile.Cluster.
func (c *Client) mapping(ctx context.Context, kind schema.GroupVersionKind) (*meta.RESTMapping, error) {
	return request(ctx, c, kind.Kind, func(ctx context.Context) (*meta.RESTMapping, error) { return c.kinds.mapping(ctx, kind) })
}

// resource returns a client for the resource that holds ref.
func (c *Client) resource(ctx context.Context, ref inventory.Ref) (dynamic.ResourceInterface, error) {
	mapping, err := c.mapping(ctx, ref.GroupVersionKind())
	if err != nil {
		return nil, err
	}
	resource := c.dynamic.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		return resource.Namespace(ref.Namespace), nil
	}
	return resource, nil
}
