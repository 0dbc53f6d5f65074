// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"log/slog"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/leatdev/leat/internal/kit/wake"
	"github.com/leatdev/leat/services/agent/internal/fingerprint"
	"github.com/leatdev/leat/services/agent/internal/health"
	"github.com/leatdev/leat/services/agent/internal/kube/watch"
	"github.com/leatdev/leat/services/agent/internal/reconcile"
	"github.com/leatdev/leat/services/agent/internal/reconcile/observe"
)

// Sink receives the observations of watches. Its methods are called concurrently for objects of
// different kinds, and return at once.
type Sink interface {
	// Judge returns the health of an object. It only reads the object.
	Judge(o *unstructured.Unstructured) health.Verdict
	// Fingerprint returns the sum of the object's relevant fields. It only reads the object.
	Fingerprint(o *unstructured.Unstructured) fingerprint.Sum
	// Observe receives the newest state of an object.
	Observe(o observe.Observation)
	// Owns reports whether a watch of a scope speaks for a service. Objects of other services are
	// neither judged nor observed by it.
	Owns(scope observe.Scope, service string) bool
	// Synced is called after each complete list of a kind in a scope, when all its objects have been
	// observed.
	Synced(kind schema.GroupKind, scope observe.Scope)
	// MarkUnobservable reports why objects of a kind in a scope cannot be observed, until the next
	// observation of one.
	MarkUnobservable(kind schema.GroupKind, scope observe.Scope, why string)
}

// Watches observes the objects with Leat's label, with one watch per kind and scope. Its memory
// follows the number of objects that Leat manages, and not the size of the cluster. It keeps little
// more than the name of each object.
type Watches struct {
	client   *Client
	settings watch.Settings
	changed  wake.Signal // one token when desired was replaced

	mu      sync.Mutex // guards what follows
	desired []observe.Collection
	running map[place]*observer
}

// place is a collection of any version.
type place struct {
	kind  schema.GroupKind
	scope observe.Scope
}

var _ reconcile.Watches = (*Watches)(nil)

// Watches returns watches that observe nothing before Run.
func (c *Client) Watches() *Watches {
	return &Watches{client: c, changed: wake.NewSignal(), running: map[place]*observer{}}
}

// Watch implements reconcile.Watches.
func (w *Watches) Watch(collections []observe.Collection) {
	w.mu.Lock()
	w.desired = collections
	w.mu.Unlock()
	w.changed.Set()
}

// Recheck causes every object to be listed, judged and observed again. It returns at once.
func (w *Watches) Recheck() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, o := range w.running {
		o.relist()
	}
}

// Run observes until ctx is done, and returns when all watches have ended.
func (w *Watches) Run(ctx context.Context, sink Sink) error {
	var group sync.WaitGroup
	defer w.forget()
	defer group.Wait()
	group.Go(func() { w.followDefinitions(ctx) })
	w.adjust(ctx, &group, sink) // to the kinds that were set before an earlier Run ended
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.changed:
			w.adjust(ctx, &group, sink)
		}
	}
}

func (w *Watches) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.running)
}

// adjust ends the watches of undesired collections, and begins watches of new ones.
func (w *Watches) adjust(ctx context.Context, group *sync.WaitGroup, sink Sink) {
	w.mu.Lock()
	defer w.mu.Unlock()
	wanted := make(map[place]string, len(w.desired))
	for _, collection := range w.desired {
		wanted[place{collection.Kind.GroupKind(), collection.Scope}] = collection.Kind.Version
	}
	for at, o := range w.running {
		if wanted[at] == "" {
			o.stop()
			delete(w.running, at)
		}
	}
	for at, version := range wanted {
		if o := w.running[at]; o != nil {
			o.use(version)
		} else {
			w.running[at] = w.begin(ctx, group, at, version, sink)
		}
	}
}

func (w *Watches) begin(ctx context.Context, group *sync.WaitGroup, at place, version string, sink Sink) *observer {
	ctx, stop := context.WithCancel(ctx)
	logger := w.client.logger.With(slog.String("kind", at.kind.String()))
	if at.scope != (observe.Scope{}) {
		logger = logger.With(slog.String("account", at.scope.Account.String()), slog.String("namespace", at.scope.Namespace))
	}
	o := &observer{
		settings: w.settings, kind: at.kind, scope: at.scope, version: version, sink: sink, stop: stop, known: watch.NewKnown(), logger: logger,
	}
	group.Go(func() {
		client, err := w.client.tenants.client(w.client, at.scope.Account)
		if err != nil {
			o.Denied(err)
			return
		}
		o.client = client
		o.run(ctx)
	})
	return o
}

// followDefinitions watches the names of all CustomResourceDefinitions. Any change of one means
// that the served kinds have changed.
func (w *Watches) followDefinitions(ctx context.Context) {
	kind := schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
	watcher := watch.New(watch.Params{
		Server:     w.client.server,
		Collection: watch.Collection{Resource: kind.GroupVersion().WithResource("customresourcedefinitions"), Kind: kind, Metadata: true},
		Handler:    &definitions{kinds: w.client.kinds}, Known: watch.NewKnown(), Settings: w.settings,
		Logger: w.client.logger.With(slog.String("kind", kind.GroupKind().String())),
	})
	if err := watcher.Run(ctx); err != nil {
		w.client.logger.DebugContext(ctx, "API server does not serve CustomResourceDefinitions", slog.Any("error", err))
	}
}

// definitions is a watch.Handler.
type definitions struct {
	kinds  *kinds
	listed bool
}

// Seen implements watch.Handler.
func (d *definitions) Seen(*unstructured.Unstructured) {
	if d.listed {
		d.kinds.outdate()
	}
}

// Gone implements watch.Handler.
func (d *definitions) Gone(watch.Object, string) { d.kinds.outdate() }

// Synced implements watch.Handler.
func (d *definitions) Synced() {
	d.listed = true
	d.kinds.outdate()
}

// Denied implements watch.Handler.
func (d *definitions) Denied(error) {} // missing kinds are looked up again from time to time
