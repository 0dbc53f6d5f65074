// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/leatdev/leat/internal/kit/flight"
	"github.com/leatdev/leat/internal/kit/wake"
)

// refreshKinds is the minimum time between two requests for the API server's kinds, for all callers
// together.
const refreshKinds = 500 * time.Millisecond

// kinds maps kinds to resources. It keeps its answers until a caller asks for an unknown kind, or
// reports that they are outdated. It is safe for concurrent use, and concurrent callers share a
// request.
type kinds struct {
	fetch func(ctx context.Context, before *catalog) (*catalog, error)
	loads *flight.Group[struct{}, struct{}] // the one key: all kinds are asked for together

	mu        sync.Mutex
	known     *catalog // nil before the first answer
	outdated  bool
	refreshed time.Time      // when the latest request began that has been answered
	err       error          // its error
	changed   wake.Broadcast // notified when other kinds may be known than before
}

// newKinds returns kinds that know nothing yet. Each fetch has the timeout.
func newKinds(timeout time.Duration, fetch func(ctx context.Context, before *catalog) (*catalog, error)) *kinds {
	return &kinds{fetch: fetch, loads: flight.New[struct{}, struct{}](timeout)}
}

// mapping returns the resource of a kind. It returns a NoKindMatchError if the API server does not
// serve the kind, and another error if that is uncertain.
func (k *kinds) mapping(ctx context.Context, kind schema.GroupVersionKind) (*meta.RESTMapping, error) {
	if mapping, sure := k.lookup(kind); mapping != nil && sure {
		return mapping, nil
	}
	err := k.refresh(ctx, refreshKinds)
	mapping, _ := k.lookup(kind)
	switch {
	case mapping != nil:
		return mapping, nil // possibly outdated, but nothing better is known
	case err != nil:
		return nil, err
	case k.silent(kind.GroupVersion()):
		return nil, apierrors.NewServiceUnavailable(fmt.Sprintf("the server of %s does not answer", kind.GroupVersion()))
	default:
		return nil, noMatch(kind)
	}
}

func (k *kinds) lookup(kind schema.GroupVersionKind) (mapping *meta.RESTMapping, sure bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.known == nil {
		return nil, false
	}
	return k.known.mappings[kind], !k.outdated
}

func (k *kinds) silent(version schema.GroupVersion) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.known != nil && k.known.absent[version]
}

// refresh asks the API server again, unless the last answer is younger than age. Then it returns
// the error of that answer.
func (k *kinds) refresh(ctx context.Context, age time.Duration) error {
	k.mu.Lock()
	recent, err := time.Since(k.refreshed) < age, k.err
	k.mu.Unlock()
	if recent {
		return err
	}
	_, err = k.loads.Do(ctx, struct{}{}, func(ctx context.Context) (struct{}, error) { return struct{}{}, k.load(ctx) })
	return err
}

func (k *kinds) load(ctx context.Context) error {
	began := time.Now()
	k.mu.Lock()
	before := k.known
	k.outdated = false
	k.mu.Unlock()
	now, err := k.fetch(ctx, before)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.refreshed, k.err = began, err
	if err != nil {
		k.outdated = true
		return err
	}
	if k.known = now; now != before {
		k.changed.Notify()
	}
	return nil
}

// outdate makes the next call ask the API server again, and wakes the callers that wait for a kind.
func (k *kinds) outdate() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.outdated = true
	k.changed.Notify()
}

// servedBy returns the kinds that a definition serves, one for each served version, and the plural of
// their name.
func servedBy(definition *unstructured.Unstructured) (kinds []schema.GroupVersionKind, plural string) {
	group, _, _ := unstructured.NestedString(definition.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(definition.Object, "spec", "names", "kind")
	plural, _, _ = unstructured.NestedString(definition.Object, "spec", "names", "plural")
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	for _, item := range versions {
		version, _ := item.(map[string]any)
		if name, _ := version["name"].(string); version["served"] == true {
			kinds = append(kinds, schema.GroupVersionKind{Group: group, Version: name, Kind: kind})
		}
	}
	return kinds, plural
}
