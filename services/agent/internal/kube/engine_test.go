// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/agent/internal/health"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/report"
)

const (
	configMaps = "/api/v1/namespaces/default/configmaps/"
	applyPatch = "application/apply-patch+yaml"
	mergePatch = "application/merge-patch+json"
)

// TestEngine runs one engine on one real API server. Every subtest has services of its own.
func TestEngine(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	for name, test := range map[string]func(*testing.T, *cluster){
		"apply update prune":    testLifecycle,
		"invalid manifest":      testInvalidManifest,
		"rejected object":       testRejected,
		"conflict":              testConflict,
		"definition and object": testDefinition,
		"namespace":             testNamespace,
		"claimed":               testClaimed,
		"guard":                 testGuard,
		"removal":               testRemoval,
		"drift":                 testDrift,
		"secrets":               testSecrets,
		"refused secrets":       testRefusedSecrets,
		"configuration":         testConfiguration,
		"no configuration":      testConfigurationUnavailable,
		"variable missing":      testVariableMissing,
		"confidential object":   testConfidential,
		"confidential diff":     testConfidentialDiff,
		"paused and pending":    testPaused,
		"version":               testVersion,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, c)
		})
	}
}

func testVersion(t *testing.T, c *cluster) {
	if got, err := c.client.Version(t.Context()); err != nil || got != "v1.36.3" {
		t.Errorf("version: got %q, %v, want v1.36.3", got, err)
	}
}

func testLifecycle(t *testing.T, c *cluster) {
	spec := plan.Spec{Prune: new(true)}
	s := c.put(t, "life", map[string]string{"a.yaml": configMap("life-a", "1"), "b/c.yaml": configMap("life-b", "1")}, spec)
	got := c.settled(t, s, report.Healthy)
	if want := (health.Counts{Total: 2, Healthy: 2}); got.Counts != want {
		t.Errorf("counts: got %+v, want %+v", got.Counts, want)
	}
	if diff := cmp.Diff([]string{s.Bundles[0].Commit}, got.Applied.Commits); diff != "" {
		t.Errorf("commits (-want +got):\n%s", diff)
	}
	if got.Applied.Took <= 0 || got.Applied.At.IsZero() {
		t.Errorf("got took %v, at %v, want both set", got.Applied.Took, got.Applied.At)
	}

	s = c.put(t, "life", map[string]string{"a.yaml": configMap("life-a", "2")}, spec)
	c.settled(t, s, report.Healthy)
	_, live := c.request(t, http.MethodGet, configMaps+"life-a", "", "")
	if got := live["data"].(map[string]any)["value"]; got != "2" {
		t.Errorf("value: got %v, want 2", got)
	}
	if got := live["metadata"].(map[string]any)["labels"].(map[string]any)[k8s.ServiceLabel]; got != "life" {
		t.Errorf("label: got %v, want life", got)
	}
	c.mustNotExist(t, configMaps+"life-b")
}

func testInvalidManifest(t *testing.T, c *cluster) {
	s := c.put(t, "invalid", map[string]string{"a.yaml": configMap("invalid-a", "1")}, plan.Spec{Prune: new(true)})
	c.settled(t, s, report.Healthy)
	s = c.put(t, "invalid", map[string]string{"a.yaml": configMap("invalid-a", "2"), "x.yaml": "kind: [\n"}, plan.Spec{Prune: new(true), Namespace: "default"})
	got := c.settled(t, s, report.Failed)
	if got.Problem.Reason != reason.ManifestInvalid || !strings.Contains(got.Problem.Message, "x.yaml: document 1") {
		t.Errorf("problem: got %+v, want MANIFEST_INVALID naming x.yaml: document 1", got.Problem)
	}
	_, live := c.request(t, http.MethodGet, configMaps+"invalid-a", "", "")
	if got := live["data"].(map[string]any)["value"]; got != "1" {
		t.Errorf("value: got %v, want the last good one, 1", got)
	}
}

