// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/agent/internal/plan"
)

// entry is the content of testdata/entry.json.
func entry() plan.Service {
	content, err := digest.Parse("sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef")
	if err != nil {
		panic(err)
	}
	return plan.Service{
		Name: "shop", UID: "uid-1", SpecDigest: "sha256:spec", ConfigDigest: "hmac-sha256:config",
		Bundles: []plan.Bundle{{Digest: content, Commit: "c0ffee", Repository: "demo", Path: "apps/shop", Subpath: "shop"}},
		Spec: plan.Spec{
			Namespace: "shops", CreateNamespace: new(true), Prune: new(false), HealthTimeout: 90 * time.Second, Paused: true,
			ForceConflicts: true, Renderer: syncpolicy.RenderKustomize, PruneConfirmation: content.String(), DryRun: true,
			Policy: syncpolicy.Policy{
				Drift:     syncpolicy.DriftReport,
				Ignore:    []syncpolicy.IgnoreRule{{Objects: syncpolicy.Selector{Kind: "Deployment"}, Pointers: []string{"/spec/replicas"}}},
				Deletion:  syncpolicy.Deletion{Timeout: time.Minute, Namespaces: true},
				DependsOn: []syncpolicy.Dependency{{Service: "db"}}, Tests: &syncpolicy.Tests{Path: "tests"}, ServiceAccount: "deployer",
			},
		},
		SyncRequest: "again", Refused: &reason.Problem{Reason: reason.ManifestInvalid, Message: "no"}, Trigger: plan.Trigger{Traceparent: "00-1-2-01"},
	}
}

// TestEntriesOfEarlierVersions reads an entry as the inventories of live clusters hold it: written
// when the spec was a struct of the agent's own, whose renderer was a number. New records read
// alike.
func TestEntriesOfEarlierVersions(t *testing.T) {
	t.Parallel()
	stored, err := os.ReadFile("testdata/entry.json")
	if err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(entry())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"earlier": stored, "own": again} {
		var got plan.Service
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(entry(), got, cmpopts.EquateComparable(digest.Digest{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
