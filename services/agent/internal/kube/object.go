// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
)

// Get implements reconcile.Cluster.
func (c *Client) Get(ctx context.Context, ref inventory.Ref) (*unstructured.Unstructured, error) {
	resource, err := c.resource(ctx, ref)
	if rejected := new(reason.Problem); errors.As(err, &rejected) && rejected.Reason == reason.ApplyRejected {
		return nil, fmt.Errorf("%w: %s", k8s.ErrNotFound, rejected.Message) // without a kind there is no object
	}
	if err != nil {
		return nil, err
	}
	return request(ctx, c, ref.Kind, func(ctx context.Context) (*unstructured.Unstructured, error) {
		return resource.Get(ctx, ref.Name, metav1.GetOptions{})
	})
}

// List implements reconcile.Cluster.
func (c *Client) List(ctx context.Context, kind schema.GroupVersionKind, namespace string, most int) ([]*unstructured.Unstructured, error) {
	ref := inventory.Ref{Key: inventory.Key{Group: kind.Group, Kind: kind.Kind, Namespace: namespace}, Version: kind.Version}
	resource, err := c.resource(ctx, ref)
	if rejected := new(reason.Problem); errors.As(err, &rejected) && rejected.Reason == reason.ApplyRejected {
		return nil, fmt.Errorf("%w: %s", k8s.ErrNotFound, rejected.Message)
	}
	if err != nil {
		return nil, err
	}
	list, err := request(ctx, c, kind.Kind, func(ctx context.Context) (*unstructured.UnstructuredList, error) {
		return resource.List(ctx, metav1.ListOptions{Limit: int64(most)})
	})
	if err != nil {
		return nil, err
	}
	if list.GetContinue() != "" {
		return nil, fmt.Errorf("namespace %q has more than %d objects of kind %s", namespace, most, kind.Kind)
	}
	var all []*unstructured.Unstructured
	for i := range list.Items {
		all = append(all, &list.Items[i])
	}
	slices.SortFunc(all, func(a, b *unstructured.Unstructured) int { return strings.Compare(a.GetName(), b.GetName()) })
	return all, nil
}

// Apply implements reconcile.Cluster. Like kubectl, it makes the API server reject unknown and
// duplicate fields. Otherwise a misspelt field would be dropped silently, and its author would
// believe in it.
func (c *Client) Apply(
	ctx context.Context, obj *unstructured.Unstructured, options k8s.ApplyOptions,
) (live *unstructured.Unstructured, err error) {
	ref := inventory.RefOf(obj)
	resource, err := c.resource(ctx, ref)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(obj.Object)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", ref.Key, err)
	}
	patch := metav1.PatchOptions{
		FieldManager: fieldManager, Force: &options.Force, FieldValidation: metav1.FieldValidationStrict,
	}
	if options.DryRun {
		patch.DryRun = []string{metav1.DryRunAll}
	}
	kind := ref.Kind
	if options.Confidential {
		kind = secretKind
	}
	var raw error
	err = c.try(ctx, kind, func(ctx context.Context) error {
		live, raw = resource.Patch(ctx, ref.Name, types.ApplyPatchType, body, patch)
		return raw
	})
	if errors.Is(err, k8s.ErrNotFound) {
		return nil, rejectedf("%v", err) // an apply creates the object, so only something that it depends on can be missing
	}
	if err != nil {
		return nil, c.explain(ctx, resource, obj, kind, raw, err)
	}
	return live, nil
}

// CreateMissing implements reconcile.Cluster. It reads first: most objects exist already, and an account may
// be allowed to read what it may not create.
func (c *Client) CreateMissing(
	ctx context.Context, obj *unstructured.Unstructured, options k8s.ApplyOptions,
) (*unstructured.Unstructured, error) {
	ref := inventory.RefOf(obj)
	resource, err := c.resource(ctx, ref)
	if err != nil {
		return nil, err
	}
	live, err := c.Get(ctx, ref)
	if !errors.Is(err, k8s.ErrNotFound) {
		return live, err
	}
	create := metav1.CreateOptions{FieldManager: fieldManager, FieldValidation: metav1.FieldValidationStrict}
	if options.DryRun {
		create.DryRun = []string{metav1.DryRunAll}
	}
	kind := ref.Kind
	if options.Confidential {
		kind = secretKind
	}
	var raw error
	err = c.try(ctx, kind, func(ctx context.Context) error {
		live, raw = resource.Create(ctx, obj, create)
		return raw
	})
	switch {
	case apierrors.IsAlreadyExists(raw):
		return c.Get(ctx, ref)
	case errors.Is(err, k8s.ErrNotFound):
		return nil, rejectedf("%v", err) // something that it depends on is missing
	case err != nil:
		return nil, c.explain(ctx, resource, obj, kind, raw, err)
	}
	return live, nil
}

// EnsureNamespace implements reconcile.Cluster.
func (c *Client) EnsureNamespace(ctx context.Context, name string) error {
	namespace := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name},
	}}
	resource := c.dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	return c.try(ctx, "Namespace", func(ctx context.Context) error {
		_, err := resource.Get(ctx, name, metav1.GetOptions{})
		if c.forbids(err) {
			return nil // the applies into it will show whether it exists
		}
		if !apierrors.IsNotFound(err) {
			return err
		}
		_, err = resource.Create(ctx, namespace, metav1.CreateOptions{FieldManager: fieldManager})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
}

const (
	definedTimeout = time.Minute
	definedPoll    = 100 * time.Millisecond
)

// AwaitDefined implements reconcile.Cluster. It blocks until the definition is established and
// discovery serves its kind.
func (c *Client) AwaitDefined(ctx context.Context, definition *unstructured.Unstructured) error {
	ctx, cancel := context.WithTimeout(ctx, definedTimeout)
	defer cancel()
	policy := backoff.Policy{Initial: definedPoll, Max: time.Second, Multiplier: 1.5}
	err := backoff.Retry(ctx, policy, func(ctx context.Context) error {
		live, err := c.Get(ctx, inventory.RefOf(definition))
		if err != nil {
			return err
		}
		if !isTrue(live, "Established") {
			return errors.New("it is not established")
		}
		return c.kinds.discovered(ctx, live)
	})
	if err != nil {
		return rejectedf("the definition cannot be used yet: %v", err)
	}
	return nil
}

// discovered returns an error unless discovery serves every served version of a definition's kind.
func (k *kinds) discovered(ctx context.Context, definition *unstructured.Unstructured) error {
	served, _ := servedBy(definition)
	for _, kind := range served {
		if _, err := k.mapping(ctx, kind); err != nil {
			_ = k.refresh(ctx, definedPoll) // the next poll sees the result
			return fmt.Errorf("find its kind: %w", err)
		}
	}
	return nil
}
