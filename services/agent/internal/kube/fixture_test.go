// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/internal/runtime/localkube"
	"github.com/leatdev/leat/internal/runtime/localkube/kubetest"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/render/renderers"
	"github.com/leatdev/leat/services/agent/internal/accounts"
	"github.com/leatdev/leat/services/agent/internal/kube"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/reconcile"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// userAgent is the agent's name in the audit log.
const userAgent = "leat-agent/test"

// cluster is an engine that works on a real API server, with bundles in memory.
type cluster struct {
	cp      *localkube.ControlPlane
	client  *kube.Client
	bundles *memoryBundles
	configs *memoryConfigs
	audit   auditLog

	engine *reconcile.Engine
	stop   func()

	prints   memoryPrints
	refresh  time.Duration // zero: the engine's default
	observer reconcile.Observer
	lock     accounts.Lock // of the agents that start from now on

	planning sync.Mutex // held while a plan is sent: an older one must not arrive behind a newer one

	mu       sync.Mutex
	services map[string]plan.Service
	statuses map[string]report.Status
	removed  map[string]bool // the services whose removal was told, since they were last reported
	changed  chan struct{}   // closed and replaced at every change of statuses
	given    memoryGiven
	planned  string                   // version of the newest plan
	settings syncpolicy.AgentSettings // the hub's messages to the agent
	adopted  string                   // version of the plan that is worked on
}

func TestMain(m *testing.M) { os.Exit(kubetest.Run(m)) }

// startCluster runs an engine on an API server, or with options on a control plane of its own.
func startCluster(t *testing.T, options ...func(*localkube.Params)) *cluster {
	t.Helper()
	var cp *localkube.ControlPlane
	if len(options) == 0 {
		cp = kubetest.Borrow(t)
	} else {
		cp = kubetest.Start(t, options...)
	}
	c := clusterAt(t, cp.KubeconfigPath())
	c.cp = cp
	return c
}

// clusterAt runs an engine on an existing API server.
func clusterAt(t *testing.T, kubeconfig string) *cluster {
	t.Helper()
	client, err := kube.New(kube.Params{
		Kubeconfig: kubeconfig, UserAgent: userAgent, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{
		client: client, bundles: &memoryBundles{content: map[digest.Digest][]byte{}}, configs: &memoryConfigs{},
		services: map[string]plan.Service{}, statuses: map[string]report.Status{}, removed: map[string]bool{}, changed: make(chan struct{}),
	}
	c.start(t)
	t.Cleanup(func() { c.stop() })
	return c
}

// start runs a new engine, as a restarted agent would.
func (c *cluster) start(t *testing.T) {
	t.Helper()
	watches := c.client.Watches()
	c.engine = reconcile.New(reconcile.Params{
		Render: render.Split{Others: renderers.Engine(render.Limits{})}, Facts: c.client.Facts(), Generated: c.client.Generated(),
		Cluster: c.client, Self: kube.Self{Client: c.client}.Ask, Bundles: c.bundles, Configs: c.configs, Inventories: c.client.Inventories(), Reporter: c, Watches: watches,
		Logger: slog.New(slog.DiscardHandler),
		Given:  &c.given, Namespace: kube.DefaultNamespace, Lock: c.lock,
		Fingerprints: &c.prints, Observer: c.observer,
		Settings: reconcile.Settings{Refresh: c.refresh, Retry: backoff.Policy{Initial: 50 * time.Millisecond, Max: 500 * time.Millisecond}},
	})
	ctx, cancel := context.WithCancel(context.Background())
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return watches.Run(ctx, c.engine) })
	group.Go(func() error { return c.engine.Run(ctx) })
	c.stop = sync.OnceFunc(func() {
		cancel()
		if err := group.Wait(); err != nil {
			t.Errorf("engine ended: %v", err)
		}
	})
}

// restart ends the engine and runs a new one, with the same plan.
func (c *cluster) restart(t *testing.T) {
	t.Helper()
	c.stop()
	c.forget()
	c.start(t)
	c.plan()
}

// forget drops the reports so far.
func (c *cluster) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.statuses)
}

// Report implements reconcile.Reporter.
func (c *cluster) Report(s report.Status) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.statuses[s.Service] = s
	delete(c.removed, s.Service)
	close(c.changed)
	c.changed = make(chan struct{})
}

// Forget implements reconcile.Reporter.
func (c *cluster) Forget(service string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.statuses, service)
	c.removed[service] = true
	close(c.changed)
	c.changed = make(chan struct{})
}

// Adopted implements reconcile.Reporter.
func (c *cluster) Adopted(version string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.adopted = version
	close(c.changed)
	c.changed = make(chan struct{})
}

// plan sends the services to the engine.
func (c *cluster) plan() {
	c.planning.Lock()
	defer c.planning.Unlock()
	c.mu.Lock()
	services := slices.Collect(maps.Values(c.services))
	version := fmt.Sprint(time.Now().UnixNano())
	c.planned = version
	settings := c.settings
	c.mu.Unlock()
	c.engine.SetPlan(plan.Plan{Version: version, Services: services, Settings: settings})
}

