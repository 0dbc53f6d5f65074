// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/managedfields/managedfieldstest"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/agent/internal/fields"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/reconcile"
	"github.com/leatdev/leat/services/agent/internal/reconcile/clustertest"
)

// clusterMemory is a cluster in memory. To an agent that applies, observes and deletes it behaves like a
// real one: it has UIDs, resource versions, preconditions, finalizers, and the field ownership of
// server-side apply. All kinds but a few are namespaced, and every namespace exists. It is safe for
// concurrent use.
type clusterMemory struct {
	// Fault, if set, is called before and after every call of an agent, and may fail it. An error
	// before the call prevents it; an error after the call only loses the answer.
	Fault func(ctx context.Context, call string, done bool) error
	// Deleting, if set, is called with every object that an agent deletes, and with the inventories
	// at that moment.
	Deleting func(o *unstructured.Unstructured, records map[string]inventory.Record)

	mu       sync.Mutex
	objects  map[inventory.Key]*unstructured.Unstructured
	version  int
	uids     int
	records  map[string]storedRecord
	sinks    map[*memoryWatches]bool
	managers map[schema.GroupVersionKind]*managedfields.FieldManager
	applied  map[types.UID]bool
}

// storedRecord is an encoded inventory, so that a record that a cluster could not store fails here, too.
type storedRecord struct {
	head   []byte
	shards [][]byte
}

// newClusterMemory returns an empty cluster.
func newClusterMemory() *clusterMemory {
	return &clusterMemory{
		objects: map[inventory.Key]*unstructured.Unstructured{}, records: map[string]storedRecord{}, sinks: map[*memoryWatches]bool{},
		managers: map[schema.GroupVersionKind]*managedfields.FieldManager{}, applied: map[types.UID]bool{},
	}
}

var _ k8s.API = (*clusterMemory)(nil)

// call runs do as a request of an agent.
func (m *clusterMemory) call(ctx context.Context, name string, do func() error) error {
	if m.Fault != nil {
		if err := m.Fault(ctx, name, false); err != nil {
			return err
		}
	}
	if ctx.Err() != nil { // checked last: the call was still wanted when Fault was asked
		return context.Cause(ctx)
	}
	m.mu.Lock()
	err := do()
	m.mu.Unlock()
	if m.Fault != nil && err == nil {
		return m.Fault(ctx, name, true)
	}
	return err
}

// As implements reconcile.Cluster. Every account has all rights.
func (m *clusterMemory) As(k8s.Account) (k8s.API, error) { return m, nil }

// Namespaced implements reconcile.Cluster.
func (m *clusterMemory) Namespaced(_ context.Context, kind schema.GroupVersionKind) (bool, error) {
	return kind.Kind != "Namespace" && kind.Kind != "ClusterRole" && kind.Kind != "CustomResourceDefinition", nil
}

// Get implements reconcile.Cluster.
func (m *clusterMemory) Get(ctx context.Context, ref inventory.Ref) (live *unstructured.Unstructured, err error) {
	err = m.call(ctx, "get "+ref.String(), func() error {
		if live = m.objects[ref.Key].DeepCopy(); live == nil {
			return k8s.ErrNotFound
		}
		return nil
	})
	return live, err
}

// List implements reconcile.Cluster.
func (*clusterMemory) List(context.Context, schema.GroupVersionKind, string, int) ([]*unstructured.Unstructured, error) {
	return nil, k8s.ErrNotFound
}

// Apply implements reconcile.Cluster.
func (m *clusterMemory) Apply(
	ctx context.Context, o *unstructured.Unstructured, options k8s.ApplyOptions,
) (live *unstructured.Unstructured, err error) {
	err = m.call(ctx, "apply "+inventory.RefOf(o).String(), func() error {
		live, err = m.merge(o, options)
		return err
	})
	return live, err
}

// CreateMissing implements reconcile.Cluster.
func (m *clusterMemory) CreateMissing(
	ctx context.Context, o *unstructured.Unstructured, options k8s.ApplyOptions,
) (live *unstructured.Unstructured, err error) {
	err = m.call(ctx, "create "+inventory.RefOf(o).String(), func() error {
		if live = m.objects[inventory.RefOf(o).Key].DeepCopy(); live != nil {
			return nil
		}
		live, err = m.merge(o, options)
		return err
	})
	return live, err
}

