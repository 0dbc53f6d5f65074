// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package suite_test

import (
	"net/http"
	"slices"
	"testing"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/internal/testkit/await"
)

// TestClusterView creates and deletes pods in a cluster with a node, and checks what the hub
// reports of it.
func TestClusterView(t *testing.T) {
	h := startHub(t)
	shown := func(what string, want func(*distributorv1.ClusterReport) bool) {
		t.Helper()
		await.Poll(t, "the hub to show "+what, pause, func() (bool, string) {
			answer, err := fleetcalls.Get[*fleetv1.Cluster](t.Context(), h.fleet, "demo")
			if err != nil {
				return false, err.Error()
			}
			report := answer.GetStatus().GetReport()
			return want(report), report.String()
		})
	}
	const pods = "/api/v1/namespaces/default/pods"
	shown("a node", func(r *distributorv1.ClusterReport) bool {
		o := r.GetOverview()
		return r.GetNodes() == 1 && o.GetNodes().GetReady() == 1 && o.GetNodes().GetCapacity().GetPods() > 0 &&
			o.GetPods() != nil && o.GetWarnings() != nil && r.GetKubernetesVersion() == "v1.36.3" && slices.Contains(r.GetCapabilities(), "overview")
	})
	for _, name := range []string{"a", "b"} {
		h.kubePost(t, pods, `{"metadata":{"name":"`+name+`"},"spec":{"containers":[{"name":"c","image":"example.test/x"}]}}`)
	}
	h.kubePost(t, "/api/v1/namespaces/default/events",
		`{"metadata":{"name":"e"},"type":"Warning","reason":"FailedScheduling","involvedObject":{"kind":"Pod","namespace":"default","name":"a"}}`)
	shown("two pods and a warning", func(r *distributorv1.ClusterReport) bool {
		o := r.GetOverview()
		return o.GetNodes().GetCount() == 1 && o.GetPods().GetRunning() == 2 && o.GetPods().GetPending() == 0 &&
			slices.ContainsFunc(o.GetWarnings().GetLatest(), func(w *distributorv1.ClusterWarning) bool { return w.GetName() == "a" })
	})
	h.kubeDelete(t, pods+"/a")
	shown("one pod", func(r *distributorv1.ClusterReport) bool {
		return r.GetOverview().GetPods().GetRunning() == 1 && r.GetOverview().GetNodes().GetCount() == 1
	})

	// A restarted agent reports the current state.
	h.agent.stop()
	h.kubeDelete(t, pods+"/b")
	await.Poll(t, "the pod to be gone", pause, func() (bool, string) {
		code, body := h.kubeGet(t, pods+"/b")
		return code == http.StatusNotFound, body
	})
	h.agent.start(t)
	shown("no pod", func(r *distributorv1.ClusterReport) bool {
		p := r.GetOverview().GetPods()
		return p != nil && p.GetRunning() == 0 && p.GetPending() == 0
	})
}