func testRejected(t *testing.T, c *cluster) {
	bad := "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: rejected-bad}\nspec:\n  replicas: 1\n  selector: {matchLabels: {a: b}}\n" +
		"  template:\n    metadata: {labels: {a: c}}\n    spec: {containers: [{name: x, image: example.test/y}]}\n"
	typo := "apiVersion: v1\nkind: Service\nmetadata: {name: rejected-typo}\nspec: {porst: []}\n"
	s := c.put(t, "rejected", map[string]string{
		"a.yaml": configMap("rejected-a", "1"), "b.yaml": bad, "c.yaml": typo, "d.yaml": configMap("rejected-d", "1"),
	}, plan.Spec{})
	got := c.settled(t, s, report.Failed)
	if got.Problem.Reason != reason.ApplyRejected {
		t.Errorf("reason: got %+v, want APPLY_REJECTED", got.Problem)
	}
	words := map[string]string{"rejected-bad": "selector", "rejected-typo": "porst"}
	for _, o := range got.Objects {
		if o.Problem != nil && strings.Contains(o.Problem.Message, words[o.Ref.Name]) {
			delete(words, o.Ref.Name)
		}
	}
	if len(words) > 0 {
		t.Errorf("objects: got %+v, want also those whose messages hold %v", got.Objects, words)
	}
	c.mustExist(t, configMaps+"rejected-a", configMaps+"rejected-d") // applied in spite of the failure

	s = c.put(t, "rejected", map[string]string{"a.yaml": configMap("rejected-a", "1")}, plan.Spec{Prune: new(true)})
	c.settled(t, s, report.Healthy)
	c.mustNotExist(t, configMaps+"rejected-d")
}

func testConflict(t *testing.T, c *cluster) {
	status, _ := c.request(t, http.MethodPatch, configMaps+"conflict-a?fieldManager=somebody-else", applyPatch, configMap("conflict-a", "theirs"))
	if status != http.StatusCreated {
		t.Fatalf("apply: got %d, want 201", status)
	}
	files := map[string]string{"a.yaml": configMap("conflict-a", "ours")}
	s := c.put(t, "conflict", files, plan.Spec{})
	got := c.settled(t, s, report.Failed)
	if got.Problem.Reason != reason.ApplyConflict || !strings.Contains(got.Problem.Message, "somebody-else") ||
		!strings.Contains(got.Problem.Message, "data.value") {
		t.Errorf("problem: got %+v, want APPLY_CONFLICT that names somebody-else and data.value", got.Problem)
	}
	s = c.put(t, "conflict", files, plan.Spec{ForceConflicts: true})
	c.settled(t, s, report.Healthy)
}

