// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/localkube"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/kube"
	"github.com/leatdev/leat/services/agent/internal/reconcile"
)

const deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: %s}\nspec:\n  replicas: 2\n" +
	"  selector: {matchLabels: {app: %[1]s}}\n  template:\n    metadata: {labels: {app: %[1]s}}\n    spec:\n%s" +
	"      containers: [{name: x, image: example.test/x}]\n"

// TestDeploymentHealth follows Deployments on a control plane whose nodes run their pods, or cannot.
func TestDeploymentHealth(t *testing.T) {
	t.Parallel()
	c := startCluster(t, func(p *localkube.Params) { p.Nodes = 1 })
	good := c.put(t, "web", map[string]string{"a.yaml": fmt.Sprintf(deployment, "web", "")}, reconcile.Spec{Prune: true})
	stuck := c.put(t, "stuck", map[string]string{"a.yaml": fmt.Sprintf(deployment, "stuck", "      nodeSelector: {no: where}\n")},
		reconcile.Spec{Prune: true, HealthTimeout: 2 * time.Second})
	c.settled(t, stuck, reconcile.Progressing)
	c.settled(t, good, reconcile.Healthy)
	got := c.settled(t, stuck, reconcile.Degraded)
	if got.Problem.Reason != reconcile.HealthTimeout || !strings.Contains(got.Problem.Message, "Deployment.apps default/stuck") {
		t.Errorf("problem: got %+v, want HEALTH_TIMEOUT that names the Deployment", got.Problem)
	}
}

func largeRecord(service string, objects int) inventory.Record {
	record := inventory.Record{Service: service, ServiceUID: "u", Prune: true, Base: objects}
	for i := range objects {
		record.Objects.Put(inventory.Object{
			Ref: inventory.Ref{
				Key:     inventory.Key{Kind: "ConfigMap", Namespace: "default", Name: fmt.Sprintf("object-%d", i)},
				Version: "v1",
			},
			UID: fmt.Sprintf("00000000-0000-0000-0000-%012d", i),
		})
	}
	return record
}

func assertRecord(t *testing.T, store *kube.Inventories, want inventory.Record) {
	t.Helper()
	got, err := store.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || !got[0].Objects.Equal(want.Objects) {
		t.Fatalf("got %d records, want one with %d objects", len(got), want.Objects.Len())
	}
	got[0].Objects, want.Objects = inventory.Set{}, inventory.Set{}
	if diff := cmp.Diff(want, got[0], cmp.AllowUnexported(inventory.Set{})); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
}
