// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"

	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/services/agent/internal/fields"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
)

// Delete implements reconcile.Cluster.
func (c *Client) Delete(
	ctx context.Context, object inventory.Object, options k8s.DeleteOptions,
) (remains *unstructured.Unstructured, err error) {
	mapping, err := c.mapping(ctx, object.GroupVersionKind())
	if k8s.IsUnknownKind(err) {
		return nil, nil // the kind is gone, and its objects with it
	}
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(deleteOptions(object, options))
	if err != nil {
		return nil, fmt.Errorf("encode options: %w", err)
	}
	err = c.try(ctx, object.Kind, func(ctx context.Context) error {
		request := c.discovery.RESTClient().Delete().AbsPath(pathOf(mapping, object.Ref)...).Body(body).SetHeader("Content-Type", "application/json")
		result := request.Do(ctx)
		answer, err := result.Raw()
		if err != nil {
			return replaced(result.Error()) // which, unlike err, has the API server's words
		}
		remains, err = remainsOf(answer)
		return err
	})
	if errors.Is(err, k8s.ErrNotFound) {
		return nil, nil
	}
	return remains, err
}

// pathOf returns the path at which the API server serves an object.
func pathOf(mapping *meta.RESTMapping, ref inventory.Ref) []string {
	path := []string{"/api", mapping.Resource.Version}
	if mapping.Resource.Group != "" {
		path = []string{"/apis", mapping.Resource.Group, mapping.Resource.Version}
	}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		path = append(path, "namespaces", ref.Namespace)
	}
	return append(path, mapping.Resource.Resource, ref.Name)
}

func deleteOptions(object inventory.Object, options k8s.DeleteOptions) metav1.DeleteOptions {
	uid, propagation := types.UID(object.UID), metav1.DeletePropagationForeground
	switch {
	case options.Propagation == syncpolicy.DeleteOrphan:
		propagation = metav1.DeletePropagationOrphan
	case options.Propagation == syncpolicy.DeleteBackground, isLeaf(object.Key):
		propagation = metav1.DeletePropagationBackground
	}
	preconditions := &metav1.Preconditions{UID: &uid}
	if options.ResourceVersion != "" {
		preconditions.ResourceVersion = &options.ResourceVersion
	}
	return metav1.DeleteOptions{
		TypeMeta:      metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
		Preconditions: preconditions, PropagationPolicy: &propagation,
	}
}

// isLeaf reports whether objects of a kind have no dependents. Waiting for dependents would cost a
// round of the garbage collector for each object. If an object has dependents anyway, they are
// deleted right after it.
func isLeaf(k inventory.Key) bool {
	switch k.Group {
	case "":
		return k.Kind == "ConfigMap" || k.Kind == "Secret" || k.Kind == "ServiceAccount" || k.Kind == "Namespace" ||
			k.Kind == "LimitRange" || k.Kind == "ResourceQuota" || k.Kind == "PersistentVolumeClaim" || k.Kind == "PersistentVolume"
	case "rbac.authorization.k8s.io", "admissionregistration.k8s.io", "apiextensions.k8s.io", "scheduling.k8s.io", "storage.k8s.io":
		return true
	default:
		return false
	}
}

// remainsOf reads the answer to a delete. That is a Status, or an object, which is also gone unless
// it is marked as being deleted.
func remainsOf(answer []byte) (*unstructured.Unstructured, error) {
	o := &unstructured.Unstructured{}
	if err := json.Unmarshal(answer, &o.Object); err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	if o.GetKind() == "Status" || o.GetDeletionTimestamp() == nil {
		return nil, nil
	}
	return o, nil
}

// Release implements reconcile.Cluster.
func (c *Client) Release(ctx context.Context, object inventory.Object) error {
	resource, err := c.resource(ctx, object.Ref)
	if k8s.IsUnknownKind(err) {
		return nil
	}
	if err != nil {
		return err
	}
	err = c.try(ctx, object.Kind, func(ctx context.Context) error {
		return retry.RetryOnConflict(retry.DefaultBackoff, func() error { return letGo(ctx, resource, object) })
	})
	return k8s.IgnoreNotFound(err)
}

// letGo removes Leat's labels and fields from the object that live is now. The error is a conflict if somebody changed the
// object meanwhile, such as its status.
func letGo(ctx context.Context, resource dynamic.ResourceInterface, object inventory.Object) error {
	live, err := resource.Get(ctx, object.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if string(live.GetUID()) != object.UID {
		return backoff.Permanent(fmt.Errorf("%w: its uid is %s", k8s.ErrReplaced, live.GetUID()))
	}
	// The resource version keeps the owners that others have become meanwhile.
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": live.GetResourceVersion(), "managedFields": fields.LetGo(live),
		"labels": map[string]any{k8s.ServiceLabel: nil, k8s.ProjectLabel: nil},
	}})
	if err != nil {
		return backoff.Permanent(fmt.Errorf("encode patch: %w", err))
	}
	_, err = resource.Patch(ctx, object.Name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: fieldManager})
	return err
}

// replaced translates a failed precondition.
func replaced(err error) error {
	if isDenied(err) {
		return err // the object is still the same
	}
	if apierrors.IsConflict(err) {
		return backoff.Permanent(fmt.Errorf("%w: %w", k8s.ErrReplaced, err))
	}
	return err
}
