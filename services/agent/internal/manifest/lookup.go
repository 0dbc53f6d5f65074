// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/services/agent/internal/confine"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/plan"
)

const (
	// maxListed bounds the objects that one rule with the name "*" selects.
	maxListed = 500
	// maxLookedUp bounds the bytes of all objects that templates of a service may read.
	maxLookedUp = 4 << 20
)

// lookups returns the objects that the steps of a service permit templates to read, as they are
// now. Objects and kinds that do not exist are left out. It returns the errors of [confine.Reader],
// and *render.LimitError.
func lookups(ctx context.Context, readers Readers, s plan.Service, steps []renderstep.Step) ([]render.Lookup, error) {
	var rules []renderstep.LookupRule
	for _, step := range steps {
		if step.Helm != nil {
			rules = append(rules, step.Helm.Lookup...)
		}
	}
	if len(rules) == 0 {
		return nil, nil
	}
	reader, err := readers.Reader(s)
	if err != nil {
		return nil, err
	}
	var all []render.Lookup
	size := 0
	for _, rule := range rules {
		found, err := find(ctx, reader, rule, s.Spec.NamespaceOrDefault())
		if err != nil {
			return nil, fmt.Errorf("look up %s %s for templates: %w", rule.Kind, rule.Name, err)
		}
		for _, o := range found {
			text, err := json.Marshal(o.Object)
			if err != nil {
				return nil, fmt.Errorf("look up %s %s for templates: %w", rule.Kind, rule.Name, err)
			}
			if size += len(text); size > maxLookedUp {
				return nil, &render.LimitError{Path: "lookup", Limit: render.LimitBytes, Message: fmt.Sprintf(
					"the rules permit templates to read more than %d MiB of objects; name fewer", maxLookedUp>>20)}
			}
			all = append(all, render.Lookup{
				APIVersion: rule.APIVersion, Kind: rule.Kind, Namespace: o.GetNamespace(), Name: o.GetName(), Object: text,
			})
		}
	}
	return all, nil
}

// find returns the objects that a rule selects, sorted by name.
func find(ctx context.Context, reader *confine.Reader, rule renderstep.LookupRule, namespace string) ([]*unstructured.Unstructured, error) {
	version, err := schema.ParseGroupVersion(rule.APIVersion)
	if err != nil {
		return nil, &render.Error{Path: "lookup", Cause: err}
	}
	if rule.Namespace != "" {
		namespace = rule.Namespace
	}
	kind := version.WithKind(rule.Kind)
	if rule.Name == "*" {
		found, err := reader.List(ctx, kind, namespace, maxListed)
		if errors.Is(err, k8s.ErrNotFound) {
			return nil, nil
		}
		return found, err
	}
	if isNamespaced, err := reader.Namespaced(ctx, kind); err == nil && !isNamespaced {
		namespace = ""
	}
	ref := inventory.Ref{Key: inventory.Key{Group: kind.Group, Kind: kind.Kind, Namespace: namespace, Name: rule.Name}, Version: kind.Version}
	object, err := reader.Get(ctx, ref)
	if errors.Is(err, k8s.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return []*unstructured.Unstructured{object}, nil
}
