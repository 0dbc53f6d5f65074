// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/internal/testkit/hubkeys"
	"github.com/leatdev/leat/services/distributor"
)

func carefulPolicy() *typev1.SyncPolicy {
	return &typev1.SyncPolicy{
		Drift:     typev1.DriftMode_DRIFT_MODE_REPORT,
		Conflicts: []*typev1.ConflictRule{{Manager: "kubectl-*", Action: typev1.ConflictAction_CONFLICT_ACTION_FORCE}},
		Windows:   []*typev1.SyncWindow{{Schedule: "0 22 * * *", Duration: durationpb.New(time.Hour), TimeZone: "Europe/Berlin"}},
	}
}

// fleetSettings is a file that the hub reads at its start.
func fleetSettings(t *testing.T, content string) func(*distributor.Config) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "settings.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return func(c *distributor.Config) { c.AgentSettingsFile = path }
}

// TestPolicyTravelsToTheAgent goes from a document to the plan, and back to who reads the document.
func TestPolicyTravelsToTheAgent(t *testing.T) {
	t.Parallel()
	h := startHub(t, fleetSettings(t, "lockDown: true\nworkers: 8\nrefreshInterval: 1h30m\nhealthRules:\n- kind: Fleet\n  healthy: \"true\"\n"))
	content := newFolder(t, "c1", "one")
	h.demo(t, content)
	a := h.enrol(t, "one")
	stream := h.watchPlan(t, a.token, "")
	first := stream.nextWith(t, content.snapshot.GetDigest())
	rule := &typev1.HealthRule{Kind: "Fleet", Healthy: "true"}
	want := &typev1.AgentSettings{LockDown: true, Workers: 8, RefreshInterval: durationpb.New(90 * time.Minute), HealthRules: []*typev1.HealthRule{rule}}
	if diff := cmp.Diff(want, first.GetSettings(), protocmp.Transform()); diff != "" {
		t.Errorf("the fleet's settings (-want +got):\n%s", diff)
	}

	document := serviceDocument("app", "one", "demo", "app")
	document.GetService().Spec.Policy, document.GetService().Spec.DryRun = carefulPolicy(), true
	stored := h.apply(t, document).GetOutcomes()[0].GetDocument().GetService().GetSpec()
	if diff := cmp.Diff(carefulPolicy(), stored.GetPolicy(), protocmp.Transform()); diff != "" || !stored.GetDryRun() {
		t.Errorf("stored policy (-want +got):\n%s", diff)
	}
	second := stream.next(t)
	apply := second.GetServices()[0].GetApply()
	if diff := cmp.Diff(carefulPolicy(), apply.GetPolicy(), protocmp.Transform()); diff != "" || !apply.GetDryRun() {
		t.Errorf("planned policy (-want +got):\n%s", diff)
	}
	if first.GetServices()[0].GetSpecDigest() == second.GetServices()[0].GetSpecDigest() {
		t.Error("the policy does not count in the spec's digest")
	}
	if got := h.apply(t, document).GetOutcomes()[0].GetAction(); got != fleetv1.ApplyAction_APPLY_ACTION_UNCHANGED {
		t.Errorf("the same policy again: got %v, want unchanged", got)
	}

	cluster := clusterDocument("one")
	cluster.GetCluster().Spec.Agent = &typev1.AgentSettings{Workers: 2, LogLevel: "debug"}
	h.apply(t, cluster)
	want.Workers, want.LogLevel = 2, "debug"
	third := stream.next(t)
	if diff := cmp.Diff(want, third.GetSettings(), protocmp.Transform()); diff != "" || third.GetVersion() == second.GetVersion() {
		t.Errorf("the cluster's settings (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(second.GetServices(), third.GetServices(), protocmp.Transform()); diff != "" {
		t.Errorf("settings changed services (-before +after):\n%s", diff)
	}
}

// TestPoliciesAreChecked names the field in the document's place.
func TestPoliciesAreChecked(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	h.demo(t, newFolder(t, "c1", "one"))
	for field, policy := range map[string]*typev1.SyncPolicy{
		"documents[0].spec.policy.drift":                {Drift: 99},
		"documents[0].spec.policy.windows[0].time_zone": {Windows: []*typev1.SyncWindow{{Schedule: "0 0 * * *", Duration: durationpb.New(time.Hour), TimeZone: "Mars"}}},
	} {
		document := serviceDocument("app", "one", "demo", "app")
		document.GetService().Spec.Policy = policy
		_, err := h.fleet(t, adminToken).Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{document}})
		wantReason(t, err, "FIELD_INVALID")
		if got := rpcerr.Metadata(err)[rpcerr.MetadataField]; got != field {
			t.Errorf("got field %q, want %q", got, field)
		}
	}
}

// TestSettingsFileThatCannotBeRead ends the start, and reports why.
func TestSettingsFileThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for want, content := range map[string]string{
		"locked":           "locked: true",
		"refreshInterval":  "refreshInterval: soon",
		"workers":          "workers: -1",
		"one document":     "workers: 1\n---\nworkers: 2\n",
		"health_rules[0]":  "healthRules: [{kind: A}]",
		"refresh_interval": "refreshInterval: 1s",
	} {
		cfg := distributor.Config{DataDir: t.TempDir(), GitCacheURL: "http://gitcache.invalid", Service: hubkeys.Config(identity.ServiceDistributor)}
		fleetSettings(t, content)(&cfg)
		if err := distributor.Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "settings.yaml") {
			t.Errorf("%q: got %v, want an error about %s", content, err, want)
		}
	}
	cfg := distributor.Config{DataDir: t.TempDir(), GitCacheURL: "http://gitcache.invalid", Service: hubkeys.Config(identity.ServiceDistributor), AgentSettingsFile: "/does/not/exist"}
	if err := distributor.Run(t.Context(), cfg); err == nil {
		t.Error("a file that is not there: got no error")
	}
}
