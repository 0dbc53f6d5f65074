// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
)

// Follow implements reconcile.Cluster. It lists and watches the one object, and starts again
// whenever the watch ends.
func (c *Client) Follow(ctx context.Context, ref inventory.Ref, see k8s.FollowFunc) {
	const lasting = time.Minute // a watch that lived that long is not a failure
	policy := backoff.Policy{Initial: 500 * time.Millisecond, Max: 30 * time.Second, Multiplier: 2}
	for attempt := 0; ; attempt++ {
		began := time.Now()
		if err := c.followOnce(ctx, ref, see); err != nil && ctx.Err() == nil {
			see(nil, err)
		}
		if time.Since(began) > lasting {
			attempt = 0
		}
		if backoff.Wait(ctx, policy.Delay(attempt)) != nil {
			return
		}
	}
}

// followOnce follows until the watch ends. It returns only errors that a person should see.
func (c *Client) followOnce(ctx context.Context, ref inventory.Ref, see k8s.FollowFunc) error {
	resource, err := c.resource(ctx, ref)
	if k8s.IsUnknownKind(err) {
		see(nil, nil) // without a kind there is no object
		return nil
	}
	if err != nil {
		return err
	}
	options := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, ref.Name).String()}
	list, err := request(ctx, c, ref.Kind, func(ctx context.Context) (*unstructured.UnstructuredList, error) {
		return resource.List(ctx, options)
	})
	if errors.Is(err, k8s.ErrNotFound) {
		see(nil, nil) // the kind has just been removed
		return nil
	}
	if err != nil {
		return err
	}
	see(first(list), nil)
	options.ResourceVersion, options.AllowWatchBookmarks = list.GetResourceVersion(), true
	return c.stream(ctx, resource, options, see)
}

func first(list *unstructured.UnstructuredList) *unstructured.Unstructured {
	if len(list.Items) == 0 {
		return nil
	}
	return &list.Items[0]
}

func (c *Client) stream(ctx context.Context, resource dynamic.ResourceInterface, options metav1.ListOptions, see k8s.FollowFunc) error {
	w, err := resource.Watch(ctx, options)
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("watch: %w", translate(err, ""))
	}
	if err != nil {
		return nil // the next list has the details
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		live, _ := event.Object.(*unstructured.Unstructured)
		switch event.Type {
		case watch.Added, watch.Modified:
			see(live, nil)
		case watch.Deleted:
			see(nil, nil)
		case watch.Error:
			return nil
		case watch.Bookmark:
		}
	}
	return nil
}
