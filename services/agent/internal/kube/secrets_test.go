// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/render"
	configuration "github.com/leatdev/leat/services/agent/internal/manifest"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// memoryGiven is a store that outlives engines, as a folder does.
type memoryGiven struct {
	mu    sync.Mutex
	given map[string]configuration.Given
}

// LoadGiven implements manifest.GivenStore.
func (m *memoryGiven) LoadGiven(_ context.Context, s plan.Service) configuration.Given {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.given[s.UID]
}

// SaveGiven implements manifest.GivenStore.
func (m *memoryGiven) SaveGiven(_ context.Context, s plan.Service, g configuration.Given) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.given == nil {
		m.given = map[string]configuration.Given{}
	}
	m.given[s.UID] = g
}

// refer changes a service and its whole configuration.
func (c *cluster) refer(t *testing.T, name string, files map[string]string, spec plan.Spec, whole configuration.Configuration) plan.Service {
	t.Helper()
	sum := "hmac-of " + digest.FromBytes(fmt.Append(nil, name, whole)).String()
	c.configs.set(sum, whole)
	s := plan.Service{
		Name: name, UID: "uid-" + name, SpecDigest: fmt.Sprint(spec), Spec: spec, ConfigDigest: sum,
		Bundles: []plan.Bundle{{Digest: c.bundles.add(t, files), Commit: "c"}},
	}
	c.mu.Lock()
	c.services[name] = s
	c.mu.Unlock()
	c.plan()
	return s
}

// keep puts a Secret into the cluster, as another client does.
func (c *cluster) keep(t *testing.T, namespace, name string, data map[string]string) {
	t.Helper()
	c.must(t, http.MethodPatch, "/api/v1/namespaces/"+namespace+"?fieldManager=admin", applyPatch, "apiVersion: v1\nkind: Namespace\nmetadata: {name: "+namespace+"}\n")
	body := "apiVersion: v1\nkind: Secret\nmetadata: {name: " + name + "}\ndata:\n"
	for key, text := range data {
		body += fmt.Sprintf("  %s: %s\n", key, base64.StdEncoding.EncodeToString([]byte(text)))
	}
	c.must(t, http.MethodPatch, "/api/v1/namespaces/"+namespace+"/secrets/"+name+"?fieldManager=admin", applyPatch, body)
}

func (c *cluster) awaitData(t *testing.T, name, want string) {
	t.Helper()
	c.until(t, configMaps+name, func(live map[string]any) bool { return fmt.Sprint(live["data"]) == want })
}

// awaitProblem waits for a status with a reason and words in the message, and checks that it holds
// no canary.
func (c *cluster) awaitProblem(t *testing.T, service string, phase report.Phase, why reason.Reason, words ...string) report.Status {
	t.Helper()
	got := c.await(t, service, func(got report.Status) bool {
		return got.Phase == phase && got.Problem != nil && got.Problem.Reason == why &&
			!slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(got.Problem.Message, word) })
	})
	if strings.Contains(fmt.Sprintf("%+v %+v", got, got.Problem), "canary") {
		t.Errorf("the status holds a secret: %+v", got)
	}
	return got
}

