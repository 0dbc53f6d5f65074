// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/internal/runtime/localkube"
	"github.com/leatdev/leat/internal/runtime/localkube/kubetest"
)

// BenchmarkMemory runs 50 services of 200 objects each in a cluster that holds 40,000 objects of
// others beside, and tells the agent's resident memory, and what the API server is asked for after
// a restart of the agent.
func BenchmarkMemory(b *testing.B) {
	const services, objects, foreign = 50, 200, 40_000
	cp := kubetest.Start(b, func(p *localkube.Params) { p.APIServerOnly = true })
	crowd(b, cp, foreign)
	for b.Loop() {
		agent := startLeat(b, cp, "LEAT_AGENT_REFRESH_INTERVAL=20s")
		started := time.Now()
		digests := map[string]string{}
		for i := range services {
			namespace := fmt.Sprintf("memory-%02d", i)
			createNamespace(b, cp, namespace)
			digests[namespace] = agent.hub.deploy(b, namespace, manifests(namespace, objects))
		}
		agent.settled(b, digests)
		b.ReportMetric(time.Since(started).Seconds(), "s-to-apply")
		agent.weigh(b, "")

		before := requests(b, cp)
		agent.restart(b)
		agent.settled(b, digests)
		agent.again(b, "", 2*services) // two refreshes of each, on the average
		b.ReportMetric(requests(b, cp)-before, "requests-after-restart")
		agent.weigh(b, "-after-restart")
		b.ReportMetric(0, "ns/op")
	}
}

// BenchmarkTenThousand applies 10,000 ConfigMaps in one service.
func BenchmarkTenThousand(b *testing.B) {
	const objects = 10_000
	cp := kubetest.Start(b, func(p *localkube.Params) { p.APIServerOnly = true })
	for b.Loop() {
		agent := startLeat(b, cp, "LEAT_AGENT_REFRESH_INTERVAL=20s", "LEAT_AGENT_APPLY_TIMEOUT=20m")
		createNamespace(b, cp, "many")
		files := map[string]string{}
		for i := range objects {
			name := fmt.Sprintf("object-%05d", i)
			files[name+".yaml"] = configMapOf("many", name)
		}
		took := agent.apply(b, "many", files)
		b.ReportMetric(took.Seconds(), "s-to-apply")
		agent.weigh(b, "")
		agent.again(b, "", 2)
		agent.weigh(b, "-after-refreshes")
		b.ReportMetric(0, "ns/op")
	}
}

// BenchmarkDrift changes an object again and again behind the agent's back, and measures how long
// it takes until the object is right again.
func BenchmarkDrift(b *testing.B) {
	const objects, changes = 300, 300 // one each: who insists is answered more and more slowly
	cp := kubetest.Start(b, func(p *localkube.Params) { p.APIServerOnly = true })
	for b.Loop() {
		agent := startLeat(b, cp, "LEAT_AGENT_REFRESH_INTERVAL=1h")
		createNamespace(b, cp, "drift")
		files := map[string]string{}
		for i := range objects {
			name := fmt.Sprintf("object-%05d", i)
			files[name+".yaml"] = configMapOf("drift", name)
		}
		agent.apply(b, "drift", files)
		seen := follow(b, cp, "drift")
		var took []time.Duration
		for i := range changes {
			name := fmt.Sprintf("object-%05d", i%objects)
			ask(b, cp, http.MethodPatch, "/api/v1/namespaces/drift/configmaps/"+name, "application/merge-patch+json",
				`{"data":{"app.properties":"changed by hand"}}`)
			started := time.Now()
			for version := range seen {
				if version.name == name && !strings.Contains(version.value, "changed by hand") {
					break
				}
			}
			took = append(took, time.Since(started))
		}
		slices.Sort(took)
		b.ReportMetric(took[len(took)/2].Seconds()*1e3, "p50-ms")
		b.ReportMetric(took[len(took)*99/100].Seconds()*1e3, "p99-ms")
		b.ReportMetric(0, "ns/op")
	}
}

// crowd fills the cluster with ConfigMaps of others.
func crowd(b *testing.B, cp *localkube.ControlPlane, n int) {
	b.Helper()
	createNamespace(b, cp, "crowd")
	var group errgroup.Group
	group.SetLimit(16)
	for i := range n {
		group.Go(func() error {
			body := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"other-%d"},"data":{"text":%q}}`, i, strings.Repeat("x", 500))
			if status, answer := ask(b, cp, http.MethodPost, "/api/v1/namespaces/crowd/configmaps", "application/json", body); status != http.StatusCreated {
				return fmt.Errorf("create ConfigMap: got %d %s", status, answer)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
}

// version is an object as a watch saw it.
type version struct{ name, value string }

// follow watches the ConfigMaps of a namespace from now on.
func follow(b *testing.B, cp *localkube.ControlPlane, namespace string) <-chan version {
	b.Helper()
	_, list := ask(b, cp, http.MethodGet, "/api/v1/namespaces/"+namespace+"/configmaps?limit=1", "", "")
	var page struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal([]byte(list), &page); err != nil {
		b.Fatal(err)
	}
	request, err := http.NewRequestWithContext(b.Context(), http.MethodGet,
		cp.Host()+"/api/v1/namespaces/"+namespace+"/configmaps?watch=true&resourceVersion="+page.Metadata.ResourceVersion, http.NoBody)
	if err != nil {
		b.Fatal(err)
	}
	response, err := cp.HTTPClient().Do(request)
	if err != nil {
		b.Fatal(err)
	}
	seen := make(chan version, 1024)
	go func() {
		defer response.Body.Close()
		for events := json.NewDecoder(response.Body); ; {
			var event struct {
				Object struct {
					Metadata struct{ Name string }
					Data     map[string]string
				}
			}
			if events.Decode(&event) != nil {
				return
			}
			seen <- version{name: event.Object.Metadata.Name, value: event.Object.Data["app.properties"]}
		}
	}()
	return seen
}

// settled waits until all services are applied.
func (l *leat) settled(b *testing.B, digests map[string]string) {
	b.Helper()
	for service, digest := range digests {
		l.hub.applied(b, service, digest)
	}
}

// restart kills the agent and starts it again. Its earlier reports no longer count.
func (l *leat) restart(b *testing.B) {
	b.Helper()
	_ = l.process.Process.Kill()
	_ = l.process.Wait()
	l.hub.change(func() { l.hub.reports = map[string]*distributorv1.ServiceReport{} })
	l.start(b)
}

// weigh reports the agent's resident memory now and at its highest.
func (l *leat) weigh(b *testing.B, when string) {
	b.Helper()
	status, err := os.Open(fmt.Sprintf("/proc/%d/status", l.process.Process.Pid))
	if err != nil {
		b.Fatal(err)
	}
	defer status.Close()
	for lines := bufio.NewScanner(status); lines.Scan(); {
		var kib float64
		if _, err := fmt.Sscanf(lines.Text(), "VmRSS: %f kB", &kib); err == nil {
			b.ReportMetric(kib/1024, "MiB"+when)
		}
		if _, err := fmt.Sscanf(lines.Text(), "VmHWM: %f kB", &kib); err == nil {
			b.ReportMetric(kib/1024, "MiB-peak"+when)
		}
	}
}
