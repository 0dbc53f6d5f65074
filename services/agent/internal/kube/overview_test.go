// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/internal/runtime/localkube"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/services/agent/internal/kube"
	"github.com/leatdev/leat/services/agent/internal/overview"
)

// viewer follows the overview of a cluster.
type viewer struct {
	summary *overview.Summary
	logs    *logBuffer
	backs   atomic.Int32
}

// view runs an overview until the test ends, as the given user or, with "", as an administrator.
func view(t *testing.T, c *cluster, as string) *viewer {
	t.Helper()
	v := &viewer{summary: overview.NewSummary(), logs: &logBuffer{}}
	client, err := kube.New(kube.Params{
		Kubeconfig: kubeconfigAs(t, c, as), UserAgent: userAgent,
		Logger: slog.New(slog.NewTextHandler(v.logs, &slog.HandlerOptions{Level: slog.LevelInfo})),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- client.Overview(ctx, kube.OverviewParams{
			Summary: v.summary, Back: func() { v.backs.Add(1) }, Denied: backoff.Policy{Initial: 100 * time.Millisecond, Max: 100 * time.Millisecond},
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("overview ended: %v", err)
		}
	})
	return v
}

// await waits until the overview matches.
func (v *viewer) await(t *testing.T, what string, want func(overview.Overview) bool) {
	t.Helper()
	ctx := await.Context(t)
	for {
		got := withoutRepair(v.summary.Current())
		if want(got) {
			return
		}
		select {
		case <-v.summary.Changed():
		case <-ctx.Done():
			t.Fatalf("waited in vain for %s: got nodes %+v, pods %+v, warnings %+v", what, got.Nodes, got.Pods, got.Warnings)
		}
	}
}

// withoutRepair returns an overview without the warning of an API server that starts slowly: it finds its
// own service without an address, and repairs that.
func withoutRepair(o overview.Overview) overview.Overview {
	if o.Warnings == nil {
		return o
	}
	own := func(w overview.Warning) bool {
		return w.Kind == "Service" && w.Namespace == "default" && w.Name == "kubernetes"
	}
	rest := slices.DeleteFunc(slices.Clone(o.Warnings.Latest), own)
	o.Warnings = &overview.WarningsPart{Count: o.Warnings.Count - (len(o.Warnings.Latest) - len(rest)), Latest: rest}
	return o
}

func (v *viewer) pods(t *testing.T, want overview.PodsPart) {
	t.Helper()
	v.await(t, fmt.Sprintf("pods %+v", want), func(o overview.Overview) bool { return o.Pods != nil && *o.Pods == want })
}

const (
	defaultPods   = "/api/v1/namespaces/default/pods"
	defaultEvents = "/api/v1/namespaces/default/events"
)

// viewedNode is a node of 4 processors and 8 GiB.
func viewedNode(name, version string) (manifest, status string) {
	manifest = fmt.Sprintf(`{"metadata":{"name":%q}}`, name)
	status = fmt.Sprintf(`{"status":{"capacity":{"cpu":"4","memory":"8Gi","pods":"110"},"allocatable":{"cpu":"3900m","memory":"7Gi","pods":"110"},
		"nodeInfo":{"kubeletVersion":%q},"conditions":[{"type":"MemoryPressure","status":"False"},{"type":"Ready","status":"True"}]}}`, version)
	return manifest, status
}

func viewedEvent(name, kind, reason, seen string, count int) string {
	return fmt.Sprintf(`{"metadata":{"name":%q},"type":%q,"reason":%q,"message":"%[3]s, says the test","count":%d,"lastTimestamp":%q,
		"involvedObject":{"kind":"Pod","namespace":"default","name":"pod-0"}}`, name, kind, reason, count, seen)
}

// TestOverview creates, changes and deletes nodes, pods and warnings on a real API server, which is
// stopped and restarted meanwhile. The overview sends only watches.
func TestOverview(t *testing.T) {
	t.Parallel()
	c := startCluster(t, func(p *localkube.Params) { p.APIServerOnly, p.Audit = true, true })
	post := func(path, body string) { t.Helper(); c.must(t, http.MethodPost, path, "application/json", body) }
	patch := func(path, body string) { t.Helper(); c.must(t, http.MethodPatch, path, mergePatch, body) }
	phase := func(name, phase string) {
		t.Helper()
		patch(defaultPods+"/"+name+"/status", `{"status":{"phase":"`+phase+`"}}`)
	}
	remove := func(path string) { t.Helper(); c.must(t, http.MethodDelete, path+"?gracePeriodSeconds=0", "", "") }
	addNode := func(name, version string) {
		t.Helper()
		manifest, status := viewedNode(name, version)
		post("/api/v1/nodes", manifest)
		patch("/api/v1/nodes/"+name+"/status", status)
	}
	post("/api/v1/namespaces/default/serviceaccounts", `{"metadata":{"name":"default"}}`)

	v := view(t, c, "")
	v.await(t, "an empty cluster", func(o overview.Overview) bool {
		return o.Nodes != nil && o.Nodes.Count == 0 && o.Pods != nil && *o.Pods == overview.PodsPart{} && o.Warnings != nil && o.Warnings.Count == 0
	})

	addNode("node-0", "v1.36.3")
	addNode("node-1", "v1.35.1")
	patch("/api/v1/nodes/node-1", `{"spec":{"unschedulable":true}}`)
	v.await(t, "two nodes", func(o overview.Overview) bool {
		n := o.Nodes
		return n.Count == 2 && n.Ready == 2 && n.Cordoned == 1 && n.Kubelets["v1.36.3"] == 1 && n.Kubelets["v1.35.1"] == 1 &&
			n.Capacity == overview.Resources{CPUMillis: 8000, MemoryBytes: 16 << 30, Pods: 220} &&
			n.Allocatable == overview.Resources{CPUMillis: 7800, MemoryBytes: 14 << 30, Pods: 220}
	})
	patch("/api/v1/nodes/node-0", `{"metadata":{"labels":{"kubernetes.azure.com/cluster":"MC_a_b_westeurope"}}}`)
	v.await(t, "where the nodes run", func(o overview.Overview) bool { return o.Nodes.Provider == "aks" })
	for i := range 6 {
		post(defaultPods, fmt.Sprintf(`{"metadata":{"name":"pod-%d"},"spec":{"containers":[{"name":"c","image":"example.test/x"}]}}`, i))
	}
	v.pods(t, overview.PodsPart{Pending: 6})
	for i, to := range []string{"Running", "Running", "Succeeded", "Failed", "Unknown"} {
		phase(fmt.Sprint("pod-", i), to)
	}
	v.pods(t, overview.PodsPart{Pending: 1, Running: 2, Succeeded: 1, Failed: 1, Unknown: 1})

	post(defaultEvents, viewedEvent("w1", "Warning", "FailedScheduling", "2026-01-01T00:00:01Z", 1))
	post(defaultEvents, viewedEvent("n1", "Normal", "Scheduled", "2026-01-01T00:00:02Z", 1))
	post(defaultEvents, viewedEvent("w2", "Warning", "BackOff", "2036-01-01T00:00:03Z", 7))
	v.await(t, "two warnings", func(o overview.Overview) bool {
		want := overview.Warning{
			Reason: "BackOff", Kind: "Pod", Namespace: "default", Name: "pod-0", Message: "BackOff, says the test", Times: 7,
			LastSeen: time.Date(2036, 1, 1, 0, 0, 3, 0, time.UTC),
		}
		return o.Warnings.Count == 2 && o.Warnings.Latest[0] == want && o.Warnings.Latest[1].Reason == "FailedScheduling"
	})

	// Changes during an outage are reported afterwards.
	backs := v.backs.Load()
	c.cp.KillAPIServer()
	if err := c.cp.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	phase("pod-5", "Running")
	remove(defaultPods + "/pod-3")
	remove(defaultEvents + "/w2")
	remove("/api/v1/nodes/node-1")
	v.pods(t, overview.PodsPart{Running: 3, Succeeded: 1, Unknown: 1})
	v.await(t, "one node and one warning", func(o overview.Overview) bool {
		return o.Nodes.Count == 1 && o.Nodes.Cordoned == 0 && o.Nodes.Capacity.Pods == 110 && len(o.Nodes.Kubelets) == 1 &&
			o.Warnings.Count == 1 && len(o.Warnings.Latest) == 1 && o.Warnings.Latest[0].Reason == "FailedScheduling"
	})
	if v.backs.Load() == backs {
		t.Error("nobody was told that the API server is back")
	}

	for _, name := range []string{"pod-0", "pod-1", "pod-2", "pod-4", "pod-5"} {
		remove(defaultPods + "/" + name)
	}
	remove("/api/v1/nodes/node-0")
	remove(defaultEvents + "/w1")
	v.pods(t, overview.PodsPart{})
	v.await(t, "an empty cluster again", func(o overview.Overview) bool { return o.Nodes.Count == 0 && o.Warnings.Count == 0 })

	for _, r := range c.requests(t) {
		if slices.Contains([]string{"nodes", "pods", "events"}, r.resource) && r.verb != "watch" {
			t.Errorf("got %s, want nothing but watches", r)
		}
	}
}

// TestOverviewForbidden has a viewer that may watch only pods, until it may watch nodes, too.
func TestOverviewForbidden(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	grant := func(resource string) {
		t.Helper()
		const rbac = "/apis/rbac.authorization.k8s.io/v1/"
		c.must(t, http.MethodPost, rbac+"clusterroles", "application/json", fmt.Sprintf(
			`{"metadata":{"name":%q},"rules":[{"apiGroups":[""],"resources":[%[1]q],"verbs":["list","watch"]}]}`, resource))
		c.must(t, http.MethodPost, rbac+"clusterrolebindings", "application/json", fmt.Sprintf(
			`{"metadata":{"name":%q},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":%[1]q},
			"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"narrow"}]}`, resource))
	}
	grant("pods")
	v := view(t, c, "narrow")
	v.pods(t, overview.PodsPart{})
	if got := v.summary.Current(); got.Nodes != nil || got.Warnings != nil {
		t.Errorf("got %+v, want pods alone", got)
	}
	grant("nodes")
	v.await(t, "nodes", func(o overview.Overview) bool { return o.Nodes != nil })
	if v.summary.Current().Warnings != nil {
		t.Error("warnings are known")
	}
	logs := v.logs.String()
	if strings.Count(logs, "\n") > 2 || strings.Count(logs, "resource=nodes") > 1 || strings.Count(logs, "resource=events") != 1 {
		t.Errorf("logs: got\n%swant one line for nodes and one for events at most", logs)
	}
}