func testDefinition(t *testing.T, c *cluster) {
	definition := "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: mills.example.test}\n" +
		"spec:\n  group: example.test\n  scope: Namespaced\n  names: {kind: Mill, plural: mills}\n  versions:\n" +
		"  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}\n"
	object := "apiVersion: example.test/v1\nkind: Mill\nmetadata: {name: wind}\nspec: {blades: 4}\n"
	s := c.put(t, "definition", map[string]string{"a-object.yaml": object, "z-definition.yaml": definition}, plan.Spec{Prune: new(true)})
	c.settled(t, s, report.Healthy)
	c.mustExist(t, "/apis/example.test/v1/namespaces/default/mills/wind")

	// A definition that leaves the bundle stays, and everything of its kind that is not pruned itself.
	// There is no garbage collection here.
	background := plan.Spec{Prune: new(true), Policy: syncpolicy.Policy{Deletion: syncpolicy.Deletion{Propagation: syncpolicy.DeleteBackground}}}
	s = c.put(t, "definition", map[string]string{"b.yaml": configMap("definition-b", "1")}, background)
	c.settled(t, s, report.Healthy)
	c.mustExist(t, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/mills.example.test")
	c.mustNotExist(t, "/apis/example.test/v1/namespaces/default/mills/wind")
}

func testNamespace(t *testing.T, c *cluster) {
	files := map[string]string{"a.yaml": configMap("a", "1")}
	s := c.put(t, "namespace", files, plan.Spec{Namespace: "made", Prune: new(true)})
	got := c.settled(t, s, report.Failed)
	if got.Problem.Reason != reason.ApplyRejected || !strings.Contains(got.Problem.Message, "made") {
		t.Errorf("problem: got %+v, want APPLY_REJECTED that names the namespace", got.Problem)
	}
	s = c.put(t, "namespace", files, plan.Spec{Namespace: "made", Prune: new(true), CreateNamespace: new(true)})
	c.settled(t, s, report.Healthy)
	c.mustExist(t, "/api/v1/namespaces/made/configmaps/a")
	c.drop("namespace")
	c.gone(t, "namespace")
	c.mustNotExist(t, "/api/v1/namespaces/made/configmaps/a")
	c.mustExist(t, "/api/v1/namespaces/made")
}

func testClaimed(t *testing.T, c *cluster) {
	s := c.put(t, "claim-first", map[string]string{"a.yaml": configMap("claimed", "first")}, plan.Spec{Prune: new(true)})
	c.settled(t, s, report.Healthy)
	second := c.put(t, "claim-second", map[string]string{"a.yaml": configMap("claimed", "second"), "b.yaml": configMap("claim-b", "1")}, plan.Spec{Prune: new(true)})
	got := c.settled(t, second, report.Failed)
	if got.Problem.Reason != reason.ObjectClaimed || !strings.Contains(got.Problem.Message, "claim-first") {
		t.Errorf("problem: got %+v, want OBJECT_CLAIMED that names claim-first", got.Problem)
	}
	_, live := c.request(t, http.MethodGet, configMaps+"claimed", "", "")
	if got := live["data"].(map[string]any)["value"]; got != "first" {
		t.Errorf("value: got %v, want first: the first keeps it", got)
	}
	// Once the first releases it, the second takes it automatically.
	c.drop("claim-first")
	c.gone(t, "claim-first")
	c.settled(t, second, report.Healthy)
	c.mustExist(t, configMaps+"claimed")
}

func testGuard(t *testing.T, c *cluster) {
	many := map[string]string{}
	var paths []string
	for i := range 10 {
		name := fmt.Sprintf("guard-%d", i)
		many[name+".yaml"] = configMap(name, "1")
		paths = append(paths, configMaps+name)
	}
	s := c.put(t, "guard", many, plan.Spec{Prune: new(true)})
	c.settled(t, s, report.Healthy)

	few := map[string]string{"guard-0.yaml": configMap("guard-0", "1")}
	s = c.put(t, "guard", few, plan.Spec{Prune: new(true), Namespace: "default"})
	got := c.settled(t, s, report.Failed)
	if got.Problem.Reason != reason.PruneGuarded || !strings.Contains(got.Problem.Message, got.Guarded.Digest) || len(got.Guarded.Objects) != 9 {
		t.Errorf("problem: got %+v, guarded %+v, want PRUNE_GUARDED that names the digest of nine objects", got.Problem, got.Guarded)
	}
	c.mustExist(t, paths...)

	// A run that adds objects must not dilute the share.
	more := map[string]string{}
	for i := range 30 {
		name := fmt.Sprintf("guard-more-%d", i)
		more[name+".yaml"] = configMap(name, "1")
	}
	s = c.put(t, "guard", more, plan.Spec{Prune: new(true), Namespace: "default", HealthTimeout: 1})
	c.settled(t, s, report.Failed)
	if err := c.engine.Reconcile("guard"); err != nil {
		t.Fatal(err)
	}
	c.settled(t, s, report.Failed)
	c.mustExist(t, paths...)

	s = c.put(t, "guard", few, plan.Spec{Prune: new(true), PruneConfirmation: got.Guarded.Digest})
	got = c.settled(t, s, report.Failed) // thirty more would go than that person has seen
	s = c.put(t, "guard", few, plan.Spec{Prune: new(true), PruneConfirmation: got.Guarded.Digest})
	c.settled(t, s, report.Healthy)
	c.mustExist(t, paths[0])
	c.mustNotExist(t, paths[1:]...)
}

func testRemoval(t *testing.T, c *cluster) {
	claim := "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: removal-data}\n" +
		"spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n"
	s := c.put(t, "removal", map[string]string{"a.yaml": configMap("removal-a", "1"), "b.yaml": claim}, plan.Spec{Prune: new(true)})
	c.await(t, s.Name, func(got report.Status) bool { return got.Phase >= report.Progressing })
	kept := c.put(t, "removal-kept", map[string]string{"a.yaml": configMap("removal-kept", "1")}, plan.Spec{})
	c.settled(t, kept, report.Healthy)

	c.drop("removal", "removal-kept")
	c.gone(t, "removal")
	c.gone(t, "removal-kept")
	c.mustNotExist(t, configMaps+"removal-a", "/api/v1/namespaces/leat-system/configmaps/leat-inventory.removal")
	data := "/api/v1/namespaces/default/persistentvolumeclaims/removal-data"
	c.mustExist(t, data, configMaps+"removal-kept") // precious, and not pruned
	for _, path := range []string{data, configMaps + "removal-kept"} {
		_, live := c.request(t, http.MethodGet, path, "", "")
		if labels, _ := live["metadata"].(map[string]any)["labels"].(map[string]any); labels[k8s.ServiceLabel] != nil {
			t.Errorf("%s: got label %v, want none", path, labels)
		}
	}
}

func testDrift(t *testing.T, c *cluster) {
	spec := plan.Spec{Prune: new(true), Policy: syncpolicy.Policy{Drift: syncpolicy.DriftOff}}
	s := c.put(t, "drift", map[string]string{"a.yaml": configMap("drift-a", "1"), "b.yaml": configMap("drift-b", "1")}, spec)
	c.settled(t, s, report.Healthy)
	c.request(t, http.MethodDelete, configMaps+"drift-a", "", "")
	got := c.settled(t, s, report.Degraded)
	if i := slices.IndexFunc(got.Objects, func(o report.ObjectStatus) bool { return o.Ref.Name == "drift-a" }); i < 0 ||
		got.Objects[i].Health.State != health.Missing {
		t.Errorf("objects: got %+v, want drift-a missing", got.Objects)
	}
	if err := c.engine.Reconcile("drift"); err != nil {
		t.Fatal(err)
	}
	c.settled(t, s, report.Healthy)

	// A sync request also restores an object whose change the agent has seen. The status shows only
	// the deletion, whose event comes after the change's.
	c.request(t, http.MethodPatch, configMaps+"drift-a", mergePatch, `{"data":{"value":"drifted"}}`)
	c.request(t, http.MethodDelete, configMaps+"drift-b", "", "")
	c.settled(t, s, report.Degraded)
	c.mu.Lock()
	s.SyncRequest = "please"
	s.Spec.ForceConflicts = true
	s.SpecDigest += "-forced"
	c.services["drift"] = s
	c.mu.Unlock()
	c.plan()
	c.await(t, "drift", func(got report.Status) bool {
		return got.ObservedSyncRequest == "please" && got.Phase == report.Healthy
	})
	_, live := c.request(t, http.MethodGet, configMaps+"drift-a", "", "")
	if got := live["data"].(map[string]any)["value"]; got != "1" {
		t.Errorf("value: got %v, want 1", got)
	}
}

// testRefusedSecrets has the API server reject Secrets. The problem describes the error and not the
// values.
func testRefusedSecrets(t *testing.T, c *cluster) {
	for name, test := range map[string]struct{ fields, want string }{
		"base64": {"data: {password: 'hunter2!'}", "not base64"},
		"number": {"stringData: {password: 42424242}", "put it in quotes"},
		"keys":   {"data: {'hunter2/key': aHVudGVyMg==}", "data"},
	} {
		service := "refused-secret-" + name
		s := c.put(t, service, map[string]string{"a.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: " + service + "}\n" + test.fields + "\n"}, plan.Spec{})
		got := c.settled(t, s, report.Failed)
		message := got.Problem.Message
		if !strings.Contains(message, test.want) || !strings.Contains(message, "dry-run=server") {
			t.Errorf("%s: got %q, want what is wrong, and how to learn more", name, message)
		}
		for _, secret := range []string{"hunter2!", "42424242", "aHVudGVyMg"} {
			if strings.Contains(message, secret) {
				t.Errorf("%s: the problem repeats the value: %q", name, message)
			}
		}
	}
}

func testSecrets(t *testing.T, c *cluster) {
	const hidden = "aHVudGVyMg=="
	secret := func(value, extra string) string {
		return "apiVersion: v1\nkind: Secret\nmetadata: {name: secret-a}\ndata: {password: " + value + "}\n" + extra
	}
	s := c.put(t, "secret", map[string]string{"a.yaml": secret("b2xk", "")}, plan.Spec{})
	c.settled(t, s, report.Healthy)

	s = c.put(t, "secret", map[string]string{"a.yaml": secret(hidden, "type: "+hidden+"\n")}, plan.Spec{Namespace: "default"})
	got := c.settled(t, s, report.Failed) // the type of a Secret never changes
	if text := fmt.Sprintf("%+v %+v", got.Problem, got.Objects); strings.Contains(text, hidden) || strings.Contains(text, "hunter2") {
		t.Errorf("problem holds the secret: %s", text)
	}
	c.put(t, "secret", map[string]string{"a.yaml": secret(hidden, "")}, plan.Spec{Paused: true})
	c.await(t, "secret", func(got report.Status) bool { return got.Phase == report.Paused })
	found, err := c.engine.Diff(t.Context(), "secret")
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != 1 || found[0].Change != report.Update || !strings.Contains(found[0].Unified, "password: (masked, changed)") ||
		strings.Contains(fmt.Sprintf("%+v", found), hidden) || strings.Contains(fmt.Sprintf("%+v", found), "b2xk") {
		t.Errorf("diff: got %+v, want one masked update", found)
	}
	if fields := found[0].Fields; len(fields) != 1 || fields[0].Path != ".data.password" || fields[0].Before != "(masked)" || fields[0].After != "(masked, changed)" {
		t.Errorf("got fields %+v, want the masked password", fields)
	}
}

func testPaused(t *testing.T, c *cluster) {
	s := c.put(t, "paused", map[string]string{"a.yaml": configMap("paused-a", "1")}, plan.Spec{Paused: true})
	c.await(t, "paused", func(got report.Status) bool { return got.Phase == report.Paused })
	c.mustNotExist(t, configMaps+"paused-a")
	found, err := c.engine.Diff(t.Context(), "paused")
	if err != nil || len(found) != 1 || found[0].Change != report.Create {
		t.Errorf("diff: got %+v, %v, want one object created", found, err)
	}
	s.Bundles, s.Spec.Paused = nil, false
	c.mu.Lock()
	c.services["paused"] = s
	c.mu.Unlock()
	c.plan()
	c.await(t, "paused", func(got report.Status) bool { return got.Phase == report.Pending })
	c.drop("paused") // while it cannot be rendered, the agent deletes nothing of services that were ordered before it
}

// TestRestart shows that a restarted agent corrects drift that happened meanwhile, and removes
// services that left the plan.
func TestRestart(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	s := c.put(t, "again", map[string]string{"a.yaml": configMap("again-a", "1"), "b.yaml": configMap("again-b", "1")}, plan.Spec{Prune: new(true)})
	c.settled(t, s, report.Healthy)
	gone := c.put(t, "gone", map[string]string{"a.yaml": configMap("gone-a", "1")}, plan.Spec{Prune: new(true)})
	c.settled(t, gone, report.Healthy)
	c.stop()
	c.request(t, http.MethodPatch, configMaps+"again-a", mergePatch, `{"data":{"value":"while away"}}`)
	c.request(t, http.MethodDelete, configMaps+"again-b", "", "")
	delete(c.services, "gone")

	c.restart(t)
	c.await(t, s.Name, func(got report.Status) bool {
		return got.Phase == report.Healthy && got.Counts == health.Counts{Total: 2, Healthy: 2}
	})
	_, live := c.request(t, http.MethodGet, configMaps+"again-a", "", "")
	if got := live["data"].(map[string]any)["value"]; got != "1" {
		t.Errorf("value: got %v, want what others changed meanwhile to be put right", got)
	}
	(&scenario{cluster: c, t: t, name: "default"}).vanishes("ConfigMap", "gone-a") // it left the plan while no agent ran
}

// TestLargeInventory shows that the agent can store an inventory that is too large for a ConfigMap.
func TestLargeInventory(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	store := c.client.Inventories()
	record := largeRecord("large", 20_000)
	for range 2 { // the second time some shards are there already
		if err := store.Save(t.Context(), record); err != nil {
			t.Fatal(err)
		}
	}
	assertRecord(t, c.client.Inventories(), record)
	assertShards(t, c, store, record)
	small := largeRecord("large", 3)
	if err := store.Save(t.Context(), small); err != nil {
		t.Fatal(err)
	}
	assertRecord(t, c.client.Inventories(), small)
	head := "/api/v1/namespaces/leat-system/configmaps/leat-inventory.large"
	c.request(t, http.MethodPatch, head, "application/merge-patch+json", `{"metadata": {"annotations": {"leat.dev/remove": "confirmed"}}}`)
	if err := store.Save(t.Context(), small); err != nil {
		t.Fatal(err)
	}
	small.Confirmed = true // what a person marked stays marked
	assertRecord(t, c.client.Inventories(), small)
	_, list := c.request(t, http.MethodGet, "/api/v1/namespaces/leat-system/configmaps?labelSelector=leat.dev/inventory", "", "")
	if got := len(list["items"].([]any)); got != 1 {
		t.Errorf("ConfigMaps: got %d, want 1: shards that nothing names are deleted", got)
	}
	if err := store.Delete(t.Context(), "large"); err != nil {
		t.Fatal(err)
	}
	if got, err := store.List(context.Background()); err != nil || len(got) != 0 {
		t.Errorf("list: got %d records, %v, want none", len(got), err)
	}
}
