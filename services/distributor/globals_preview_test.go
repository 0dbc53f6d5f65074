// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"strings"
	"testing"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
)

// TestDryRunShowsWhatIsDerived asks what a global service would do, without storing it: which
// clusters it selects, including clusters of the same dry run, and what fails.
func TestDryRunShowsWhatIsDerived(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	h.git.set("demo", "app", newFolder(t, "c1", "one"))
	h.apply(t, repositoryDocument("demo"), labelledCluster("a", edge("eu")), labelledCluster("b", edge("us")), clusterDocument("c"))
	client := h.fleet(t, adminToken)
	dryRun := func(namespace string, more ...*fleetv1.Document) (*fleetv1.GlobalServiceStatus, error) {
		global := webGlobal()
		global.Spec.Template.Namespace = namespace
		res, err := client.Apply(t.Context(), &fleetv1.ApplyRequest{DryRun: true, Documents: append([]*fleetv1.Document{fleetdoc.Of(global)}, more...)})
		if err != nil {
			return nil, err
		}
		return res.GetOutcomes()[0].GetDocument().GetGlobalService().GetStatus(), nil
	}
	if got, err := dryRun("web"); err != nil || got.GetClusters() != 2 || got.GetFailing() != 0 || got.GetProblem() != nil {
		t.Errorf("got %v, %v, want two clusters", got, err)
	}
	if got, err := dryRun("web", labelledCluster("d", edge("eu"))); err != nil || got.GetClusters() != 3 {
		t.Errorf("got %v, %v, want the cluster of the same dry run, too", got, err)
	}
	got, err := dryRun("${{ self.labels.rgion }}")
	if err != nil || got.GetClusters() != 2 || got.GetFailing() != 2 || got.GetProblem().GetReason() != errorsv1.Reason_REASON_DERIVATION_FAILED ||
		!strings.Contains(got.GetProblem().GetMessage(), "cluster a") {
		t.Errorf("got %v, %v, want that the label fails for both", got, err)
	}
	if _, err := fleetcalls.Get[*fleetv1.GlobalService](t.Context(), h.fleet(t, adminToken), "web"); err == nil {
		t.Error("a dry run stored the global service")
	}

	// A name that no cluster has is refused at once, with the existing ones.
	for namespace, want := range map[string]string{
		"${{ self.lables.region }}":            "self has no field lables; its fields are agent, annotations, kubernetes, labels, name, project",
		"${{ self.kubernetes.minr }}":          "self.kubernetes has no field minr; its fields are version, major, minor, provider",
		"${{ self.name.region }}":              "self.name is a text",
		"${{ self.labels['rgion'] }}":          "",
		"${{ self.agent.version }}":            "",
		"${{ string(self.kubernetes.minor) }}": "",
	} {
		_, err := dryRun(namespace)
		if want == "" && err != nil || want != "" && (rpcerr.ReasonOf(err) != errorsv1.Reason_REASON_FIELD_INVALID || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", namespace, err, want)
		}
	}
	wrong := webGlobal()
	wrong.Spec.Clusters.When = "self.kubernets.minor > 30"
	_, err = client.Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{fleetdoc.Of(wrong)}})
	if rpcerr.ReasonOf(err) != errorsv1.Reason_REASON_FIELD_INVALID || rpcerr.Metadata(err)[rpcerr.MetadataField] != "documents[0].spec.clusters.when" {
		t.Errorf("got %v, want a condition that is refused", err)
	}
}

// TestConfigTellsWhyItIsNotDerived takes away the label that a service is derived from. Its agent keeps what it
// has, and is told that rather than that the database is away.
func TestConfigTellsWhyItIsNotDerived(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	h.git.set("demo", "app", newFolder(t, "c1", "one"))
	h.apply(t, repositoryDocument("demo"), labelledCluster("eu-1", edge("eu")), fleetdoc.Of(webGlobal()))
	agent := h.enrol(t, "eu-1")
	digest := entryOf(planOf(t, h, agent, ""), "web").GetConfigDigest()
	if _, err := h.config(t, agent.token, "web", digest); err != nil {
		t.Fatal(err)
	}
	h.apply(t, labelledCluster("eu-1", map[string]string{"tier": "edge"}))
	_, err := h.config(t, agent.token, "web", digest)
	wantReason(t, err, "DERIVATION_FAILED")
	if !strings.Contains(err.Error(), "spec.template.namespace of global service web fails for cluster eu-1") {
		t.Errorf("got %v, want the cause", err)
	}
}
