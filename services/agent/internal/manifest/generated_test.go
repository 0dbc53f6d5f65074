// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package manifest_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/internal/contract/syncrequest"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/render/renderers"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/manifest"
	"github.com/leatdev/leat/services/agent/internal/plan"
)

// cabinet is a store in memory.
type cabinet struct {
	mu     sync.Mutex
	values map[string]render.Generated
	saves  int
	fails  error
}

// Load implements manifest.GeneratedStore.
func (c *cabinet) Load(_ context.Context, service string) (render.Generated, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.values[service], c.fails
}

// Save implements manifest.GeneratedStore.
func (c *cabinet) Save(_ context.Context, service string, values render.Generated) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.saves++
	if c.values[service] = values; values == nil {
		delete(c.values, service)
	}
	return c.fails
}

// FactsChanged implements manifest.Cluster.
func (*cabinet) FactsChanged() <-chan struct{} { return nil }

// ClusterFacts implements manifest.Cluster.
func (*cabinet) ClusterFacts(context.Context) (render.ClusterFacts, error) {
	return render.ClusterFacts{KubernetesVersion: "v1.7.0"}, nil
}

// bundles is a store in which every bundle exists.
type bundles map[digest.Digest][]byte

// add packs files.
func (b bundles) add(t *testing.T, files map[string]string) digest.Digest {
	t.Helper()
	var buffer bytes.Buffer
	w := bundle.NewWriter(&buffer, bundle.Limits{})
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := w.WriteFile(name, false, int64(len(files[name])), strings.NewReader(files[name])); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	d := digest.FromBytes(buffer.Bytes())
	b[d] = buffer.Bytes()
	return d
}

// Open implements manifest.Bundles.
func (b bundles) Open(_ context.Context, d, _ digest.Digest) (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(b[d])), nil
}

func password(t *testing.T, r manifest.Renderer, d digest.Digest) any {
	t.Helper()
	out, err := r.Render(t.Context(), plan.Service{Name: "shop", Bundles: []plan.Bundle{{Digest: d}}}, inventory.Applied{})
	if err != nil {
		t.Fatal(err)
	}
	return out.Objects[0].Object["stringData"]
}

// TestGenerated renders a chart that makes a password, in several processes and at once.
func TestGenerated(t *testing.T) {
	t.Parallel()
	store := &cabinet{values: map[string]render.Generated{}}
	content := bundles{}
	pack := func(name string) digest.Digest {
		return content.add(t, map[string]string{
			"Chart.yaml":       "apiVersion: v2\nname: shop\nversion: 1.0.0\n",
			"templates/a.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: " + name + "}\nstringData: {password: {{ randAlphaNum 16 }}}\n",
		})
	}
	first, second := pack("first"), pack("second")
	process := func() manifest.Renderer {
		return manifest.Renderer{
			Bundles: content, Cluster: store, Generated: manifest.NewGenerated(store),
			Engine: render.Split{Others: renderers.Engine(render.Limits{})},
		}
	}
	r := process()
	got := make([]any, 8)
	var group sync.WaitGroup
	for i := range got {
		group.Go(func() { got[i] = password(t, r, first) })
	}
	group.Wait()
	for _, other := range got {
		if diff := cmp.Diff(got[0], other); diff != "" {
			t.Fatalf("renders at once differ: %s", diff)
		}
	}
	if store.saves != 1 {
		t.Errorf("got %d saves, want 1", store.saves)
	}
	if diff := cmp.Diff(got[0], password(t, process(), second)); diff != "" {
		t.Errorf("after a restart, with another version of the chart: %s", diff)
	}
	if err := r.Generated.Forget(t.Context(), "shop"); err != nil || len(store.values) != 0 {
		t.Errorf("forgotten: got %v, %v", store.values, err)
	}
	if cmp.Equal(got[0], password(t, r, first)) {
		t.Error("a service that comes back has its old password")
	}
	store.fails = errors.New("no rights")
	if _, err := process().Render(t.Context(), plan.Service{Name: "shop", Bundles: []plan.Bundle{{Digest: first}}}, inventory.Applied{}); !errors.Is(err, store.fails) {
		t.Errorf("without a store: got %v, want its error: an object must not be applied with a password that is lost", err)
	}
}

