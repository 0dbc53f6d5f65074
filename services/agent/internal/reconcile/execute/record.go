// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package execute

import (
	"cmp"
	"sync"

	"github.com/leatdev/leat/services/agent/internal/inventory"
)

// record is the inventory record in the state that the run will store next. Several objects are
// worked on concurrently, so the methods below may be called concurrently. Other code uses the
// fields directly while no object is being worked on.
type record struct {
	inventory.Record

	mu        sync.Mutex
	departing inventory.Set // objects whose deletion has begun, or has ended
	inherited inherited
}

// inherited are objects that the run takes over from other services, until the inventory that lists
// them is stored.
type inherited struct {
	from    []string
	objects inventory.Set
}

func (r *record) get(k inventory.Key) (inventory.Object, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.Objects.Get(k)
}

// setApplied records the UID of an object in the cluster, and returns the object as it is listed
// then.
func (r *record) setApplied(o inventory.Object) inventory.Object {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, _ := r.Objects.Get(o.Key)
	known.Ref, known.UID = o.Ref, o.UID
	r.Objects.Put(known)
	return known
}

// inherit records the objects that the run takes over from a service. An object without a UID is
// not in the cluster yet.
func (r *record) inherit(from string, o inventory.Object) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inherited.from = append(r.inherited.from, from)
	if o.UID != "" {
		r.inherited.objects.Put(o)
	}
}

// takeInherited returns the services from which objects were taken over, and clears the list.
func (r *record) takeInherited() (from []string) {
	from = r.inherited.from
	r.inherited = inherited{}
	return from
}

// list adds an object, and reports whether the record must be stored before the object is applied.
func (r *record) list(o inventory.Object) bool {
	before, isKnown := r.Objects.Get(o.Key)
	heirloom, _ := r.inherited.objects.Get(o.Key)
	o.UID = cmp.Or(heirloom.UID, before.UID)
	r.Objects.Put(o)
	return !isKnown || before.Agreed || before.Counted // both flags concern its deletion
}

// beginDeparture records that an object's deletion has begun, since the answer may get lost.
func (r *record) beginDeparture(o inventory.Object) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.departing.Put(o)
}

// cancelDeparture records that the API server rejected an object's deletion.
func (r *record) cancelDeparture(k inventory.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.departing.Remove(k)
}

// markDeleting records that an object is being deleted, under the UID by which its end will be
// observed.
func (r *record) markDeleting(o inventory.Object) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Objects.Put(o)
	r.departing.Put(o)
}

// remove removes an object that left the service. A deleted one counts for the guard, unless a
// person agreed or it was counted before.
func (r *record) remove(o inventory.Object, isDeleted bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Objects.Remove(o.Key)
	if !isDeleted {
		return
	}
	r.departing.Put(o)
	if !o.Agreed && !o.Counted {
		r.Pruned++
	}
}

// count counts the objects without a confirmation as pruned, marks them, and returns them.
func (r *record) count(gone []inventory.Object) (counted []inventory.Object) {
	for i := range gone {
		if gone[i].Agreed || gone[i].Counted {
			continue
		}
		gone[i].Counted = true
		r.Objects.Put(gone[i])
		counted = append(counted, gone[i])
	}
	r.Pruned += len(counted)
	return counted
}

// discount subtracts objects that were counted and not deleted.
func (r *record) discount(counted []inventory.Object) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, o := range counted {
		if _, isDeparting := r.departing.Get(o.Key); isDeparting {
			continue
		}
		r.Pruned--
		if left, isHeld := r.Objects.Get(o.Key); isHeld {
			left.Counted = false
			r.Objects.Put(left)
		}
	}
}

// resetCount begins to count deletions again, also of objects that were counted and then kept for
// another service.
func (r *record) resetCount() {
	if r.Pruned == 0 {
		return
	}
	r.Pruned = 0
	for _, o := range r.Objects.Objects() {
		if o.Counted {
			o.Counted = false
			r.Objects.Put(o)
		}
	}
}

// guardBase returns the number of objects with which the guard compares deletions.
func (r *record) guardBase() int {
	return cmp.Or(max(r.Base, 0), r.Objects.Len())
}

// deletesObjects reports whether the objects are deleted when the service leaves the plan.
func (r *record) deletesObjects() bool {
	return r.Prune && !r.Deletion.Detach
}
