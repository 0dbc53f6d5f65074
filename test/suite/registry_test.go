// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package suite_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/internal/runtime/localkube"
	"github.com/leatdev/leat/internal/runtime/localkube/kubetest"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/charttest"
	"github.com/leatdev/leat/internal/testkit/registrytest"
	"github.com/leatdev/leat/internal/testkit/signtest"
)

// TestChartFromARegistry follows a chart of a registry that demands signatures to the cluster,
// without polls: a pushed version arrives because the registry announces it. A version that another
// key signed is refused, and the last good one stays. Then the registry goes, and services that are
// new are served from the mirror.
func TestChartFromARegistry(t *testing.T) {
	h := startHub(t)
	const secret = "a secret that only the registry knows"
	registry := registrytest.Start(t, registrytest.Config{Notify: h.gitcache.url() + "/webhooks/distribution", NotifyAuthorization: "Bearer " + secret})
	key, stranger := signtest.NewKey(t, signtest.P256), signtest.NewKey(t, signtest.P256)
	push := func(version string) string { return pushChart(t, registry, version) }
	first := push("1.0.0")
	key.PushTag(t, registry, "team/web", first)

	charts := repository("charts", "oci+http://"+registry.Addr+"/team/web")
	spec := charts.GetRepository().Spec
	spec.Type, spec.PollInterval, spec.WebhookSecret = gitcachev1.RepositoryType_REPOSITORY_TYPE_OCI, durationpb.New(24*time.Hour), new(secret)
	spec.Verification = &gitcachev1.Verification{CosignKeys: key.PublicKey(t)}
	h.apply(t, charts, serviceAt("shop", &typev1.GitRef{Selector: &typev1.GitRef_Semver{Semver: "1.x"}}))
	h.waitService(t, "shop", "healthy at first", healthyAt(first))

	second := push("1.1.0")
	stranger.PushTag(t, registry, "team/web", second)
	await.Poll(t, "the refusal of the version that a stranger signed", pause, func() (bool, string) {
		answer, err := fleetcalls.Get[*fleetv1.Repository](t.Context(), h.fleet, "charts")
		if err != nil {
			return false, err.Error()
		}
		problem := answer.GetStatus().GetProblem()
		return problem.GetReason() == errorsv1.Reason_REASON_UPSTREAM_SIGNATURE_REJECTED && strings.Contains(problem.GetMessage(), "1.1.0"), problem.String()
	})
	h.waitService(t, "shop", "healthy with the last good version", healthyAt(first))

	key.PushTag(t, registry, "team/web", second)
	h.waitService(t, "shop", "at the version that is signed now", func(s *fleetv1.ServiceStatus) bool {
		return healthyAt(second)(s) && s.GetReport().GetAppliedVersions()[0] == "1.1.0"
	})

	registry.Stop()
	h.apply(t, serviceAt("late", &typev1.GitRef{Selector: &typev1.GitRef_Tag{Tag: "1.1.0"}}))
	h.waitService(t, "late", "served from the mirror", healthyAt(second))
	h.sync(t, "shop")
	h.waitService(t, "shop", "healthy without the registry", healthyAt(second))
}

// pushChart pushes a version of the chart team/web, and returns its digest.
func pushChart(t *testing.T, registry *registrytest.Registry, version string) string {
	t.Helper()
	files := charttest.Files("web", version, "version "+version)
	return registry.Push(t, "team/web", version, registrytest.ChartType,
		registrytest.Layer{MediaType: registrytest.ChartLayerType, Data: charttest.Pack(t, "web", files)})
}

// serviceAt returns the document of a service of the repository charts.
func serviceAt(name string, ref *typev1.GitRef) *fleetv1.Document {
	d := service(name, "charts", "")
	d.GetService().Spec.Sources[0].Ref = ref
	return d
}

// TestRegistryIsPolled pushes a version that a service's range matches to a registry without
// notifications: the next poll delivers it. Then the registry goes, and a cluster that joins is
// served from the mirror.
func TestRegistryIsPolled(t *testing.T) {
	h := startHub(t)
	registry := registrytest.Start(t, registrytest.Config{})
	first := pushChart(t, registry, "1.0.0")
	charts := repository("charts", "oci+http://"+registry.Addr+"/team/web")
	spec := charts.GetRepository().Spec
	spec.Type, spec.PollInterval = gitcachev1.RepositoryType_REPOSITORY_TYPE_OCI, durationpb.New(8*time.Second)
	inRange := &typev1.GitRef{Selector: &typev1.GitRef_Semver{Semver: "1.x"}}
	h.apply(t, charts, serviceAt("shop", inRange))
	h.waitService(t, "shop", "healthy at first", healthyAt(first))

	const polls = "leat_mirror_fetch_duration_seconds_count"
	second := pushChart(t, registry, "1.1.0")
	before := h.counted(t, polls, "")
	h.waitService(t, "shop", "at the version that a poll has found", healthyAt(second))
	if n := h.counted(t, polls, "") - before; before == 0 || n > 1 {
		t.Errorf("got %d polls before the push, and %d until the version was delivered, want one at most", before, n)
	}

	registry.Stop()
	cluster := kubetest.Start(t, func(p *localkube.Params) { p.APIServerOnly = true })
	h.join(t, "new", cluster, "agent-new")
	late := serviceAt("late", inRange)
	late.GetService().Spec.Cluster = "new"
	h.apply(t, late)
	h.waitService(t, "late", "served from the mirror", healthyAt(second))
	code, body := get(t, cluster.HTTPClient(), cluster.Host()+"/api/v1/namespaces/late/configmaps/late", "")
	if code != http.StatusOK || !strings.Contains(body, "version 1.1.0") {
		t.Errorf("got %d %s, want the chart's object in the new cluster", code, body)
	}
}
