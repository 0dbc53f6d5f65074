// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"context"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/leatdev/leat/internal/kit/wake"
	"github.com/leatdev/leat/services/agent/internal/fingerprint"
	"github.com/leatdev/leat/services/agent/internal/health"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/reconcile/clustertest"
	"github.com/leatdev/leat/services/agent/internal/reconcile/observe"
)

// memoryInventories stores records in a clusterMemory.
type memoryInventories struct{ memory *clusterMemory }

var _ inventory.Store = memoryInventories{}

// Inventories returns the store of records in this cluster.
func (m *clusterMemory) Inventories() memoryInventories { return memoryInventories{m} }

// List implements reconcile.Inventories.
func (i memoryInventories) List(ctx context.Context) (records []inventory.Record, err error) {
	err = i.memory.call(ctx, "list inventories", func() error {
		for _, s := range i.memory.records {
			record, err := inventory.Decode(s.head, s.shards)
			if err != nil {
				return err
			}
			records = append(records, record)
		}
		return nil
	})
	slices.SortFunc(records, func(a, b inventory.Record) int { return strings.Compare(a.Service, b.Service) })
	return records, err
}

// Save implements reconcile.Inventories.
func (i memoryInventories) Save(ctx context.Context, record inventory.Record) error {
	head, shards, err := record.Encode()
	if err != nil {
		return err
	}
	return i.memory.call(ctx, "save inventory of "+record.Service, func() error {
		i.memory.records[record.Service] = storedRecord{head, shards}
		return nil
	})
}

// Delete implements reconcile.Inventories.
func (i memoryInventories) Delete(ctx context.Context, service string) error {
	return i.memory.call(ctx, "delete inventory of "+service, func() error {
		delete(i.memory.records, service)
		return nil
	})
}

// memoryWatches observes a clusterMemory. Like real watches it reports changes later, and in order.
type memoryWatches struct {
	memory *clusterMemory
	wake   wake.Signal
	kinds  map[schema.GroupKind]string // with the version; guarded by the memory's lock
	queue  []func(clustertest.Sink)    // also guarded by it
}

// Watches returns watches that observe nothing before Run.
func (m *clusterMemory) Watches() *memoryWatches {
	w := &memoryWatches{memory: m, wake: wake.NewSignal()}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sinks[w] = true
	return w
}

// Watch implements reconcile.Watches.
func (w *memoryWatches) Watch(collections []observe.Collection) {
	w.memory.mu.Lock()
	defer w.memory.mu.Unlock()
	wanted := map[schema.GroupKind]string{}
	for _, one := range collections {
		kind := one.Kind
		wanted[kind.GroupKind()] = kind.Version
		if _, already := w.kinds[kind.GroupKind()]; !already {
			w.listLocked(kind)
		}
	}
	w.kinds = wanted
}

// Recheck implements reconcile.Watches.
func (w *memoryWatches) Recheck() {
	w.memory.mu.Lock()
	defer w.memory.mu.Unlock()
	for kind, version := range w.kinds {
		w.listLocked(kind.WithVersion(version))
	}
}

// listLocked reports all objects of a kind.
func (w *memoryWatches) listLocked(kind schema.GroupVersionKind) {
	for key, o := range w.memory.objects {
		if key.GroupKind() == kind.GroupKind() && o.GetLabels()[k8s.ServiceLabel] != "" {
			o := o.DeepCopy()
			w.pushLocked(func(s clustertest.Sink) { s.Observe(seen(o)) })
		}
	}
	w.pushLocked(func(s clustertest.Sink) { s.Synced(kind.GroupKind(), observe.Scope{}) })
}

func (w *memoryWatches) pushLocked(news func(clustertest.Sink)) {
	w.queue = append(w.queue, news)
	w.wake.Set()
}

// Run reports changes to the sink until ctx is done.
func (w *memoryWatches) Run(ctx context.Context, sink clustertest.Sink) error {
	for {
		select {
		case <-ctx.Done():
			w.memory.mu.Lock()
			defer w.memory.mu.Unlock()
			delete(w.memory.sinks, w)
			return nil
		case <-w.wake:
		}
		w.memory.mu.Lock()
		queue := w.queue
		w.queue = nil
		w.memory.mu.Unlock()
		for _, news := range queue {
			news(sink)
		}
	}
}

// notifyLocked reports a change from before to after to all watches. Either of them may be nil;
// last is the last state of the object.
func (m *clusterMemory) notifyLocked(before, after, last *unstructured.Unstructured) {
	key := inventory.RefOf(last).Key
	for w := range m.sinks {
		if _, watched := w.kinds[key.GroupKind()]; watched {
			w.changeLocked(before.DeepCopy(), after.DeepCopy(), last.GetResourceVersion())
		}
	}
}

func (w *memoryWatches) changeLocked(before, after *unstructured.Unstructured, version string) {
	if was := before; was != nil && label(was) != "" && label(was) != label(after) {
		w.pushLocked(func(s clustertest.Sink) {
			s.Observe(observe.Observation{
				Service: label(was), Object: inventory.Object{Ref: inventory.RefOf(was), UID: string(was.GetUID())},
				ResourceVersion: version, Deleted: true,
			})
		})
	}
	if label(after) != "" {
		w.pushLocked(func(s clustertest.Sink) { s.Observe(seen(after)) })
	}
}

func label(o *unstructured.Unstructured) string {
	if o == nil {
		return ""
	}
	return o.GetLabels()[k8s.ServiceLabel]
}

func seen(o *unstructured.Unstructured) observe.Observation {
	verdict := health.Verdict{State: health.Healthy}
	if o.GetDeletionTimestamp() != nil {
		verdict.State = health.Terminating
	}
	return observe.Observation{
		Service: label(o), Object: inventory.Object{Ref: inventory.RefOf(o), UID: string(o.GetUID())},
		ResourceVersion: o.GetResourceVersion(), Health: verdict,
		Fingerprint: fingerprint.Live(o, k8s.FieldManager), Terminating: o.GetDeletionTimestamp() != nil,
	}
}

// Create makes an object as another client would. It reports false where there is one of that name.
func (m *clusterMemory) Create(o *unstructured.Unstructured) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := inventory.RefOf(o).Key
	if m.objects[key] != nil {
		return false
	}
	o = o.DeepCopy()
	o.SetManagedFields([]metav1.ManagedFieldsEntry{})
	result, err := m.manager(o.GroupVersionKind()).Update(blank(o), o, clustertest.Somebody)
	created, ok := result.(*unstructured.Unstructured)
	if err != nil || !ok {
		return false
	}
	m.put(key, created)
	return true
}

// Remove deletes an object as another client would. It reports false if the object is missing.
func (m *clusterMemory) Remove(key inventory.Key) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	live := m.objects[key]
	if live == nil {
		return false
	}
	m.begin(key, live)
	return true
}

// Change changes an object as another client would. It reports false if the object is missing.
func (m *clusterMemory) Change(key inventory.Key, change func(*unstructured.Unstructured)) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.update(key, clustertest.Somebody, change) == nil
}