// TestClusterReferences follows values of the service's own cluster: missing, made, changed, gone,
// denied, through a restart of the agent.
func TestClusterReferences(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	files := map[string]string{"a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: given}\ndata: {user: '${USER}', password: '${PASSWORD}', banner: '${BANNER:-none}'}\n"}
	whole := configuration.Configuration{References: map[string]string{
		"USER": "cluster://vault/db#user", "PASSWORD": "cluster://vault/db#password", "BANNER": "cluster://configmaps/vault/banner#text?",
	}}
	c.refer(t, "given", files, plan.Spec{}, whole)
	c.awaitProblem(t, "given", report.Failed, reason.ConfigMissing, "PASSWORD", "cluster://vault/db#password", "Secret vault/db does not exist; create it")
	c.mustNotExist(t, configMaps+"given")

	c.keep(t, "vault", "db", map[string]string{"user": "u1", "password": "canary-1"})
	c.awaitData(t, "given", "map[banner:none password:canary-1 user:u1]")
	c.await(t, "given", func(got report.Status) bool { return got.Phase == report.Healthy && got.Problem == nil })

	c.keep(t, "vault", "db", map[string]string{"user": "u2", "password": "canary-2"})
	c.awaitData(t, "given", "map[banner:none password:canary-2 user:u2]")
	c.must(t, http.MethodPatch, "/api/v1/namespaces/vault/configmaps/banner?fieldManager=admin", applyPatch,
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: banner}\ndata: {text: hello}\n")
	c.awaitData(t, "given", "map[banner:hello password:canary-2 user:u2]")

	// One key is gone: both stay as they were, because they belong together.
	c.keep(t, "vault", "db", map[string]string{"user": "u3"})
	c.awaitProblem(t, "given", report.Healthy, reason.ConfigMissing, "PASSWORD", "the value from before stays in use")
	c.must(t, http.MethodDelete, "/api/v1/namespaces/vault/secrets/db", "", "")
	c.awaitProblem(t, "given", report.Healthy, reason.ConfigMissing, "does not exist")
	c.restart(t)
	c.awaitProblem(t, "given", report.Healthy, reason.ConfigMissing, "does not exist")
	if got := c.data(t, "given"); got != "map[banner:hello password:canary-2 user:u2]" {
		t.Errorf("got %s, want what was given before", got)
	}
	c.keep(t, "vault", "db", map[string]string{"user": "u4", "password": "canary-4"})
	c.awaitData(t, "given", "map[banner:hello password:canary-4 user:u4]")
}

// TestSecClusterReferencesKeepRights has services refer to what they may not read.
func TestSecClusterReferencesKeepRights(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	c.keep(t, "tenant", "mine", map[string]string{"password": "canary-mine"})
	c.keep(t, "others", "db", map[string]string{"password": "canary-others"})
	c.keep(t, "leat-system", "leat-agent", map[string]string{"key": "canary-agent"})
	const roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/tenant/"
	// The account may read, and neither list nor watch.
	rights := strings.Replace(tenantRights, "verbs: [\"*\"]}]", "verbs: [\"*\"]}, {apiGroups: [\"\"], resources: [secrets], verbs: [get]}]", 1)
	c.must(t, http.MethodPatch, roles+"roles/deployer?fieldManager=admin", applyPatch, rights)
	c.must(t, http.MethodPatch, roles+"rolebindings/deployer?fieldManager=admin", applyPatch, tenantBinding)
	tenant := plan.Spec{Namespace: "tenant", CreateNamespace: new(false), Policy: syncpolicy.Policy{ServiceAccount: "deployer"}}
	files := map[string]string{"a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: stolen}\ndata: {password: '${PASSWORD}'}\n"}
	to := func(reference string) configuration.Configuration {
		return configuration.Configuration{References: map[string]string{"PASSWORD": reference}}
	}

	c.refer(t, "own", files, tenant, to("cluster://tenant/mine#password"))
	c.until(t, "/api/v1/namespaces/tenant/configmaps/stolen", func(live map[string]any) bool { return fmt.Sprint(live["data"]) == "map[password:canary-mine]" })

	c.refer(t, "thief", files, tenant, to("cluster://others/db#password"))
	c.awaitProblem(t, "thief", report.Failed, reason.ConfigMissing, "tenant/deployer", "secrets", "others", "grant it")
	c.refer(t, "optional", files, tenant, to("cluster://others/db#password?"))
	c.awaitProblem(t, "optional", report.Failed, reason.ConfigMissing, "tenant/deployer")
	c.refer(t, "agents", files, plan.Spec{Namespace: "others"}, to("cluster://leat-system/leat-agent#key"))
	c.awaitProblem(t, "agents", report.Failed, reason.ConfigMissing, "the agent's own")
	limited := plan.Spec{Namespace: "tenant", Policy: syncpolicy.Policy{Limits: &syncpolicy.Limits{Namespaces: syncpolicy.AllowList{"tenant"}}}}
	c.refer(t, "limited", files, limited, to("cluster://others/db#password"))
	c.awaitProblem(t, "limited", report.Failed, reason.ProjectForbidden, "others")
}

const ageIdentity = "AGE-SECRET-KEY-1AC3FHNUDZ7T7LVFN2X240TLCRA0NUCM0TE9XDJE3Y4Z0EA9LKAGQ04MJRH"

func encryptedFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../../../render/sops/testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestEncryptedManifests applies manifests that sops encrypted, as they are and through a
// kustomization, and changes keys.
func TestEncryptedManifests(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	encrypted := encryptedFile(t, "data.enc.yaml")
	s := c.put(t, "sealed", map[string]string{"secret.yaml": encrypted}, plan.Spec{Namespace: "sealed", CreateNamespace: new(true)})
	c.awaitProblem(t, "sealed", report.Failed, reason.ManifestInvalid, "secret.yaml", "age1", "leat-system/leat-sops does not exist")
	c.keep(t, "leat-system", "leat-sops", map[string]string{"old.agekey": "# nothing\n" + ageIdentity + "\n", "notes": "no key"})
	c.settled(t, s, report.Healthy)
	const path = "/api/v1/namespaces/sealed/secrets/shop"
	live := c.get(t, path)
	if got, want := fmt.Sprint(live["data"]), base64.StdEncoding.EncodeToString([]byte("canary-password")); !strings.Contains(got, want) || strings.Contains(got, "ENC[") || live["sops"] != nil {
		t.Errorf("got %v", live)
	}
	differences, err := c.engine.Diff(t.Context(), "sealed")
	if err != nil || strings.Contains(fmt.Sprintf("%+v", differences), "canary") {
		t.Errorf("got %+v, %v", differences, err)
	}

	// kustomize changes the rest of the object, and never sees a value.
	k := c.put(t, "built", map[string]string{
		"kustomization.yaml": "namespace: built\nnamePrefix: my-\nresources: [secret.yaml]\nlabels: [{pairs: {a: b}}]\n", "secret.yaml": encrypted,
	}, plan.Spec{Namespace: "built", CreateNamespace: new(true)})
	c.settled(t, k, report.Healthy)
	if got := fmt.Sprint(c.get(t, "/api/v1/namespaces/built/secrets/my-shop")["data"]); !strings.Contains(got, base64.StdEncoding.EncodeToString([]byte("canary-password"))) {
		t.Errorf("got %s", got)
	}

	tampered := strings.Replace(encrypted, "name: shop", "name: other", 1)
	c.put(t, "sealed", map[string]string{"secret.yaml": tampered}, plan.Spec{Namespace: "sealed", CreateNamespace: new(true)})
	c.awaitProblem(t, "sealed", report.Failed, reason.ManifestInvalid, "secret.yaml", "the MAC differs")
	c.mustExist(t, path)
}

// TestExampleOfEncryptedManifests applies the folder of the example with its configuration.
func TestExampleOfEncryptedManifests(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	c.keep(t, "leat-system", "leat-sops", map[string]string{"prod.agekey": ageIdentity})
	c.keep(t, "vault", "shop-db", map[string]string{"password": "canary-db"})
	files := map[string]string{}
	for _, name := range []string{"secret.yaml", "shop.yaml"} {
		text, err := os.ReadFile("../../../../examples/encrypted/app/" + name)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = string(text)
	}
	s := c.refer(t, "shop", files, plan.Spec{Namespace: "shop", CreateNamespace: new(true)}, configuration.Configuration{
		References: map[string]string{"DB_PASSWORD": "cluster://vault/shop-db#password", "BANNER": "cluster://configmaps/shop/banner#text?"}, Restart: true,
	})
	c.await(t, "shop", func(got report.Status) bool { return got.Applied.ConfigDigest == s.ConfigDigest })
	text := fmt.Sprint(c.get(t, "/apis/apps/v1/namespaces/shop/deployments/shop"), c.get(t, "/api/v1/namespaces/shop/secrets/shop")["data"])
	for _, want := range []string{"canary-db", "leat.dev/config", base64.StdEncoding.EncodeToString([]byte("canary-password"))} {
		if !strings.Contains(text, want) {
			t.Errorf("got no %s in %s", want, text)
		}
	}
}

