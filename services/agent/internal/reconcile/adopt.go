// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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
	r.unit.mu.Lock()
	defer r.unit.mu.Unlock()
	t := r.unit.observed.get(k)
	return t == nil || !t.deleted
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

// adopt makes ours what former deployers have set of an object, and returns the object as it is then, nil where it is gone.
func (r *run) adopt(ctx context.Context, ref inventory.Ref, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	from := fields.Deployers(live)
	live, err := r.reown(ctx, ref, live, func(live *unstructured.Unstructured) ([]any, bool) {
		return fields.HandOver(live, live.GetAPIVersion())
	})
	if err == nil && live != nil && len(from) > 0 {
		r.decided(ctx, ref, "adopted what "+strings.Join(from, ", ")+" had set")
	}
	return live, err
}

// migrate makes the fields of an object that were set in versions of its kind that are gone fields of the version that is
// applied. It returns the object as it is then, and nil where it is gone.
func (r *run) migrate(ctx context.Context, ref inventory.Ref) (*unstructured.Unstructured, error) {
	live, err := r.cluster.Get(ctx, ref)
	if err != nil {
		return nil, k8s.IgnoreNotFound(err)
	}
	gone, err := r.goneVersions(ctx, ref, live)
	if err != nil {
		return nil, err
	}
	return r.reown(ctx, ref, live, func(live *unstructured.Unstructured) ([]any, bool) {
		return fields.Migrate(live, live.GetAPIVersion(), func(version string) bool { return slices.Contains(gone, version) })
	})
}

// goneVersions lists the versions in which fields of the object were set, and that the cluster no longer serves.
func (r *run) goneVersions(ctx context.Context, ref inventory.Ref, live *unstructured.Unstructured) ([]string, error) {
	var gone []string
	for _, version := range fields.Versions(live) {
		group, short, found := strings.Cut(version, "/")
		if !found {
			group, short = "", version
		}
		old := inventory.Ref{Key: ref.Key, Version: short}
		if version == live.GetAPIVersion() || group != ref.Group {
			continue
		}
		_, err := r.cluster.Get(ctx, old)
		if errors.Is(err, k8s.ErrNotFound) {
			gone = append(gone, version)
		} else if err != nil {
			return nil, fmt.Errorf("ask for version %s: %w", version, err)
		}
	}
	return gone, nil
}

// reown gives the fields of an object to other managers, as rewrite says, however often it changes meanwhile.
func (r *run) reown(
	ctx context.Context, ref inventory.Ref, live *unstructured.Unstructured, rewrite func(*unstructured.Unstructured) ([]any, bool),
) (*unstructured.Unstructured, error) {
	for range submissions {
		managedFields, changed := rewrite(live)
		if !changed {
			return live, nil
		}
		done, err := r.cluster.Reown(ctx, live, managedFields)
		if !errors.Is(err, k8s.ErrReplaced) {
			return done, err
		}
		live, err = r.cluster.Get(ctx, ref)
		if err != nil {
			return nil, k8s.IgnoreNotFound(err)
		}
	}
	return nil, reason.Errorf(reason.ApplyRejected, "is being changed all the time; it will be tried again")
}
