// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"github.com/leatdev/leat/internal/backoff"
	"github.com/leatdev/leat/services/agent/internal/health"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/reconcile"
)

// Sink hears what watches see.
type Sink interface {
	Observe(o reconcile.Observation)
	Synced(kind schema.GroupKind)
	Judge(o *unstructured.Unstructured) health.Verdict
}

// Watches observes the objects that carry Leat's label, one watch per kind. Memory follows the objects that Leat manages,
// not the size of the cluster, and of each object only its name and its health are kept.
type Watches struct {
	client  *Client
	changed chan struct{} // one token when desired was replaced

	mu      sync.Mutex
	desired []schema.GroupVersionKind
	recheck bool // begin all watches anew
}

var _ reconcile.Watches = (*Watches)(nil)

// Watches returns watches that observe nothing before Run.
func (c *Client) Watches() *Watches {
	return &Watches{client: c, changed: make(chan struct{}, 1)}
}

// Watch implements reconcile.Watches.
func (w *Watches) Watch(kinds []schema.GroupVersionKind) {
	w.mu.Lock()
	w.desired = kinds
	w.mu.Unlock()
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// Recheck implements reconcile.Watches.
func (w *Watches) Recheck() {
	w.mu.Lock()
	w.recheck = true
	w.mu.Unlock()
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// Run keeps the watches going until ctx is done, and returns when all have ended.
func (w *Watches) Run(ctx context.Context, sink Sink) error {
	var group sync.WaitGroup
	defer group.Wait()
	running := map[schema.GroupVersionKind]context.CancelFunc{}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.changed:
			w.adjust(ctx, &group, running, sink)
		}
	}
}

func (w *Watches) adjust(
	ctx context.Context, group *sync.WaitGroup, running map[schema.GroupVersionKind]context.CancelFunc, sink Sink,
) {
	w.mu.Lock()
	wanted := make(map[schema.GroupVersionKind]bool, len(w.desired))
	for _, kind := range w.desired {
		wanted[kind] = true
	}
	recheck := w.recheck
	w.recheck = false
	w.mu.Unlock()
	for kind, stop := range running {
		if !wanted[kind] || recheck {
			stop()
			delete(running, kind)
		}
	}
	for kind := range wanted {
		if running[kind] == nil {
			ctx, stop := context.WithCancel(ctx)
			running[kind] = stop
			group.Go(func() { w.observe(ctx, kind, sink) })
		}
	}
}

// observe watches one kind until ctx is done.
func (w *Watches) observe(ctx context.Context, kind schema.GroupVersionKind, sink Sink) {
	mapping, err := w.await(ctx, kind)
	if err != nil {
		return // ctx is done
	}
	informer := dynamicinformer.NewFilteredDynamicInformer(w.client.dynamic, mapping.Resource, metav1.NamespaceAll, 0,
		cache.Indexers{}, func(o *metav1.ListOptions) { o.LabelSelector = reconcile.ServiceLabel }).Informer()
	logger := w.client.logger.With(slog.String("kind", kind.GroupKind().String()))
	_ = informer.SetTransform(condense(sink)) // fails only on a started informer
	_ = informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, _ *cache.Reflector, err error) {
		logger.DebugContext(ctx, "watch broke off, starting it again", slog.Any("error", err))
	})
	registration, err := informer.AddEventHandler(handler(kind, sink))
	if err != nil {
		logger.ErrorContext(ctx, "kind cannot be watched", slog.Any("error", err))
		return
	}
	var synced sync.WaitGroup
	synced.Go(func() {
		if cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
			sink.Synced(kind.GroupKind())
		}
	})
	informer.RunWithContext(ctx)
	synced.Wait()
}

// await finds the kind's resource, however long it takes for the kind to exist.
func (w *Watches) await(ctx context.Context, kind schema.GroupVersionKind) (mapping *meta.RESTMapping, err error) {
	err = backoff.Retry(ctx, backoff.Policy{Initial: time.Second, Max: time.Minute}, func(context.Context) error {
		mapping, err = w.client.kinds.mapping(kind)
		return err
	})
	return mapping, err
}

// seen is what is kept of an object.
type seen struct {
	metav1.PartialObjectMetadata

	health health.Verdict
}

func condense(sink Sink) cache.TransformFunc {
	return func(object any) (any, error) {
		full, ok := object.(*unstructured.Unstructured)
		if !ok {
			return object, nil // condensed already
		}
		s := &seen{health: sink.Judge(full)}
		s.Name, s.Namespace, s.UID = full.GetName(), full.GetNamespace(), full.GetUID()
		s.ResourceVersion, s.Labels = full.GetResourceVersion(), full.GetLabels()
		return s, nil
	}
}

func handler(kind schema.GroupVersionKind, sink Sink) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { report(kind, sink, object, false) },
		UpdateFunc: func(before, object any) {
			// An object that is handed from one service to another leaves the first.
			if old, ok := before.(*seen); ok && old.Labels[reconcile.ServiceLabel] != service(object) {
				report(kind, sink, before, true)
			}
			report(kind, sink, object, false)
		},
		DeleteFunc: func(object any) { report(kind, sink, object, true) },
	}
}

func service(object any) string {
	s, ok := object.(*seen)
	if !ok {
		return ""
	}
	return s.Labels[reconcile.ServiceLabel]
}

func report(kind schema.GroupVersionKind, sink Sink, object any, deleted bool) {
	if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = tombstone.Obj
	}
	s, ok := object.(*seen)
	if !ok {
		return
	}
	sink.Observe(reconcile.Observation{
		Service: service(s),
		Object: inventory.Object{
			Ref: inventory.Ref{
				Key:     inventory.Key{Group: kind.Group, Kind: kind.Kind, Namespace: s.Namespace, Name: s.Name},
				Version: kind.Version,
			},
			UID: string(s.UID),
		},
		ResourceVersion: s.ResourceVersion, Health: s.health, Deleted: deleted,
	})
}
