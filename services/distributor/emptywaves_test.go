// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"slices"
	"strings"
	"testing"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
)

// TestApplyNamesWavesThatSelectNobody applies policies, alone and with the objects that their waves select, also
// as a dry run.
func TestApplyNamesWavesThatSelectNobody(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	h.git.set("demo", "app", newFolder(t, "c1", "one"))
	labelled := func(labels map[string]string) *fleetv1.Document {
		document := serviceDocument("app", "a", "demo", "app")
		document.GetService().Metadata.Labels = labels
		return document
	}
	policy := func(waves ...*fleetv1.RolloutWave) *fleetv1.Document {
		return fleetdoc.Of(&fleetv1.RolloutPolicy{
			Metadata: &typev1.Metadata{Name: "waves"}, Spec: &fleetv1.RolloutPolicySpec{Services: []string{"app", "web"}, Waves: waves},
		})
	}
	canary := func(key, value string) *fleetv1.RolloutWave {
		return &fleetv1.RolloutWave{Name: "canary", Labels: map[string]string{key: value}}
	}
	ofService := `wave "canary" selects no service under the policy, and rollouts wait at such a wave; correct its clusters or labels, or make a service that it selects`
	ofCluster := `wave "canary" selects no cluster that the policy's project may use, and rollouts wait at such a wave; ` +
		`correct its clusters or labels, or make a cluster that it selects`
	check := func(what string, want []string, documents ...*fleetv1.Document) {
		t.Helper()
		for _, isDry := range []bool{true, false} {
			res, err := h.fleet(t, adminToken).Apply(t.Context(), &fleetv1.ApplyRequest{Documents: documents, DryRun: isDry})
			if err != nil {
				t.Fatal(err)
			}
			if got := res.GetOutcomes()[0].GetWarnings(); !slices.Equal(got, want) {
				t.Errorf("%s, dry run %v: got the warnings\n%s\nwant\n%s", what, isDry, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
	}
	a, b := labelledCluster("a", edge("eu")), labelledCluster("b", edge("us"))
	h.apply(t, repositoryDocument("demo"), clusterDocument("other"))
	check("no cluster has the label yet", []string{ofCluster}, policy(canary("region", "eu")))
	check("a cluster with the label, applied together", nil, policy(canary("region", "eu")), a, b)
	check("no service yet", nil, policy(canary("region", "eu")))
	check("no service yet, and a misspelt label", []string{ofCluster}, policy(canary("regoin", "eu")))
	check("a service in a cluster with the label, applied together", nil, policy(canary("region", "eu")), labelled(nil))
	check("a cluster with the label, and no service in it", []string{ofService}, policy(canary("region", "us")))
	check("a named cluster without a service", []string{ofService}, policy(&fleetv1.RolloutWave{Name: "canary", Clusters: []string{"b"}}))
	check("one of two waves", []string{ofService}, policy(&fleetv1.RolloutWave{Name: "first", Clusters: []string{"a"}}, canary("region", "us")))
	check("waves without selectors", nil, policy(&fleetv1.RolloutWave{Name: "tenth", Percent: 10}))
	check("a label of the service, applied together", nil, policy(canary("ring", "0")), labelled(map[string]string{"ring": "0"}))
	check("a label of the service", nil, policy(canary("ring", "0")))
	check("a global service that may derive one, applied together", nil, policy(canary("region", "us")), fleetdoc.Of(webGlobal()))
}
