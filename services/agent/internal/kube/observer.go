// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/services/agent/internal/health"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/kube/watch"
	"github.com/leatdev/leat/services/agent/internal/reconcile/observe"
)

// absentRetry spaces the requests for a kind that does not exist. A new definition is noticed by
// its watch. These requests find kinds that other API servers serve, and help agents that may not
// watch definitions.
func absentRetry() backoff.Policy {
	return backoff.Policy{Initial: refreshKinds, Max: 5 * time.Minute, Multiplier: 1.5}
}

// silentRetry bounds the time between such requests while the API server does not answer, or
// contradicts itself.
const silentRetry = 10 * time.Second

// absentDoubt is the number of answers after which the observer believes at its start that a kind
// does not exist: an API server that has just started does not serve all of its kinds yet.
const absentDoubt = 3

// observer observes the objects of one kind in one scope, whether the kind exists or not. It is a
// watch.Handler.
type observer struct {
	client   *Client // of the scope's account; set by the goroutine that runs the observer
	settings watch.Settings
	kind     schema.GroupKind
	scope    observe.Scope
	sink     Sink
	stop     context.CancelFunc
	logger   *slog.Logger

	known   *watch.Known // outlives watches, so that no removal between two of them is missed
	reading string       // version in which objects are read
	ended   int          // consecutive watches that ended because the kind was gone
	told    bool         // the sink was notified that the kind does not exist

	mu      sync.Mutex // guards what follows
	version string     // requested version in which to read objects
	restart context.CancelFunc
	watcher *watch.Watcher
}

// use sets the version in which objects are read.
func (o *observer) use(version string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.version == version {
		return
	}
	o.version = version
	if o.restart != nil {
		o.restart()
	}
}

// relist causes all objects to be listed and observed again.
func (o *observer) relist() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.watcher != nil {
		o.watcher.Relist()
	}
}

// run observes until ctx is done.
func (o *observer) run(ctx context.Context) {
	for ctx.Err() == nil {
		turn, cancel := context.WithCancel(ctx)
		o.mu.Lock()
		o.restart, o.reading, o.watcher = cancel, o.version, nil
		o.mu.Unlock()
		o.follow(turn)
		cancel()
	}
}

// follow watches the kind from its creation until its removal.
func (o *observer) follow(ctx context.Context) {
	mapping := o.await(ctx)
	if mapping == nil {
		return
	}
	watcher := watch.New(watch.Params{
		Server: o.client.server,
		Collection: watch.Collection{
			Resource: mapping.Resource, Kind: mapping.GroupVersionKind, Namespace: o.scope.Namespace, Selector: k8s.ServiceLabel, Label: k8s.ServiceOf,
		},
		Handler: o, Known: o.known, Logger: o.logger, Settings: o.settings,
	})
	o.mu.Lock()
	o.watcher = watcher
	o.mu.Unlock()
	if err := watcher.Run(ctx); errors.Is(err, watch.ErrAbsent) {
		o.client.kinds.outdate()
		// Discovery may lag behind; await sees the end of ctx.
		_ = backoff.Wait(ctx, min(absentRetry().Delay(o.ended), silentRetry))
		o.ended++
	}
}

// await blocks until the kind exists and returns its resource, or nil if ctx ends first.
func (o *observer) await(ctx context.Context) *meta.RESTMapping {
	for attempt := 0; ; attempt++ {
		changed := o.client.kinds.changed.Next()
		mapping, err := o.client.kinds.mapping(ctx, o.kind.WithVersion(o.reading))
		if err == nil {
			return mapping
		}
		delay := absentRetry().Delay(attempt)
		if meta.IsNoMatchError(err) {
			o.absent(attempt)
		} else {
			delay = min(delay, silentRetry)
		}
		timer := time.NewTimer(delay)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-changed:
			timer.Stop()
			attempt = -1
		case <-timer.C:
		}
	}
}

// absent notifies the sink, once, that there are no objects because the kind does not exist.
func (o *observer) absent(attempt int) {
	if o.told || o.ended == 0 && attempt+1 < absentDoubt {
		return
	}
	o.known.Clear(func(object watch.Object) { o.Gone(object, "") })
	o.told, o.ended = true, 0
	o.sink.Synced(o.kind, o.scope)
}

// Seen implements watch.Handler.
func (o *observer) Seen(object *unstructured.Unstructured) {
	if !o.sink.Owns(o.scope, k8s.ServiceOf(object)) {
		return // before it is judged: rules of one account must not see what another account may read
	}
	o.sink.Observe(observe.Observation{
		Service:         k8s.ServiceOf(object),
		Object:          inventory.Object{Ref: o.ref(object.GetNamespace(), object.GetName()), UID: string(object.GetUID())},
		ResourceVersion: object.GetResourceVersion(),
		Health:          o.sink.Judge(object),
		Fingerprint:     o.sink.Fingerprint(object),
		Completed:       health.HasCompleted(object),
		Terminating:     object.GetDeletionTimestamp() != nil,
	})
}

// Gone implements watch.Handler. An object that lost Leat's label counts as gone, too.
func (o *observer) Gone(object watch.Object, version string) {
	if !o.sink.Owns(o.scope, object.Label) {
		return
	}
	o.sink.Observe(observe.Observation{
		Service:         object.Label,
		Object:          inventory.Object{Ref: o.ref(object.Namespace, object.Name), UID: object.UID},
		ResourceVersion: version,
		Deleted:         true,
	})
}

// Synced implements watch.Handler.
func (o *observer) Synced() {
	o.told, o.ended = false, 0
	o.sink.Synced(o.kind, o.scope)
}

// Denied implements watch.Handler.
func (o *observer) Denied(err error) {
	o.sink.MarkUnobservable(o.kind, o.scope, o.whose()+" may not watch its kind"+o.advice()+": "+err.Error())
}

// whose names the account of the watch.
func (o *observer) whose() string {
	if o.scope.Account == (k8s.Account{}) {
		return "the agent"
	}
	return "service account " + o.scope.Account.String()
}

// advice returns what to do where the shipped manifests give the agent no right, because the agent of
// a locked cluster needs none.
func (o *observer) advice() string {
	if o.scope == (observe.Scope{}) && o.kind.Group == "" && (o.kind.Kind == secretKind || o.kind.Kind == "ConfigMap") {
		return " in the whole cluster (set LEAT_AGENT_LOCK_DOWN, so that it watches as the services' accounts)"
	}
	return ""
}

func (o *observer) ref(namespace, name string) inventory.Ref {
	return inventory.Ref{
		Key: inventory.Key{Group: o.kind.Group, Kind: o.kind.Kind, Namespace: namespace, Name: name}, Version: o.reading,
	}
}
