// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"os"
	"strings"
	"testing"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/renderstep"
)

// TestSecClusterReferencesAreWithheld applies the example of a service that refers to a Secret of its
// own cluster: an agent that cannot read it is given nothing, and another one the reference alone.
func TestSecClusterReferencesAreWithheld(t *testing.T) {
	t.Parallel()
	const path = "../../examples/encrypted/service.yaml"
	example, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/guides/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	if _, shown, _ := strings.Cut(string(example), "\n  config:\n"); !strings.Contains(string(page), "```yaml\n  config:\n"+shown+"```") {
		t.Error("docs/guides/configuration.md does not show the example")
	}
	h := startHub(t)
	content := newFolder(t, "c1", "one")
	h.git.set("encrypted", "app", content)
	documents := exampleDocuments(t, path)
	h.apply(t, documents...)
	agent := h.enrol(t, "berlin")
	agent.report(t, h, 1, "v1", renderstep.Words()...)
	stream := h.watchPlan(t, agent.token, "")
	outdated := h.waitService(t, "shop", func(s *fleetv1.Service) bool {
		return troubleOf(s) == errorsv1.Reason_REASON_AGENT_OUTDATED
	})
	if got := outdated.GetStatus().GetProblem().GetMessage(); !strings.Contains(got, "read cluster:// references") {
		t.Errorf("got %q", got)
	}
	if got := stream.next(t).GetServices()[0]; len(got.GetBundles()) != 0 {
		t.Errorf("got %v, want no bundles for an agent that would ignore references", got)
	}
	agent.report(t, h, 2, "v1", renderstep.WordsKnown()...)
	plan := stream.nextWith(t, content.snapshot.GetDigest())
	entry := plan.GetServices()[0]
	if got := entry.GetApply().GetPolicy().GetRequires(); len(got) != 2 {
		t.Errorf("got the words %v", got)
	}
	got, err := h.config(t, agent.token, "shop", entry.GetConfigDigest())
	if err != nil || !got.GetRestart() || len(got.GetSecrets())+len(got.GetValues()) != 0 || len(got.GetReferences()) != 2 ||
		got.GetReferences()["DB_PASSWORD"] != "cluster://vault/shop-db#password" {
		t.Errorf("got %v, %v", got, err)
	}
	if x := h.explained(t, "shop")["DB_PASSWORD"]; x.GetReference() != "cluster://vault/shop-db#password" || !x.GetSecret() {
		t.Errorf("got %v", x)
	}

	// Another reference is another configuration.
	service := documents[len(documents)-1]
	service.GetService().Spec.Config.References["DB_PASSWORD"] = "cluster://vault/shop-db#other"
	h.apply(t, service)
	for {
		if next := stream.next(t).GetServices()[0].GetConfigDigest(); next != entry.GetConfigDigest() {
			break
		}
	}
}
