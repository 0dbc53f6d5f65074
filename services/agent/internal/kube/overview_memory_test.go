// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/testkit/heap"
	"github.com/leatdev/leat/services/agent/internal/kube"
	"github.com/leatdev/leat/services/agent/internal/overview"
)

// The cluster of TestOverviewMemory.
const (
	manyPods     = 50_000
	manyNodes    = 1_000
	manyWarnings = 10_000
	podBar       = 64      // bytes a pod
	heapBar      = 6 << 20 // bytes of everything
)

// largeCluster answers streaming lists like the API server of a large cluster, and sends nothing
// afterwards.
type largeCluster struct{ pods, nodes, warnings int }

// ServeHTTP implements http.Handler.
func (c largeCluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	selected := r.URL.Query().Get("fieldSelector")
	switch {
	case strings.HasSuffix(r.URL.Path, "/nodes"):
		for i := range c.nodes {
			_, status := viewedNode("", fmt.Sprintf("v1.36.%d", i%3))
			fmt.Fprintf(w, `{"type":"ADDED","object":{"metadata":{"name":"node-%d","uid":%q,"resourceVersion":"1"},%s}`+"\n", i, uuidOf(0, i), status[1:])
		}
	case strings.HasSuffix(r.URL.Path, "/events"):
		for i := range c.warnings {
			fmt.Fprintf(w, `{"type":"ADDED","object":{"metadata":{"name":"event-%d","uid":%q,"resourceVersion":"1"},"reason":"BackOff","message":%q,
				"lastTimestamp":"2026-01-01T%02d:%02d:%02dZ"}}`+"\n", i, uuidOf(1, i), strings.Repeat("message ", 100), i/3600, i/60%60, i%60)
		}
	case selected == "status.phase=Running":
		for i := range c.pods {
			_, _ = io.WriteString(w, podMetadata(i))
		}
	}
	_, _ = io.WriteString(w, `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"2","annotations":{"k8s.io/initial-events-end":"true"}}}}`+"\n")
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

func uuidOf(kind, i int) string { return fmt.Sprintf("3c151b95-652d-4eef-b789-%04d%08d", kind, i) }

// podMetadata is the metadata of a Deployment's pod, as the API server sends it.
func podMetadata(i int) string {
	name := fmt.Sprintf("a-deployment-of-a-team-5d59d67564-%05d", i)
	return fmt.Sprintf(`{"type":"ADDED","object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":%q,
		"generateName":"a-deployment-of-a-team-5d59d67564-","namespace":"namespace-%d","uid":%q,"resourceVersion":"%d",
		"labels":{"app":"a-deployment-of-a-team","pod-template-hash":"5d59d67564"},"annotations":{"prometheus.io/scrape":"true"},
		"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"a-deployment-of-a-team-5d59d67564","controller":true}],
		"managedFields":[{"manager":"kubelet","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:status":{"f:conditions":
		{"k:{\"type\":\"Ready\"}":{".":{},"f:type":{}}},"f:phase":{},"f:podIP":{}}},"subresource":"status"}]}}}`+"\n", name, i%100, uuidOf(2, i), 1000+i)
}

// TestOverviewMemory measures the memory for an overview of a cluster of 50,000 pods, with 1,000
// nodes and 10,000 warnings.
func TestOverviewMemory(t *testing.T) { // not parallel: it measures the heap
	empty := overviewHeap(t, largeCluster{})
	pods := overviewHeap(t, largeCluster{pods: manyPods})
	rest := overviewHeap(t, largeCluster{nodes: manyNodes, warnings: manyWarnings})
	each, all := (pods-empty)/manyPods, pods+rest-empty
	t.Logf("%d bytes a pod; %d KiB in all, %d KiB of them of an empty cluster", each, all>>10, empty>>10)
	if each > podBar {
		t.Errorf("heap: got %d bytes a pod, want at most %d", each, podBar)
	}
	if all-empty > heapBar {
		t.Errorf("heap: got %d bytes of nodes, pods and warnings, want at most %d", all-empty, heapBar)
	}
}

// overviewHeap measures the growth of the heap until an overview of the cluster is known.
func overviewHeap(t *testing.T, c largeCluster) int64 {
	t.Helper()
	server := httptest.NewServer(c)
	defer server.Close()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	config := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","clusters":[{"name":"c","cluster":{"server":%q}}],
		"contexts":[{"name":"c","context":{"cluster":"c"}}],"current-context":"c"}`, server.URL)
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	client, err := kube.New(kube.Params{Kubeconfig: path, UserAgent: userAgent, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	v := &viewer{summary: overview.NewSummary()}
	before := heap.Live()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- client.Overview(ctx, kube.OverviewParams{Summary: v.summary}) }()
	v.await(t, "a large cluster", func(o overview.Overview) bool {
		return o.Nodes != nil && o.Nodes.Count == c.nodes && o.Pods != nil && o.Pods.Running == c.pods &&
			o.Warnings != nil && o.Warnings.Count >= c.warnings && len(o.Warnings.Latest) == min(c.warnings, overview.MaxLatest)
	})
	used := heap.Live() - before
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	return used
}
