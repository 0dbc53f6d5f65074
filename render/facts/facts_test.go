// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package facts_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/render/facts"
)

func full() render.StepInput {
	return render.StepInput{Input: render.Input{
		Variables: &render.Variables{Values: map[string]string{"REPLICAS": "3"}, Secrets: map[string]string{"PASSWORD": "p"}},
		Facts: render.Facts{
			Cluster: render.ClusterFacts{
				Name: "eu-1", Labels: map[string]string{"region": "eu"}, Annotations: map[string]string{"a": "b"},
				KubernetesVersion: "v1.36.1", APIVersions: []string{"apps/v1", "v1"},
			},
			Service: render.ServiceFacts{Name: "shop", Namespace: "web"},
			Sources: []render.SourceFacts{{Repository: "deploy", Path: "p", Mount: "m", Commit: "c", Version: "1.2.0", Digest: "sha256:d"}},
		},
		Installed: true,
	}}
}

// TestFactsAreNamedAsOnTheWire compares the document with the facts' own names in JSON.
func TestFactsAreNamedAsOnTheWire(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(full().Facts)
	if err != nil {
		t.Fatal(err)
	}
	var want any
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	document := facts.Document(full(), render.Asked{Facts: true, APIVersions: true})
	if diff := cmp.Diff(want, document["facts"]); diff != "" {
		t.Errorf("facts (-wire +document):\n%s", diff)
	}
	if diff := cmp.Diff(any(map[string]any{"REPLICAS": "3", "PASSWORD": "p"}), document["config"]); diff != "" || document["installed"] != true {
		t.Errorf("config (-want +got):\n%s", diff)
	}
}

func TestEveryFactHasItsName(t *testing.T) {
	t.Parallel()
	want := map[string]any{
		"config": map[string]any{}, "installed": false,
		"facts": map[string]any{
			"cluster": map[string]any{
				"name": "", "labels": map[string]any{}, "annotations": map[string]any{}, "kubernetesVersion": "", "apiVersions": []any{},
			},
			"service": map[string]any{"name": "", "namespace": ""},
			"sources": []any{},
		},
	}
	if diff := cmp.Diff(want, facts.Document(render.StepInput{}, render.Asked{Facts: true, APIVersions: true})); diff != "" {
		t.Errorf("document of nothing (-want +got):\n%s", diff)
	}
}

func TestDocumentHoldsOnlyWhatWasAsked(t *testing.T) {
	t.Parallel()
	if _, found := facts.Document(full(), render.Asked{})["facts"]; found {
		t.Error("the document has facts that nobody asked for")
	}
	document := facts.Document(full(), render.Asked{Facts: true})
	cluster := document["facts"].(map[string]any)["cluster"].(map[string]any)
	if diff := cmp.Diff(any([]any{}), cluster["apiVersions"]); diff != "" {
		t.Errorf("API versions that nobody asked for (-want +got):\n%s", diff)
	}
}

func TestParametersKeepSecretsApart(t *testing.T) {
	t.Parallel()
	want := map[string]any{"values": map[string]any{"REPLICAS": "3"}, "secrets": map[string]any{"PASSWORD": "p"}}
	if diff := cmp.Diff(want, facts.Parameters(full().Variables)); diff != "" {
		t.Errorf("parameters (-want +got):\n%s", diff)
	}
	want = map[string]any{"values": map[string]any{}, "secrets": map[string]any{}}
	if diff := cmp.Diff(want, facts.Parameters(nil)); diff != "" {
		t.Errorf("parameters of no configuration (-want +got):\n%s", diff)
	}
}
