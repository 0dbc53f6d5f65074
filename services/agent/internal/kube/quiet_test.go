// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/runtime/localkube"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/services/agent/internal/kube"
	"github.com/leatdev/leat/services/agent/internal/overview"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/reconcile/execute"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// The fleet of TestZeroCostSteadyState.
const (
	quietServices = 50
	quietObjects  = 8 // in each of them
	quietRefresh  = 1500 * time.Millisecond
)

// TestZeroCostSteadyState has 50 services with 400 objects in all, of kinds that the API server
// completes. Only watches reach the API server during plans without changes, refreshes, a restart,
// and the overview of the cluster.
func TestZeroCostSteadyState(t *testing.T) {
	t.Parallel()
	c := startCluster(t, func(p *localkube.Params) { p.APIServerOnly, p.Audit = true, true })
	for i := range quietServices {
		name := fmt.Sprintf("quiet-%d", i)
		c.put(t, name, quietFiles(), plan.Spec{Namespace: name, CreateNamespace: new(true), Prune: new(true)})
	}
	c.allHealthy(t)
	c.stop()

	refreshes := make(chan struct{}, 10*quietServices)
	c.refresh, c.observer = quietRefresh, func(context.Context, time.Duration, execute.Spent, *reason.Problem) { refreshes <- struct{}{} }
	client, err := kube.New(kube.Params{Kubeconfig: c.cp.KubeconfigPath(), UserAgent: userAgent, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	c.client = client
	before := len(c.requests(t))
	c.forget()
	c.start(t)
	viewing, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- client.Overview(viewing, kube.OverviewParams{Summary: overview.NewSummary()}) }()
	for range 10 {
		c.plan()
		c.allHealthy(t)
	}
	for range 4 * quietServices { // as refreshes come after 75 % to 125 % of the time, no service has had less than two by then
		await.Value(t, "a refresh", refreshes)
	}
	c.stop()
	end()
	if err := <-ended; err != nil {
		t.Errorf("overview ended: %v", err)
	}

	counts := map[string]int{}
	for _, r := range c.requests(t)[before:] {
		counts[r.verb+" "+r.resource]++
		if !isQuiet(r) {
			t.Errorf("got %s, want nothing but watches and lists", r)
		}
	}
	t.Logf("requests: %v", counts)
	for what, count := range counts {
		most := 4
		if what == "watch pods" {
			most *= 5 // as there are phases
		}
		if count > most {
			t.Errorf("%s: got %d, want a few at the start", what, count)
		}
	}
}

// allHealthy waits until all services were reported healthy.
func (c *cluster) allHealthy(t *testing.T) {
	t.Helper()
	for i := range quietServices {
		c.await(t, fmt.Sprintf("quiet-%d", i), func(got report.Status) bool {
			return got.Phase == report.Healthy && got.Counts.Healthy == quietObjects
		})
	}
}

// quietFiles are the manifests of a service.
func quietFiles() map[string]string {
	files := map[string]string{}
	for i := range quietObjects {
		name := fmt.Sprintf("object-%d", i)
		switch i % 4 {
		case 0:
			files[name+".yaml"] = "apiVersion: v1\nkind: Service\nmetadata: {name: " + name + "}\nspec: {selector: {app: x}, ports: [{name: a, port: 80}, {name: b, port: 81}]}\n"
		case 1:
			files[name+".yaml"] = "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: " + name + "}\nspec:\n  schedule: 0 0 1 1 *\n" +
				"  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: x, image: example.test/y, resources: {limits: {cpu: \"0.5\"}}}]}}}}\n"
		case 2:
			files[name+".yaml"] = "apiVersion: v1\nkind: Secret\nmetadata: {name: " + name + "}\nstringData: {key: value}\n"
		default:
			files[name+".yaml"] = configMap(name, "1")
		}
	}
	return files
}