// configureAgent sends settings to the agent like a hub.
func (c *cluster) configureAgent(t *testing.T, settings syncpolicy.AgentSettings) {
	t.Helper()
	c.mu.Lock()
	c.settings = settings
	c.mu.Unlock()
	c.plan()
}

// put changes one service of the plan. The spec digest follows from the spec.
func (c *cluster) put(t *testing.T, name string, files map[string]string, spec plan.Spec) plan.Service {
	t.Helper()
	d := c.bundles.add(t, files)
	return c.set(name, spec, plan.Bundle{Digest: d, Commit: "c-" + d.Hex()[:8], Repository: "demo", Path: "apps/" + name})
}

// set is put for a service of several bundles. The engine never sees the spec without them.
func (c *cluster) set(name string, spec plan.Spec, bundles ...plan.Bundle) plan.Service {
	s := plan.Service{
		Name: name, UID: "uid-" + name, SpecDigest: digest.FromBytes(fmt.Append(nil, spec)).String(),
		Spec: spec, Bundles: bundles,
	}
	c.mu.Lock()
	c.services[name] = s
	c.mu.Unlock()
	c.plan()
	return s
}

// drop takes services out of the plan.
func (c *cluster) drop(names ...string) {
	c.mu.Lock()
	for _, name := range names {
		delete(c.services, name)
	}
	c.mu.Unlock()
	c.plan()
}

// await waits until a service's status matches.
func (c *cluster) await(t *testing.T, service string, want func(report.Status) bool) report.Status {
	t.Helper()
	ctx := await.Context(t)
	for {
		c.mu.Lock()
		status, changed := c.statuses[service], c.changed
		c.mu.Unlock()
		if want(status) {
			return status
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("waited in vain for service %s: got %s, problem %v, objects %+v", service, status.Phase, status.Problem, status.Objects)
		}
	}
}

// settled waits until the desired inputs of a service have been carried out, successfully or not.
func (c *cluster) settled(t *testing.T, s plan.Service, phase report.Phase) report.Status {
	t.Helper()
	return c.await(t, s.Name, func(got report.Status) bool {
		return got.Phase == phase && got.Observed.SpecDigest == s.SpecDigest &&
			(phase == report.Failed || slices.Equal(got.Applied.Digests, []string{s.Bundles[0].Digest.String()}))
	})
}

// gone waits until a service's removal is complete.
func (c *cluster) gone(t *testing.T, service string) {
	t.Helper()
	c.await(t, service, func(got report.Status) bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return got.Service == "" && c.removed[service]
	})
}

// request sends a request to the API server as an administrator.
func (c *cluster) request(t *testing.T, method, path, contentType, body string) (int, map[string]any) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, c.cp.Host()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", contentType)
	response, err := c.cp.HTTPClient().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var object map[string]any
	if err := json.NewDecoder(response.Body).Decode(&object); err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	return response.StatusCode, object
}

func (c *cluster) exists(t *testing.T, path string) bool {
	t.Helper()
	status, object := c.request(t, http.MethodGet, path, "", "")
	if status != http.StatusOK && status != http.StatusNotFound {
		t.Fatalf("GET %s: got %d", path, status)
	}
	metadata, _ := object["metadata"].(map[string]any)
	return status == http.StatusOK && metadata["deletionTimestamp"] == nil
}

func (c *cluster) mustExist(t *testing.T, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if !c.exists(t, path) {
			t.Errorf("%s does not exist, want it to", path)
		}
	}
}

func (c *cluster) mustNotExist(t *testing.T, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if c.exists(t, path) {
			t.Errorf("%s exists, want it not to", path)
		}
	}
}

// memoryBundles is a store in which every bundle exists.
type memoryBundles struct {
	mu      sync.Mutex
	content map[digest.Digest][]byte
}

func (b *memoryBundles) add(t *testing.T, files map[string]string) digest.Digest {
	t.Helper()
	var buffer bytes.Buffer
	w := bundle.NewWriter(&buffer, bundle.Limits{})
	for _, name := range slices.Sorted(maps.Keys(files)) {
		content := files[name]
		if err := w.WriteFile(name, false, int64(len(content)), strings.NewReader(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	d := digest.FromBytes(buffer.Bytes())
	b.mu.Lock()
	defer b.mu.Unlock()
	b.content[d] = buffer.Bytes()
	return d
}

// Open implements manifest.Bundles.
func (b *memoryBundles) Open(_ context.Context, d, _ digest.Digest) (io.ReadCloser, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	content, ok := b.content[d]
	if !ok {
		return nil, errors.New("no such bundle")
	}
	return io.NopCloser(bytes.NewReader(content)), nil
}

// configMap returns the manifest of a ConfigMap.
func configMap(name, value string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s\ndata:\n  value: %q\n", name, value)
}
