// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package submit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/agent/internal/fields"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
)

// adopt transfers the fields of former deployers to Leat. It returns the resulting object, or nil
// if the object is gone.
func (s Submitter) adopt(ctx context.Context, ref inventory.Ref, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	from := fields.Deployers(live)
	live, err := s.reown(ctx, ref, live, func(live *unstructured.Unstructured) ([]any, bool) {
		return fields.HandOver(live, live.GetAPIVersion())
	})
	if err == nil && live != nil && len(from) > 0 {
		s.Announce(ctx, ref, "adopted the fields of "+strings.Join(from, ", "))
	}
	return live, err
}

// migrate moves an object's fields from versions of its kind that are gone to the applied version.
// It returns the resulting object, or nil if the object is gone.
func (s Submitter) migrate(ctx context.Context, ref inventory.Ref) (*unstructured.Unstructured, error) {
	live, err := s.Cluster.Get(ctx, ref)
	if err != nil {
		return nil, k8s.IgnoreNotFound(err)
	}
	gone, err := s.goneVersions(ctx, ref, live)
	if err != nil {
		return nil, err
	}
	return s.reown(ctx, ref, live, func(live *unstructured.Unstructured) ([]any, bool) {
		return fields.Migrate(live, live.GetAPIVersion(), func(version string) bool { return slices.Contains(gone, version) })
	})
}

// goneVersions returns the versions in which fields of the object were set, and which the cluster
// no longer serves.
func (s Submitter) goneVersions(ctx context.Context, ref inventory.Ref, live *unstructured.Unstructured) ([]string, error) {
	var gone []string
	for _, version := range fields.Versions(live) {
		group, short, found := strings.Cut(version, "/")
		if !found {
			group, short = "", version
		}
		if version == live.GetAPIVersion() || group != ref.Group {
			continue
		}
		_, err := s.Cluster.Get(ctx, inventory.Ref{Key: ref.Key, Version: short})
		if errors.Is(err, k8s.ErrNotFound) {
			gone = append(gone, version)
		} else if err != nil {
			return nil, fmt.Errorf("ask for version %s: %w", version, err)
		}
	}
	return gone, nil
}

// reown replaces the managed fields of an object by the result of rewrite. If the object changes
// meanwhile, it reads it again, at most maxAttempts times.
func (s Submitter) reown(
	ctx context.Context, ref inventory.Ref, live *unstructured.Unstructured, rewrite func(*unstructured.Unstructured) ([]any, bool),
) (*unstructured.Unstructured, error) {
	for range maxAttempts {
		managedFields, changed := rewrite(live)
		if !changed {
			return live, nil
		}
		done, err := s.Cluster.Reown(ctx, live, managedFields)
		if !errors.Is(err, k8s.ErrReplaced) {
			return done, err
		}
		live, err = s.Cluster.Get(ctx, ref)
		if err != nil {
			return nil, k8s.IgnoreNotFound(err)
		}
	}
	return nil, reason.Errorf(reason.ApplyRejected, "is being changed all the time; it will be tried again")
}
