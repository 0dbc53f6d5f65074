// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"

	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
)

// busy is an object whose status somebody changes after each of the first reads. It then has another uid, if that is set.
type busy struct {
	dynamic.ResourceInterface

	version, changes int
	uid, nextUID     types.UID
	patches          int
}

func (b *busy) Get(context.Context, string, metav1.GetOptions, ...string) (*unstructured.Unstructured, error) {
	live := &unstructured.Unstructured{}
	live.SetUID(b.uid)
	live.SetResourceVersion(string(rune('0' + b.version)))
	if b.changes > 0 {
		b.changes--
		b.version++
		if b.nextUID != "" {
			b.uid = b.nextUID
		}
	}
	return live, nil
}

func (b *busy) Patch(_ context.Context, name string, _ types.PatchType, body []byte, _ metav1.PatchOptions, _ ...string) (*unstructured.Unstructured, error) {
	var patch unstructured.Unstructured
	if err := json.Unmarshal(body, &patch.Object); err != nil {
		return nil, err
	}
	if patch.GetResourceVersion() != string(rune('0'+b.version)) {
		return nil, apierrors.NewConflict(schema.GroupResource{Resource: "deployments"}, name, errors.New("the object has been modified"))
	}
	b.patches++
	return &patch, nil
}

// TestReleaseOutlivesChanges releases an object whose status changes meanwhile, which must not be forgotten for that, and
// one that is replaced meanwhile.
func TestReleaseOutlivesChanges(t *testing.T) {
	t.Parallel()
	release := func(b *busy) error {
		return retry.RetryOnConflict(retry.DefaultBackoff, func() error { return letGo(t.Context(), b, inventory.Object{UID: "own"}) })
	}
	changing := &busy{uid: "own", changes: 2}
	if err := release(changing); err != nil || changing.patches != 1 {
		t.Errorf("a status that changes: got %d patches and %v, want 1", changing.patches, err)
	}
	replaced := &busy{uid: "own", changes: 1, nextUID: "another"}
	if err := release(replaced); !errors.Is(err, k8s.ErrReplaced) || replaced.patches != 0 {
		t.Errorf("an object that is replaced: got %d patches and %v, want %v", replaced.patches, err, k8s.ErrReplaced)
	}
}
