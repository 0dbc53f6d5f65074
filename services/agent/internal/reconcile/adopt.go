// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/reason"
	"github.com/leatdev/leat/internal/syncpolicy"
	"github.com/leatdev/leat/services/agent/internal/fields"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
)

// strangers are objects that were in the cluster before this service made them, from when they are found until they are
// applied. The zero strangers are empty.
type strangers struct {
	mu      sync.Mutex
	objects map[inventory.Key]*unstructured.Unstructured
}

func (s *strangers) put(k inventory.Key, live *unstructured.Unstructured) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.objects == nil {
		s.objects = map[inventory.Key]*unstructured.Unstructured{}
	}
	s.objects[k] = live
}

func (s *strangers) take(k inventory.Key) *unstructured.Unstructured {
	s.mu.Lock()
	defer s.mu.Unlock()
	live := s.objects[k]
	delete(s.objects, k)
	return live
}

// familiar tells whether the object, if there is one, may be taken for the one that the inventory knows. One that was deleted
// may have been made again by somebody else, which matters where nothing is to be adopted.
func (r *run) familiar(k inventory.Key) bool {
	known, ok := r.record.Objects.Get(k)
	if !ok || known.UID == "" || r.service.Spec.Policy.Adoption != syncpolicy.AdoptNever {
		return ok && known.UID != ""
	}
	return !r.unit.objects.IsKnownDeleted(k)
}

// admit decides whether an object that exists and is no other service's may become this one's.
func (r *run) admit(k inventory.Key, live *unstructured.Unstructured) error {
	unmarked := live.GetLabels()[k8s.ServiceLabel] == ""
	if unmarked && r.service.Spec.Policy.Adoption == syncpolicy.AdoptNever && !fields.Touched(live) {
		return reason.Errorf(reason.ObjectUnmanaged, "exists, and Leat has not made it; remove it, or allow the service's policy to adopt it")
	}
	r.strangers.put(k, live)
	return nil
}
