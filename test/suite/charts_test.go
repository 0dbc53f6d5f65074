// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package suite_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/testkit/await"
)

// chartRepository is a static Helm repository with the chart web.
type chartRepository struct {
	*httptest.Server

	mu       sync.Mutex
	archives map[string][]byte // by version
	fetched  int               // archives, in all
}

func startCharts(t *testing.T) *chartRepository {
	t.Helper()
	r := &chartRepository{archives: map[string][]byte{}}
	r.Server = httptest.NewServer(http.HandlerFunc(r.serve))
	t.Cleanup(r.Close)
	return r
}

// publish adds a version of the chart, and returns the digest of its archive.
func (r *chartRepository) publish(t *testing.T, version string) string {
	t.Helper()
	files := map[string]string{
		"web/Chart.yaml":  "apiVersion: v2\nname: web\nversion: " + version + "\n",
		"web/values.yaml": "color: none\n",
		"web/templates/settings.yaml": `apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data:
  chart: {{ .Chart.Version | quote }}
  color: {{ .Values.color | quote }}
  password: {{ .Values.password | b64enc | quote }}
  region: {{ .Values.facts.cluster.labels.region | quote }}
  script: "${HOME}"
`,
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	w := tar.NewWriter(z)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(files[name])), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(files[name])); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.archives[version] = packed.Bytes()
	return digest.FromBytes(packed.Bytes()).Hex()
}

func (r *chartRepository) serve(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	version := strings.TrimSuffix(strings.TrimPrefix(req.URL.Path, "/web-"), ".tgz")
	switch archive, ok := r.archives[version]; {
	case req.URL.Path == "/index.yaml":
		fmt.Fprintln(w, "apiVersion: v1\nentries:\n  web:")
		for version, archive := range r.archives {
			fmt.Fprintf(w, "  - name: web\n    version: %s\n    digest: %s\n    urls: [web-%s.tgz]\n", version, digest.FromBytes(archive).Hex(), version)
		}
	case ok:
		r.fetched++
		_, _ = w.Write(archive)
	default:
		http.NotFound(w, req)
	}
}

// settings returns the data of the service's ConfigMap, with its labels.
func (h *hub) settings(t *testing.T, namespace string) (data, labels map[string]string) {
	t.Helper()
	code, body := h.kubeGet(t, "/api/v1/namespaces/"+namespace+"/configmaps/settings")
	var object struct {
		Data     map[string]string
		Metadata struct{ Labels map[string]string }
	}
	if code != http.StatusOK || json.Unmarshal([]byte(body), &object) != nil {
		t.Fatalf("the settings of %s: got %d %s", namespace, code, body)
	}
	return object.Data, object.Metadata.Labels
}

// TestChartFromOneRepositoryValuesFromAnother follows a chart of a Helm repository, its values in Git
// and a patch behind it to the cluster: a new version in the range, new values while the chart's
// repository is away, another label of the cluster, and another value of the configuration.
func TestChartFromOneRepositoryValuesFromAnother(t *testing.T) {
	h := startHub(t)
	charts, repo := startCharts(t), h.upstream.Repo(t, "deploy")
	first := charts.publish(t, "1.2.0")
	charts.publish(t, "2.0.0")
	values := func(color string) string {
		return repo.Commit(t, "main", map[string]string{
			"shop/values.yaml":                "color: " + color + "\n",
			"shop/patches/kustomization.yaml": "labels:\n- pairs: {team: shop}\n",
		})
	}
	commit := values("blue")
	cluster := func(region string) *fleetv1.Document {
		return &fleetv1.Document{Object: &fleetv1.Document_Cluster{Cluster: &fleetv1.Cluster{
			Metadata: &typev1.Metadata{Name: "demo", Labels: map[string]string{"region": region}},
		}}}
	}
	helm := &fleetv1.Document{Object: &fleetv1.Document_Repository{Repository: &fleetv1.Repository{
		Metadata: &typev1.Metadata{Name: "charts"}, Spec: &fleetv1.RepositorySpec{
			Type: gitcachev1.RepositoryType_REPOSITORY_TYPE_HELM, Url: charts.URL, PollInterval: durationpb.New(24 * time.Hour),
		},
	}}}
	shop := service("shop", "deploy", "shop")
	spec := shop.GetService().Spec
	spec.Sources[0].Mount = "deploy"
	spec.Sources = append([]*typev1.Source{{
		Repository: "charts", Chart: "web", Mount: "chart", Ref: &typev1.GitRef{Selector: &typev1.GitRef_Semver{Semver: "~1.2"}},
	}}, spec.Sources...)
	spec.Render = []*typev1.RenderStep{
		{Path: "chart", Renderer: &typev1.RenderStep_Helm{Helm: &typev1.HelmStep{
			ValuesFiles: []string{"deploy/values.yaml", "deploy/missing.yaml?"}, Parameters: map[string]string{"password": "${PASSWORD}"}, FactsAt: "facts",
		}}},
		{Path: "deploy/patches", FromPrevious: true, Renderer: &typev1.RenderStep_Kustomize{Kustomize: &typev1.KustomizeStep{}}},
	}
	spec.Config = &fleetv1.ServiceConfig{Secrets: map[string]string{"PASSWORD": "hunter2"}}
	h.apply(t, cluster("eu"), helm, repository("deploy", repo.URL()), shop)

	shows := func(what, number, version, color, region, password string) {
		t.Helper()
		h.waitService(t, "shop", what, func(s *fleetv1.ServiceStatus) bool {
			return slices.Equal(s.GetReport().GetAppliedCommits(), []string{version, commit}) && healthyAt(version)(s) &&
				slices.Equal(s.GetReport().GetAppliedVersions(), []string{number, ""})
		})
		want := map[string]string{"color": color, "region": region, "password": password, "script": "${HOME}"}
		await.Poll(t, what, pause, func() (bool, string) {
			data, labels := h.settings(t, "shop")
			delete(data, "chart")
			return maps.Equal(data, want) && labels["team"] == "shop", fmt.Sprint(data, labels)
		})
	}
	const encoded = "aHVudGVyMg==" // hunter2, as the template encodes it
	shows("healthy at first", "1.2.0", first, "blue", "eu", encoded)

	second := charts.publish(t, "1.2.5")
	h.sync(t, "shop")
	shows("at the new version", "1.2.5", second, "blue", "eu", encoded)

	charts.Close()
	commit = values("green")
	h.sync(t, "shop")
	shows("at the new values", "1.2.5", second, "green", "eu", encoded)

	h.apply(t, cluster("us"))
	shows("rendered for the new label", "1.2.5", second, "green", "us", encoded)

	spec.Config.Secrets["PASSWORD"] = "hunter3"
	h.apply(t, shop)
	shows("rendered with the new secret", "1.2.5", second, "green", "us", "aHVudGVyMw==")
}
