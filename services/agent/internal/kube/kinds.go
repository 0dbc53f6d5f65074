// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"

	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/reconcile"
)

// refreshKinds is how often an unknown kind may cause the API server to be asked for all its kinds.
const refreshKinds = 2 * time.Second

// kinds knows which resource holds a kind. What it learned stays until an unknown kind is asked for.
type kinds struct {
	mapper *restmapper.DeferredDiscoveryRESTMapper

	mu        sync.Mutex
	refreshed time.Time
}

func newKinds(client discovery.DiscoveryInterface) *kinds {
	return &kinds{mapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client))}
}

// mapping finds the resource of a kind.
func (k *kinds) mapping(kind schema.GroupVersionKind) (*meta.RESTMapping, error) {
	mapping, err := k.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) && k.refresh(refreshKinds) {
		mapping, err = k.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	}
	return mapping, err
}

// refresh forgets what is known unless that is younger than age, and reports whether it did.
func (k *kinds) refresh(age time.Duration) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if time.Since(k.refreshed) < age {
		return false
	}
	k.mapper.Reset()
	k.refreshed = time.Now()
	return true
}

// Namespaced implements reconcile.Cluster.
func (c *Client) Namespaced(ctx context.Context, kind schema.GroupVersionKind) (bool, error) {
	mapping, err := c.mapping(ctx, kind)
	if err != nil {
		return false, err
	}
	return mapping.Scope.Name() == meta.RESTScopeNameNamespace, nil
}

// mapping finds the resource of a kind, with the errors of reconcile.Cluster.
func (c *Client) mapping(ctx context.Context, kind schema.GroupVersionKind) (mapping *meta.RESTMapping, err error) {
	err = c.try(ctx, kind.Kind, func(context.Context) error {
		mapping, err = c.kinds.mapping(kind)
		return err
	})
	return mapping, err
}

// resource gives access to the resource that holds ref.
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

func rejectedf(format string, args ...any) *reconcile.Problem {
	return problemf(reconcile.ApplyRejected, format, args...)
}
