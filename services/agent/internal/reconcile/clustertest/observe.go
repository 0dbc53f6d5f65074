// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package clustertest

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/services/agent/internal/health"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/reconcile"
	"github.com/leatdev/leat/services/agent/internal/reconcile/observe"
)

// listener is a Sink that waits for expected observations.
type listener struct {
	observations chan observe.Observation
	synced       chan schema.GroupKind
}

// Observe implements Sink.
func (l *listener) Observe(o observe.Observation) { l.observations <- o }

// Synced implements Sink.
func (l *listener) Synced(kind schema.GroupKind, _ observe.Scope) { l.synced <- kind }

// Judge implements the rest of the Sink of real watches.
func (l *listener) Judge(*unstructured.Unstructured) health.Verdict {
	return health.Verdict{State: health.Healthy}
}

// observed is the name of the object under test.
const observed = "observations"

// await skips observations until one of the object under test matches.
func (l *listener) await(t *testing.T, what string, want func(observe.Observation) bool) {
	t.Helper()
	for {
		if o := await.Value(t, what+" of "+observed, l.observations); o.Object.Name == observed && want(o) {
			return
		}
	}
}

// testObservations creates an object, changes it, gives it to another service, and deletes it.
func testObservations(t *testing.T, s Subject) {
	const buffer = 1 << 16
	l := &listener{observations: make(chan observe.Observation, buffer), synced: make(chan schema.GroupKind, buffer)}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s.Run(ctx, func(w reconcile.Watches) {
		w.Watch([]observe.Collection{{Kind: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}}})
	}, l)
	await.Value(t, "the watch to become complete", l.synced)
	o := Object(observed, "s", "1")
	o.SetFinalizers([]string{"example.test/hold"})
	live := apply(t, s, o)
	of := func(service string, deleted bool) func(observe.Observation) bool {
		return func(got observe.Observation) bool {
			return got.Service == service && got.Deleted == deleted && got.Object.UID == string(live.GetUID())
		}
	}
	l.await(t, "creation", of("s", false))
	key := inventory.RefOf(live).Key
	s.Change(key, func(o *unstructured.Unstructured) { o.SetLabels(map[string]string{k8s.ServiceLabel: "t"}) })
	l.await(t, "loss", of("s", true))
	l.await(t, "new owner", of("t", false))
	if _, err := s.Cluster.Delete(t.Context(), entry(live), k8s.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	l.await(t, "beginning of the end", of("t", false))
	s.Change(key, func(o *unstructured.Unstructured) { o.SetFinalizers(nil) })
	l.await(t, "end", of("t", true))
}
