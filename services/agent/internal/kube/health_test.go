// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/runtime/localkube"
	"github.com/leatdev/leat/internal/runtime/localkube/kubetest"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/kube"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/report"
)

const deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: %s}\nspec:\n  replicas: 2\n" +
	"  selector: {matchLabels: {app: %[1]s}}\n  template:\n    metadata: {labels: {app: %[1]s}}\n    spec:\n%s" +
	"      containers: [{name: x, image: example.test/x}]\n"

// TestControllers runs tests one after the other on a control plane with controllers and a node,
// because its start takes longer than most of them. Each has an engine of its own, which removes
// the services of the one before.
func TestControllers(t *testing.T) {
	t.Parallel()
	cp := kubetest.Start(t, func(p *localkube.Params) { p.Nodes = 1 })
	for name, test := range map[string]func(*testing.T, *cluster){
		"health of Deployments": testDeploymentHealth, "hanging rollouts": testHangingRollouts, "order and restarts": testOrderRestart,
		"tests outlast the agent": testTestsOutlastTheAgent,
	} {
		t.Run(name, func(t *testing.T) {
			c := clusterAt(t, cp.KubeconfigPath())
			c.cp = cp
			test(t, c)
		})
	}
}

// testDeploymentHealth follows Deployments on a control plane whose nodes run their pods, or
// cannot.
func testDeploymentHealth(t *testing.T, c *cluster) {
	t.Helper()
	good := c.put(t, "web", map[string]string{"a.yaml": fmt.Sprintf(deployment, "web", "")}, plan.Spec{Prune: new(true)})
	files := map[string]string{"a.yaml": fmt.Sprintf(deployment, "stuck", "      nodeSelector: {no: where}\n")}
	stuck := c.put(t, "stuck", files, plan.Spec{Prune: new(true), HealthTimeout: time.Hour})
	c.settled(t, stuck, report.Progressing)
	c.settled(t, good, report.Healthy)
	stuck = c.put(t, "stuck", files, plan.Spec{Prune: new(true), HealthTimeout: 2 * time.Second})
	got := c.settled(t, stuck, report.Degraded)
	if got.Problem.Reason != reason.HealthTimeout || !strings.Contains(got.Problem.Message, "Deployment.apps default/stuck") {
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

// assertShards checks that a change of one object writes one of the shards, and the head.
func assertShards(t *testing.T, c *cluster, store *kube.Inventories, record inventory.Record) {
	t.Helper()
	versions := func() map[string]string {
		_, list := c.request(t, http.MethodGet, "/api/v1/namespaces/leat-system/configmaps?labelSelector=leat.dev/inventory", "", "")
		all := map[string]string{}
		for _, item := range list["items"].([]any) {
			metadata := item.(map[string]any)["metadata"].(map[string]any)
			all[metadata["name"].(string)] = metadata["resourceVersion"].(string)
		}
		return all
	}
	before := versions()
	record.Objects = record.Objects.Clone()
	changed := record.Objects.Objects()[7]
	changed.UID = "11111111-0000-0000-0000-000000000000"
	record.Objects.Put(changed)
	if err := store.Save(t.Context(), record); err != nil {
		t.Fatal(err)
	}
	var written int
	after := versions()
	for name, version := range after {
		if before[name] != version {
			written++
		}
	}
	if len(after) != len(before) || len(after) < 30 || written != 2 {
		t.Errorf("got %d ConfigMaps written of %d, want 2 of many: the head and a shard", written, len(after))
	}
	assertRecord(t, c.client.Inventories(), record)
}
