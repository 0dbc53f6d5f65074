// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package suite_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/testkit/await"
)

// chartFiles returns Chart.yaml and Chart.lock of a chart with one dependency, as Helm writes them.
func chartFiles(t *testing.T, url string) map[string]string {
	t.Helper()
	type dependency struct {
		Name       string `json:"name"`
		Version    string `json:"version"`
		Repository string `json:"repository"`
		Alias      string `json:"alias,omitempty"`
	}
	declared := []dependency{{Name: "web", Version: "~1.2", Repository: url, Alias: "front"}}
	locked := []dependency{{Name: "web", Version: "1.2.0", Repository: url}}
	covered, err := json.Marshal([2][]dependency{declared, locked})
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for name, content := range map[string]any{
		"Chart.yaml": map[string]any{"apiVersion": "v2", "name": "shop", "version": "0.1.0", "dependencies": declared},
		"Chart.lock": map[string]any{"dependencies": locked, "digest": fmt.Sprintf("sha256:%x", sha256.Sum256(covered))},
	} {
		text, err := json.Marshal(content)
		if err != nil {
			t.Fatal(err)
		}
		texts["shop/"+name] = string(text)
	}
	return texts
}

// TestChartInGitWithDependencies delivers a chart whose dependency is in another repository. It is
// not allowed at first, and is still delivered after its repository is gone.
func TestChartInGitWithDependencies(t *testing.T) {
	h := startHub(t)
	charts, repo := startCharts(t), h.upstream.Repo(t, "deploy")
	charts.publish(t, "1.2.0")
	charts.publish(t, "1.2.5") // which the lock file does not pin
	push := func(color string) string {
		files := chartFiles(t, charts.URL)
		files["shop/values.yaml"] = "front: {color: " + color + ", password: x, facts: {cluster: {labels: {region: eu}}}}\n"
		return repo.Commit(t, "main", files)
	}
	first := push("blue")
	stable := &fleetv1.Document{Object: &fleetv1.Document_Repository{Repository: &fleetv1.Repository{
		Metadata: &typev1.Metadata{Name: "stable"}, Spec: &fleetv1.RepositorySpec{
			Type: gitcachev1.RepositoryType_REPOSITORY_TYPE_HELM, Url: charts.URL, PollInterval: durationpb.New(24 * time.Hour),
		},
	}}}
	deploy := repository("deploy", repo.URL())
	h.apply(t, stable, deploy, service("shop", "deploy", "shop"))
	h.waitService(t, "shop", "refused", func(s *fleetv1.ServiceStatus) bool {
		return s.GetProblem().GetReason() == errorsv1.Reason_REASON_CHART_DEPENDENCY_UNAVAILABLE
	})

	deploy.GetRepository().Spec.ChartRepositories = []string{"stable"}
	h.apply(t, deploy)
	shows := func(commit, color string) {
		t.Helper()
		want := map[string]string{"chart": "1.2.0", "color": color, "region": "eu", "password": "eA==", "script": "${HOME}"}
		h.waitService(t, "shop", "healthy in "+color, healthyAt(commit))
		await.Poll(t, "the settings in "+color, pause, func() (bool, string) {
			data, _ := h.settings(t, "shop")
			return maps.Equal(data, want), fmt.Sprint(data)
		})
	}
	shows(first, "blue")
	charts.Close()
	second := push("green")
	h.sync(t, "shop")
	shows(second, "green")
}