// Reown implements reconcile.Cluster.
func (m *clusterMemory) Reown(
	ctx context.Context, live *unstructured.Unstructured, managedFields []any,
) (done *unstructured.Unstructured, err error) {
	key := inventory.RefOf(live).Key
	err = m.call(ctx, "reown "+key.String(), func() error {
		before := m.objects[key]
		if before == nil || before.GetUID() != live.GetUID() || before.GetResourceVersion() != live.GetResourceVersion() {
			return k8s.ErrReplaced
		}
		after := before.DeepCopy()
		unstructured.RemoveNestedField(after.Object, "metadata", "annotations", fields.LastAppliedAnnotation)
		if err := unstructured.SetNestedSlice(after.Object, managedFields, "metadata", "managedFields"); err != nil {
			return fmt.Errorf("set managedFields: %w", err)
		}
		m.put(key, after)
		done = after.DeepCopy()
		return nil
	})
	return done, err
}

// merge applies o as Leat. The caller holds m.mu.
func (m *clusterMemory) merge(o *unstructured.Unstructured, options k8s.ApplyOptions) (*unstructured.Unstructured, error) {
	key := inventory.RefOf(o).Key
	before, exists := m.objects[key]
	if !exists {
		before = blank(o)
	}
	result, err := m.manager(o.GroupVersionKind()).Apply(before.DeepCopy(), o.DeepCopy(), k8s.FieldManager, options.Force)
	if err != nil {
		return nil, &reason.Problem{Reason: reason.ApplyConflict, Message: err.Error()}
	}
	after, ok := result.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("got %T, want an object", result)
	}
	if exists && sameButTimes(before, after) {
		return before.DeepCopy(), nil
	}
	if options.DryRun {
		return after, nil
	}
	m.put(key, after)
	m.applied[after.GetUID()] = true
	return after.DeepCopy(), nil
}

func blank(o *unstructured.Unstructured) *unstructured.Unstructured {
	b := &unstructured.Unstructured{Object: map[string]any{}}
	b.SetGroupVersionKind(o.GroupVersionKind())
	b.SetName(o.GetName())
	b.SetNamespace(o.GetNamespace())
	return b
}

// sameButTimes reports whether only the times of applies differ.
func sameButTimes(a, b *unstructured.Unstructured) bool {
	a, b = a.DeepCopy(), b.DeepCopy()
	for _, o := range []*unstructured.Unstructured{a, b} {
		entries := o.GetManagedFields()
		for i := range entries {
			entries[i].Time = nil
		}
		o.SetManagedFields(entries)
	}
	return equality.Semantic.DeepEqual(a, b)
}

func (m *clusterMemory) manager(kind schema.GroupVersionKind) *managedfields.FieldManager {
	if m.managers[kind] == nil {
		m.managers[kind] = managedfieldstest.NewFakeFieldManager(managedfields.NewDeducedTypeConverter(), kind)
	}
	return m.managers[kind]
}

// put stores an object under a new resource version, and notifies the watches. The caller holds
// m.mu.
func (m *clusterMemory) put(key inventory.Key, o *unstructured.Unstructured) {
	m.version++
	o.SetResourceVersion(strconv.Itoa(m.version))
	if o.GetUID() == "" {
		m.uids++
		o.SetUID(types.UID(fmt.Sprintf("00000000-0000-0000-0000-%012d", m.uids)))
	}
	before := m.objects[key]
	m.objects[key] = o
	if o.GetDeletionTimestamp() != nil && len(o.GetFinalizers()) == 0 {
		delete(m.objects, key)
		m.notifyLocked(before, nil, o)
		return
	}
	m.notifyLocked(before, o, o)
}

// remove removes an object. The caller holds m.mu.
func (m *clusterMemory) remove(key inventory.Key) {
	before := m.objects[key]
	delete(m.objects, key)
	m.version++
	last := before.DeepCopy()
	last.SetResourceVersion(strconv.Itoa(m.version))
	m.notifyLocked(before, nil, last)
}

// AwaitDefined implements reconcile.Cluster.
func (m *clusterMemory) AwaitDefined(context.Context, *unstructured.Unstructured) error { return nil }

// EnsureNamespace implements reconcile.Cluster.
func (m *clusterMemory) EnsureNamespace(context.Context, string) error { return nil }

// Delete implements reconcile.Cluster.
func (m *clusterMemory) Delete(
	ctx context.Context, object inventory.Object, options k8s.DeleteOptions,
) (remains *unstructured.Unstructured, err error) {
	var doomed *unstructured.Unstructured
	var records map[string]inventory.Record
	err = m.call(ctx, "delete "+object.String(), func() error {
		live := m.objects[object.Key]
		if live == nil {
			return nil
		}
		if string(live.GetUID()) != object.UID || options.ResourceVersion != "" && live.GetResourceVersion() != options.ResourceVersion {
			return k8s.ErrReplaced
		}
		doomed, records = live.DeepCopy(), m.decode()
		remains = m.begin(object.Key, live)
		return nil
	})
	if m.Deleting != nil && doomed != nil {
		m.Deleting(doomed, records)
	}
	return remains.DeepCopy(), err
}

