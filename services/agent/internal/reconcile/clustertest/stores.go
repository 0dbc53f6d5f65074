// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package clustertest

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/leatdev/leat/internal/wake"
	"github.com/leatdev/leat/services/agent/internal/fingerprint"
	"github.com/leatdev/leat/services/agent/internal/health"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/reconcile/observe"
)

// Inventories stores records in a Memory.
type Inventories struct{ memory *Memory }

var _ inventory.Store = Inventories{}

// Inventories returns the store of records in this cluster.
func (m *Memory) Inventories() Inventories { return Inventories{m} }

// List implements reconcile.Inventories.
func (i Inventories) List(ctx context.Context) (records []inventory.Record, err error) {
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
func (i Inventories) Save(ctx context.Context, record inventory.Record) error {
	head, shards, err := record.Encode()
	if err != nil {
		return err
	}
	return i.memory.call(ctx, "save inventory of "+record.Service, func() error {
		i.memory.records[record.Service] = stored{head, shards}
		return nil
	})
}

// Delete implements reconcile.Inventories.
func (i Inventories) Delete(ctx context.Context, service string) error {
	return i.memory.call(ctx, "delete inventory of "+service, func() error {
		delete(i.memory.records, service)
		return nil
	})
}

// Watches observes a Memory. Like real watches it reports changes later, and in order.
type Watches struct {
	memory *Memory
	wake   wake.Signal

	mu    sync.Mutex
	kinds map[schema.GroupKind]string // with the version
	queue []func(Sink)
}

// Sink receives the observations of watches.
type Sink interface {
	Observe(o observe.Observation)
	Synced(kind schema.GroupKind)
}

// Watches returns watches that observe nothing before Run.
func (m *Memory) Watches() *Watches {
	w := &Watches{memory: m, wake: wake.NewSignal()}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sinks[w] = true
	return w
}

// Watch implements reconcile.Watches.
func (w *Watches) Watch(kinds []schema.GroupVersionKind) {
	w.memory.mu.Lock()
	defer w.memory.mu.Unlock()
	wanted := map[schema.GroupKind]string{}
	for _, kind := range kinds {
		wanted[kind.GroupKind()] = kind.Version
		w.mu.Lock()
		_, already := w.kinds[kind.GroupKind()]
		w.mu.Unlock()
		if !already {
			w.list(kind)
		}
	}
	w.mu.Lock()
	w.kinds = wanted
	w.mu.Unlock()
}

// Recheck implements reconcile.Watches.
func (w *Watches) Recheck() {
	w.memory.mu.Lock()
	defer w.memory.mu.Unlock()
	w.mu.Lock()
	kinds := maps.Clone(w.kinds)
	w.mu.Unlock()
	for kind, version := range kinds {
		w.list(kind.WithVersion(version))
	}
}

// list reports all objects of a kind. The caller holds the memory's lock.
func (w *Watches) list(kind schema.GroupVersionKind) {
	for key, o := range w.memory.objects {
		if key.GroupKind() == kind.GroupKind() && o.GetLabels()[k8s.ServiceLabel] != "" {
			o := o.DeepCopy()
			w.push(func(s Sink) { s.Observe(seen(o)) })
		}
	}
	w.push(func(s Sink) { s.Synced(kind.GroupKind()) })
}

func (w *Watches) push(news func(Sink)) {
	w.mu.Lock()
	w.queue = append(w.queue, news)
	w.mu.Unlock()
	w.wake.Set()
}

// Run reports changes to the sink until ctx is done.
func (w *Watches) Run(ctx context.Context, sink Sink) error {
	for {
		select {
		case <-ctx.Done():
			w.memory.mu.Lock()
			defer w.memory.mu.Unlock()
			delete(w.memory.sinks, w)
			return nil
		case <-w.wake:
		}
		w.mu.Lock()
		queue := w.queue
		w.queue = nil
		w.mu.Unlock()
		for _, news := range queue {
			news(sink)
		}
	}
}

// notifyLocked reports a change from before to after to all watches. Either of them may be nil;
// last is the last state of the object.
func (m *Memory) notifyLocked(before, after, last *unstructured.Unstructured) {
	key := inventory.RefOf(last).Key
	for w := range m.sinks {
		w.mu.Lock()
		_, watched := w.kinds[key.GroupKind()]
		w.mu.Unlock()
		if watched {
			w.change(before.DeepCopy(), after.DeepCopy(), last.GetResourceVersion())
		}
	}
}

func (w *Watches) change(before, after *unstructured.Unstructured, version string) {
	if was := before.DeepCopy(); was != nil && label(was) != "" && label(was) != label(after) {
		w.push(func(s Sink) {
			s.Observe(observe.Observation{
				Service: label(was), Object: inventory.Object{Ref: inventory.RefOf(was), UID: string(was.GetUID())},
				ResourceVersion: version, Deleted: true,
			})
		})
	}
	if label(after) != "" {
		w.push(func(s Sink) { s.Observe(seen(after)) })
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

// Create makes an object as somebody else would. It reports false where there is one of that name.
func (m *Memory) Create(o *unstructured.Unstructured) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := inventory.RefOf(o).Key
	if m.objects[key] != nil {
		return false
	}
	o = o.DeepCopy()
	o.SetManagedFields([]metav1.ManagedFieldsEntry{})
	result, err := m.manager(o.GroupVersionKind()).Update(blank(o), o, Somebody)
	created, ok := result.(*unstructured.Unstructured)
	if err != nil || !ok {
		return false
	}
	m.put(key, created)
	return true
}

// Somebody is the field manager of what others do.
const Somebody = "somebody"

// Remove deletes an object as somebody else would. It reports false if the object is missing.
func (m *Memory) Remove(key inventory.Key) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	live := m.objects[key]
	if live == nil {
		return false
	}
	m.begin(key, live)
	return true
}

// Change changes an object as somebody else would. It reports false if the object is missing.
func (m *Memory) Change(key inventory.Key, change func(*unstructured.Unstructured)) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.update(key, Somebody, change) == nil
}
