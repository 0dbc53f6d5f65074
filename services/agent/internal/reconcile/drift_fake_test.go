// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/leatdev/leat/services/agent/internal/fingerprint"
	"github.com/leatdev/leat/services/agent/internal/health"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	configuration "github.com/leatdev/leat/services/agent/internal/manifest"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/reconcile/observe"
)

// own makes Leat the manager of all fields of an object.
func own(o *unstructured.Unstructured) {
	fields := map[string]any{"f:metadata": map[string]any{"f:labels": map[string]any{"f:" + k8s.ServiceLabel: map[string]any{}}}}
	for key := range o.Object {
		if key != "metadata" {
			fields["f:"+key] = map[string]any{}
		}
	}
	_ = unstructured.SetNestedSlice(o.Object, []any{map[string]any{
		"manager": k8s.FieldManager, "operation": "Apply", "apiVersion": o.GetAPIVersion(), "fieldsV1": fields,
	}}, "metadata", "managedFields")
}

// sight returns a watch's observation of an object.
func sight(o *unstructured.Unstructured) observe.Observation {
	return observe.Observation{
		Service: o.GetLabels()[k8s.ServiceLabel], Object: inventory.Object{Ref: inventory.RefOf(o), UID: string(o.GetUID())},
		ResourceVersion: o.GetResourceVersion(), Health: health.Verdict{State: health.Healthy},
		Fingerprint: fingerprint.Live(o, k8s.FieldManager), Terminating: o.GetDeletionTimestamp() != nil, Completed: health.HasCompleted(o),
	}
}

func gone(o *unstructured.Unstructured, version int) observe.Observation {
	seen := sight(o)
	return observe.Observation{Service: seen.Service, Object: seen.Object, ResourceVersion: fmt.Sprint(version), Deleted: true}
}

// wrote passes a write to the fake watches. The caller holds w.mu.
func (w *world) wrote(o *unstructured.Unstructured) {
	if w.watcher != nil {
		w.watcher(sight(o))
	}
}

func keyOf(name string) inventory.Key {
	return inventory.Key{Kind: "ConfigMap", Namespace: "default", Name: name}
}

// edit changes an object as another client would, and returns the observation of that.
func (w *world) edit(t *testing.T, name string, change func(o *unstructured.Unstructured)) observe.Observation {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	live, ok := w.objects[keyOf(name)]
	if !ok {
		t.Fatalf("there is no %s", name)
	}
	o := live.DeepCopy()
	change(o)
	w.writes++
	o.SetResourceVersion(fmt.Sprint(w.writes))
	w.objects[keyOf(name)] = o
	return sight(o)
}

// erase deletes an object as another client would, and returns the observation of that.
func (w *world) erase(name string) observe.Observation {
	w.mu.Lock()
	defer w.mu.Unlock()
	live := w.objects[keyOf(name)]
	delete(w.objects, keyOf(name))
	w.writes++
	return gone(live, w.writes)
}

// setData is an edit.
func setData(value string) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) { o.Object["data"] = map[string]any{"value": value} }
}

func setUID(uid string) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) { o.SetUID(types.UID(uid)) }
}

// prints are fingerprints on a disk that outlives engines.
type prints struct{ *world }

func (p prints) Load(_ context.Context, service string) fingerprint.Table {
	takes(p.loadDelay)
	p.mu.Lock()
	defer p.mu.Unlock()
	table, err := fingerprint.DecodeTable(p.prints[service])
	if err != nil {
		return nil
	}
	return table
}

func (p prints) Save(_ context.Context, service string, table fingerprint.Table) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.prints[service] = table.Encode()
	return nil
}

func (p prints) Delete(_ context.Context, service string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.prints, service)
	return nil
}

// Config implements manifest.Configs.
func (w *world) Config(context.Context, plan.Service) (configuration.Configuration, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.configured++
	return configuration.Configuration{Variables: w.variables}, nil
}

// rendered counts opened bundles and requested configurations, which rendering needs.
func (w *world) rendered() (opened, configured int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.bases), w.configured
}
