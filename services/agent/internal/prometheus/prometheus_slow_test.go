// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package prometheus_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/kit/childproc"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/loopback"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/metrics"
	"github.com/leatdev/leat/services/agent/internal/prometheus"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// cart is an inventory of one Deployment.
type cart struct{}

func (cart) Objects(string) ([]report.ObjectStatus, error) {
	return []report.ObjectStatus{{Ref: inventory.Ref{Key: inventory.Key{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "cart"}}}}, nil
}

const samples = `container_cpu_usage_seconds_total{namespace="shop",pod="%[1]s",container="web"} %[2]d
container_cpu_usage_seconds_total{namespace="shop",pod="%[1]s",container=""} %[2]d
container_cpu_cfs_throttled_periods_total{namespace="shop",pod="%[1]s",container="web"} %[2]d
container_cpu_cfs_periods_total{namespace="shop",pod="%[1]s",container="web"} %[2]d
container_memory_working_set_bytes{namespace="shop",pod="%[1]s",container="web"} 64
container_memory_working_set_bytes{namespace="shop",pod="%[1]s",container=""} 65
container_network_receive_bytes_total{namespace="shop",pod="%[1]s",interface="eth0"} %[2]d
container_network_transmit_bytes_total{namespace="shop",pod="%[1]s",interface="eth0"} %[2]d
kube_pod_container_resource_requests{namespace="shop",pod="%[1]s",container="web",resource="cpu"} 0.1
kube_pod_container_resource_limits{namespace="shop",pod="%[1]s",container="web",resource="cpu"} 0.5
kube_pod_container_resource_requests{namespace="shop",pod="%[1]s",container="web",resource="memory"} 100
kube_pod_container_resource_limits{namespace="shop",pod="%[1]s",container="web",resource="memory"} 200
kube_pod_container_status_restarts_total{namespace="shop",pod="%[1]s",container="web"} 3
`

// TestSlowPrometheus has a real Prometheus answer every metric, about one pod of the service and one of
// another.
func TestSlowPrometheus(t *testing.T) {
	t.Parallel()
	if os.Getenv("LEAT_SLOW") == "" {
		t.Skip("LEAT_SLOW is not set: Prometheus is left to `make test-all`")
	}
	scraped := make(chan struct{}, 100)
	var count atomic.Int64
	kubelet := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n := count.Add(1)
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		_, _ = fmt.Fprintf(w, samples, "cart-7d4b9c5f68-x2k9z", n)
		_, _ = fmt.Fprintf(w, samples, "cart-db-7d4b9c5f68-x2k9z", n)
		select {
		case scraped <- struct{}{}:
		default:
		}
	}))
	t.Cleanup(kubelet.Close)
	at := startPrometheus(t, kubelet.Listener.Addr().String())
	source := metrics.New(cart{}, prometheus.New(http.DefaultTransport, func(string) (*url.URL, error) { return at, nil }))
	source.SetService(name)
	for range 3 {
		await.Value(t, "a scrape", scraped)
	}
	for metric, want := range map[metrics.Metric]float64{
		metrics.CPU: -1, metrics.CPURequest: 0.1, metrics.CPULimit: 0.5, metrics.CPUThrottled: 1, metrics.Memory: 64, metrics.MemoryRequest: 100,
		metrics.MemoryLimit: 200, metrics.Restarts: 3, metrics.NetworkReceived: -1, metrics.NetworkSent: -1,
	} {
		var got []metrics.Series
		await.True(t, fmt.Sprintf("figures of metric %d", metric), func() bool {
			now := time.Now()
			answer, err := source.Query(t.Context(), metrics.Request{
				Service: "app", Metric: metric, Window: metrics.Window{Start: now.Add(-time.Minute), End: now.Add(time.Second), Step: time.Second},
			})
			if err != nil {
				t.Fatalf("metric %d: %v", metric, err)
			}
			got = answer.Series
			return len(got) > 0
		})
		last := got[0].Points[len(got[0].Points)-1].Value
		if len(got) != 1 || got[0].Pod != "cart-7d4b9c5f68-x2k9z" || want >= 0 && last != want || last <= 0 {
			t.Errorf("metric %d: got %d series, the first of %s with %v, want one of the service's pod with %v", metric, len(got), got[0].Pod, last, want)
		}
	}
}

// startPrometheus runs a Prometheus that scrapes the target, and returns its address.
func startPrometheus(t *testing.T, target string) *url.URL {
	t.Helper()
	build := exec.CommandContext(t.Context(), filepath.Join("..", "..", "..", "..", "tools", "prometheus", "build.sh"))
	build.Stderr = os.Stderr // it reports that this takes a while
	program, err := build.Output()
	if err != nil {
		t.Fatalf("build Prometheus: %v", err)
	}
	folder := t.TempDir()
	address, config := loopback.Addr(t), filepath.Join(folder, "prometheus.yml")
	content := "global: {scrape_interval: 1s}\nscrape_configs: [{job_name: kubelet, static_configs: [{targets: ['" + target + "']}]}]\n"
	if err := os.WriteFile(config, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	command := exec.Command(strings.TrimSpace(string(program)), "--config.file="+config, "--storage.tsdb.path="+filepath.Join(folder, "data"),
		"--web.listen-address="+address)
	command.Stdout, command.Stderr = &said, &said
	ended, err := childproc.Start(command)
	if err != nil {
		t.Fatalf("start Prometheus: %v", err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		<-ended
		if t.Failed() {
			t.Logf("Prometheus said:\n%s", said.String())
		}
	})
	return &url.URL{Scheme: "http", Host: address}
}