// begin begins the deletion of an object, and also ends it unless a finalizer holds the object. The
// caller holds m.mu.
func (m *clusterMemory) begin(key inventory.Key, live *unstructured.Unstructured) *unstructured.Unstructured {
	if len(live.GetFinalizers()) == 0 {
		m.remove(key)
		return nil
	}
	if live.GetDeletionTimestamp() == nil {
		live = live.DeepCopy()
		now := metav1.Now()
		live.SetDeletionTimestamp(&now)
		m.put(key, live)
	}
	return live
}

// Contents implements reconcile.Cluster.
func (m *clusterMemory) Contents(ctx context.Context, container inventory.Ref) (inside []inventory.Object, err error) {
	err = m.call(ctx, "list "+container.String(), func() error {
		for key, o := range m.objects {
			if container.Kind == "Namespace" && key.Namespace == container.Name && o.GetDeletionTimestamp() == nil {
				inside = append(inside, inventory.Object{Ref: inventory.RefOf(o), UID: string(o.GetUID())})
			}
		}
		return nil
	})
	return inside, err
}

// Release implements reconcile.Cluster.
func (m *clusterMemory) Release(ctx context.Context, object inventory.Object) error {
	return m.call(ctx, "release "+object.String(), func() error {
		live := m.objects[object.Key]
		if live == nil {
			return nil
		}
		if string(live.GetUID()) != object.UID {
			return k8s.ErrReplaced
		}
		return m.update(object.Key, k8s.FieldManager, func(o *unstructured.Unstructured) {
			labels := o.GetLabels()
			delete(labels, k8s.ServiceLabel)
			delete(labels, k8s.ProjectLabel)
			o.SetLabels(labels)
			_ = unstructured.SetNestedSlice(o.Object, fields.LetGo(o), "metadata", "managedFields") // metadata is a map
		})
	})
}

// update changes an object in the name of a manager. The caller holds m.mu.
func (m *clusterMemory) update(key inventory.Key, manager string, change func(*unstructured.Unstructured)) error {
	live := m.objects[key]
	if live == nil {
		return k8s.ErrNotFound
	}
	after := live.DeepCopy()
	change(after)
	result, err := m.manager(live.GroupVersionKind()).Update(live.DeepCopy(), after, manager)
	if err != nil {
		return fmt.Errorf("update %s: %w", key, err)
	}
	updated, ok := result.(*unstructured.Unstructured)
	if !ok {
		return errors.New("update: no object")
	}
	if !sameButTimes(live, updated) {
		m.put(key, updated)
	}
	return nil
}

// Follow implements reconcile.Cluster. It follows nothing.
func (m *clusterMemory) Follow(ctx context.Context, _ inventory.Ref, see k8s.FollowFunc) {
	see(nil, nil)
	<-ctx.Done()
}

// Logs implements reconcile.Cluster.
func (m *clusterMemory) Logs(context.Context, inventory.Object) (string, error) { return "", nil }

// Symptoms implements reconcile.Cluster.
func (m *clusterMemory) Symptoms(context.Context, inventory.Object) (string, error) { return "", nil }

// Live returns a copy of all objects in the cluster.
func (m *clusterMemory) Live() map[inventory.Key]*unstructured.Unstructured {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := maps.Clone(m.objects)
	for key, o := range all {
		all[key] = o.DeepCopy()
	}
	return all
}

// Records returns the inventories.
func (m *clusterMemory) Records() map[string]inventory.Record {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.decode()
}

// Record returns the inventory of a service.
func (m *clusterMemory) Record(service string) (inventory.Record, bool) {
	r, ok := m.Records()[service]
	return r, ok
}

// decode reads all inventories. The caller holds m.mu.
func (m *clusterMemory) decode() map[string]inventory.Record {
	all := map[string]inventory.Record{}
	for service, s := range m.records {
		if r, err := inventory.Decode(s.head, s.shards); err == nil {
			all[service] = r
		}
	}
	return all
}

// AppliedByLeat reports whether Leat has ever applied the object with that UID.
func (m *clusterMemory) AppliedByLeat(uid types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.applied[uid]
}

// TestClusterMemory has the cluster in memory pass the suite of real ones.
func TestClusterMemory(t *testing.T) {
	t.Parallel()
	m := newClusterMemory()
	clustertest.Run(t, clustertest.Subject{
		Cluster: m, Inventories: func() inventory.Store { return m.Inventories() },
		Run: func(ctx context.Context, watches func(reconcile.Watches), sink clustertest.Sink) {
			w := m.Watches()
			watches(w)
			go func() { _ = w.Run(ctx, sink) }()
		},
		Create: m.Create, Change: m.Change, Remove: m.Remove,
	})
}
