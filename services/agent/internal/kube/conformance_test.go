// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/leatdev/leat/services/agent/internal/fingerprint"
	"github.com/leatdev/leat/services/agent/internal/health"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/reconcile"
	"github.com/leatdev/leat/services/agent/internal/reconcile/clustertest"
	"github.com/leatdev/leat/services/agent/internal/reconcile/observe"
)

// TestConformance runs the suite that the cluster in memory passes on the real API server.
func TestConformance(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	var watching sync.WaitGroup
	t.Cleanup(watching.Wait)
	clustertest.Run(t, clustertest.Subject{
		Cluster: c.client, Inventories: func() inventory.Store { return c.client.Inventories() },
		Run: func(ctx context.Context, watches func(reconcile.Watches), sink clustertest.Sink) {
			w := c.client.Watches()
			watches(w)
			watching.Go(func() { _ = w.Run(ctx, indifferent{sink}) })
		},
		Create: func(o *unstructured.Unstructured) bool { return c.somebody(t, http.MethodPost, collectionOf(o), o) },
		Change: func(key inventory.Key, change func(*unstructured.Unstructured)) bool {
			status, object := c.request(t, http.MethodGet, configMaps+key.Name, "", "")
			o := &unstructured.Unstructured{Object: object}
			change(o)
			return status == http.StatusOK && c.somebody(t, http.MethodPut, configMaps+key.Name, o)
		},
		Remove: func(key inventory.Key) bool {
			status, _ := c.request(t, http.MethodDelete, configMaps+key.Name, "", "")
			return status == http.StatusOK
		},
	})
}

// indifferent judges every object healthy.
type indifferent struct{ clustertest.Sink }

// Judge implements kube.Sink.
func (indifferent) Judge(*unstructured.Unstructured) health.Verdict {
	return health.Verdict{State: health.Healthy}
}

// Fingerprint implements kube.Sink.
func (indifferent) Fingerprint(o *unstructured.Unstructured) fingerprint.Sum {
	return fingerprint.Live(o, k8s.FieldManager)
}

// MarkUnobservable implements kube.Sink.
func (indifferent) MarkUnobservable(schema.GroupKind, observe.Scope, string) {}

// Owns implements kube.Sink.
func (indifferent) Owns(observe.Scope, string) bool { return true }

func collectionOf(o *unstructured.Unstructured) string {
	return fmt.Sprintf("/api/v1/namespaces/%s/configmaps", o.GetNamespace())
}

// somebody writes an object as another field manager.
func (c *cluster) somebody(t *testing.T, method, path string, o *unstructured.Unstructured) bool {
	t.Helper()
	body, err := json.Marshal(o.Object)
	if err != nil {
		t.Fatal(err)
	}
	status, _ := c.request(t, method, path+"?fieldManager="+clustertest.Somebody, "application/json", string(body))
	return status == http.StatusOK || status == http.StatusCreated
}