// generating returns a function that renders a chart for a sync request, as a new process does.
func generating(t *testing.T, store *cabinet, template string) func(request string) map[string]any {
	t.Helper()
	content := bundles{}
	d := content.add(t, map[string]string{
		"Chart.yaml":       "apiVersion: v2\nname: shop\nversion: 1.0.0\n",
		"templates/a.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData:\n" + template,
	})
	r := manifest.Renderer{
		Bundles: content, Cluster: store, Generated: manifest.NewGenerated(store),
		Engine: render.Split{Others: renderers.Engine(render.Limits{})},
	}
	return func(request string) map[string]any {
		t.Helper()
		out, err := r.Render(t.Context(), plan.Service{Name: "shop", SyncRequest: request, Bundles: []plan.Bundle{{Digest: d}}}, inventory.Applied{})
		if err != nil {
			t.Fatal(err)
		}
		if !out.AsksFacts {
			t.Error("the service is not rendered again when its certificates are due")
		}
		return out.Objects[0].Object["stringData"].(map[string]any)
	}
}

const authority = `
  {{- $ca := genCA "shop" 90 }}
  {{- $cert := genSignedCert "shop" nil nil 30 $ca }}
  ca: {{ $ca.Cert | b64enc }}
  cert: {{ $cert.Cert | b64enc }}
  password: {{ randAlphaNum 16 }}
`

// TestCertificatesAreRenewed renders a chart with an authority of 90 days and a certificate of 30.
func TestCertificatesAreRenewed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const day = 24 * time.Hour
		store := &cabinet{values: map[string]render.Generated{}}
		values := generating(t, store, authority)
		first := values("")
		time.Sleep(19 * day)
		if diff := cmp.Diff(first, values("")); diff != "" {
			t.Errorf("before the last third: %s", diff)
		}
		time.Sleep(2 * day)
		second := values("")
		if second["cert"] == first["cert"] || second["ca"] != first["ca"] || second["password"] != first["password"] {
			t.Errorf("got %v after %v, want another certificate alone", second, first)
		}
		if diff := cmp.Diff(second, values("")); diff != "" {
			t.Errorf("rendered again: %s", diff)
		}
		time.Sleep(40 * day)
		third := values("")
		if third["cert"] == second["cert"] || third["ca"] == second["ca"] || third["password"] != second["password"] {
			t.Errorf("got %v after %v, want another authority and certificate", third, second)
		}
		if store.saves != 3 {
			t.Errorf("got %d saves, want 3", store.saves)
		}
	})
}

// TestRegenerate has a person ask for other values.
func TestRegenerate(t *testing.T) {
	t.Parallel()
	store := &cabinet{values: map[string]render.Generated{}}
	values := generating(t, store, authority)
	first := values(syncrequest.New(false))
	request := syncrequest.New(true)
	second := values(request)
	if second["password"] == first["password"] || second["ca"] == first["ca"] {
		t.Errorf("got %v after %v, want everything made again", second, first)
	}
	if diff := cmp.Diff(second, values(request)); diff != "" {
		t.Errorf("the same request again: %s", diff)
	}
	if diff := cmp.Diff(second, values(syncrequest.New(false))); diff != "" {
		t.Errorf("a sync after it: %s", diff)
	}
	if diff := cmp.Diff(second, generating(t, store, authority)(request)); diff != "" {
		t.Errorf("the same request after a restart: %s", diff)
	}
	if store.saves != 2 {
		t.Errorf("got %d saves, want 2", store.saves)
	}
}

// TestChartOfTests has a chart in the folder of tests, beside plain manifests.
func TestChartOfTests(t *testing.T) {
	t.Parallel()
	store, content := &cabinet{values: map[string]render.Generated{}}, bundles{}
	d := content.add(t, map[string]string{
		"a.yaml":                 "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
		"tests/Chart.yaml":       "apiVersion: v2\nname: checks\nversion: 1.0.0\n",
		"tests/templates/a.yaml": "apiVersion: batch/v1\nkind: Job\nmetadata: {name: {{ .Release.Name }}-{{ .Capabilities.KubeVersion.Minor }}}\n",
	})
	s := plan.Service{Name: "shop", Bundles: []plan.Bundle{{Digest: d}}}
	s.Spec.Policy.Tests = &syncpolicy.Tests{Path: "tests"}
	r := manifest.Renderer{
		Bundles: content, Cluster: store, Generated: manifest.NewGenerated(store),
		Engine: render.Split{Others: renderers.Engine(render.Limits{})},
	}
	out, err := r.Render(t.Context(), s, inventory.Applied{})
	if err != nil {
		t.Fatal(err)
	}
	if len(out.Tests) != 1 || out.Tests[0].Object.GetName() != "shop-7" {
		t.Errorf("got %+v, want a test that knows the service and the version of the cluster", out.Tests)
	}
}