// TestSecEncryptedManifestsOfTenants has a tenant's service hold a file that only the agent's own key
// opens.
func TestSecEncryptedManifestsOfTenants(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	c.keep(t, "leat-system", "leat-sops", map[string]string{"all.agekey": ageIdentity})
	c.keep(t, "tenant", "unrelated", map[string]string{"a": "b"})
	const roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/tenant/"
	rights := strings.Replace(tenantRights, "resources: [configmaps]", "resources: [configmaps, secrets]", 1)
	c.must(t, http.MethodPatch, roles+"roles/deployer?fieldManager=admin", applyPatch, rights)
	c.must(t, http.MethodPatch, roles+"rolebindings/deployer?fieldManager=admin", applyPatch, tenantBinding)
	spec := plan.Spec{Namespace: "tenant", CreateNamespace: new(false), Policy: syncpolicy.Policy{ServiceAccount: "deployer"}}
	s := c.put(t, "tenant", map[string]string{"secret.yaml": encryptedFile(t, "data.enc.yaml")}, spec)
	c.awaitProblem(t, "tenant", report.Failed, reason.ManifestInvalid, "tenant/leat-sops does not exist")
	c.mustNotExist(t, "/api/v1/namespaces/tenant/secrets/shop")
	c.keep(t, "tenant", "leat-sops", map[string]string{"own.agekey": ageIdentity})
	c.settled(t, s, report.Healthy)
}

// TestRestartOnChange rolls pods when a value changes, and only then.
func TestRestartOnChange(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	c.keep(t, "vault", "key", map[string]string{"text": "canary-a"})
	const template = "spec:\n  selector: {matchLabels: {a: b}}\n  template:\n    metadata: {labels: {a: b}}\n    spec: {containers: [{name: a, image: a}]%s}\n"
	files := map[string]string{
		"a.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: rolled}\n" + fmt.Sprintf(template, ""),
		"b.yaml": "apiVersion: batch/v1\nkind: Job\nmetadata: {name: once}\nspec:\n  template:\n    spec: {restartPolicy: Never, containers: [{name: a, image: a}]}\n",
	}
	whole := configuration.Configuration{
		Variables:  render.Variables{Values: map[string]string{"A": "1"}},
		References: map[string]string{"KEY": "cluster://vault/key#text"}, Restart: true,
	}
	stamp := func(kind, name string) string {
		live := c.get(t, kind+"/"+name)
		spec, _ := live["spec"].(map[string]any)
		template, _ := spec["template"].(map[string]any)
		metadata, _ := template["metadata"].(map[string]any)
		annotations, _ := metadata["annotations"].(map[string]any)
		text, _ := annotations["leat.dev/config"].(string)
		return text
	}
	const deployments, jobs = "/apis/apps/v1/namespaces/default/deployments", "/apis/batch/v1/namespaces/default/jobs"
	applied := func(s plan.Service) {
		t.Helper()
		c.await(t, s.Name, func(got report.Status) bool {
			return got.Applied.ConfigDigest == s.ConfigDigest && got.Applied.SpecDigest == s.SpecDigest
		})
	}
	s := c.refer(t, "rolled", files, plan.Spec{}, whole)
	applied(s)
	first := stamp(deployments, "rolled")
	if len(first) != 32 || stamp(jobs, "once") != "" {
		t.Fatalf("got %q at the Deployment and %q at the Job", first, stamp(jobs, "once"))
	}
	// Another agent, without the folder of the first one, and other manifests, change nothing.
	c.given.mu.Lock()
	c.given.given = nil
	c.given.mu.Unlock()
	c.restart(t)
	files = maps.Clone(files)
	files["c.yaml"] = configMap("beside", "1")
	s = c.refer(t, "rolled", files, plan.Spec{Namespace: "default"}, whole)
	applied(s)
	c.until(t, configMaps+"beside", func(map[string]any) bool { return true })
	if got := stamp(deployments, "rolled"); got != first {
		t.Errorf("got %s after %s, without a change", got, first)
	}
	c.keep(t, "vault", "key", map[string]string{"text": "canary-b"})
	c.until(t, deployments+"/rolled", func(map[string]any) bool { return stamp(deployments, "rolled") != first })
	second := stamp(deployments, "rolled")
	c.keep(t, "vault", "key", map[string]string{"text": "canary-a"})
	c.until(t, deployments+"/rolled", func(map[string]any) bool { return stamp(deployments, "rolled") == first })
	whole.Values = map[string]string{"A": "2"}
	applied(c.refer(t, "rolled", files, plan.Spec{Namespace: "default"}, whole))
	if got := stamp(deployments, "rolled"); got == first || got == second {
		t.Errorf("got %s again, with another value", got)
	}
}
