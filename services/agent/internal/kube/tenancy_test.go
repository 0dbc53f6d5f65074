// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// tenantRights grant account "deployer" of namespace "tenant" all rights on ConfigMaps there, and
// no others.
const tenantRights = `apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: deployer, namespace: tenant}
rules: [{apiGroups: [""], resources: [configmaps], verbs: ["*"]}]
`

const tenantBinding = `apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: deployer, namespace: tenant}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: deployer}
subjects: [{kind: ServiceAccount, name: deployer, namespace: tenant}]
`

func inNamespace(manifest, namespace string) string {
	return strings.Replace(manifest, "metadata:\n", "metadata:\n  namespace: "+namespace+"\n", 1)
}

// TestTenancy applies services as a service account with few rights.
func TestTenancy(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	const roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/tenant/"
	for path, body := range map[string]string{
		"/api/v1/namespaces/tenant?fieldManager=admin": "apiVersion: v1\nkind: Namespace\nmetadata: {name: tenant}\n",
		"/api/v1/namespaces/others?fieldManager=admin": "apiVersion: v1\nkind: Namespace\nmetadata: {name: others}\n",
	} {
		c.must(t, http.MethodPatch, path, applyPatch, body)
	}
	c.must(t, http.MethodPatch, roles+"roles/deployer?fieldManager=admin", applyPatch, tenantRights)
	c.must(t, http.MethodPatch, roles+"rolebindings/deployer?fieldManager=admin", applyPatch, tenantBinding)
	tenant := func(change func(*plan.Spec)) plan.Spec {
		spec := plan.Spec{Namespace: "tenant", CreateNamespace: new(true), Prune: new(true), Policy: syncpolicy.Policy{ServiceAccount: "deployer"}}
		if change != nil {
			change(&spec)
		}
		return spec
	}
	const inTenant = "/api/v1/namespaces/tenant/configmaps/"
	refused := func(t *testing.T, s plan.Service, words ...string) {
		t.Helper()
		got := c.settled(t, s, report.Failed)
		if got.Problem.Reason != reason.TenantForbidden {
			t.Errorf("got %+v, want TENANT_FORBIDDEN", got.Problem)
		}
		for _, word := range words {
			if !strings.Contains(got.Problem.Message, word) {
				t.Errorf("got %q, want it to say %q", got.Problem.Message, word)
			}
		}
	}

	t.Run("what the account may is done", func(t *testing.T) {
		s := c.put(t, "own", map[string]string{"a.yaml": configMap("own-a", "1"), "b.yaml": configMap("own-b", "1")}, tenant(nil))
		c.settled(t, s, report.Healthy)
		s = c.put(t, "own", map[string]string{"a.yaml": configMap("own-a", "2")}, tenant(nil))
		c.settled(t, s, report.Healthy)
		c.mustExist(t, inTenant+"own-a")
		c.mustNotExist(t, inTenant+"own-b")
	})
	t.Run("another namespace is refused", func(t *testing.T) {
		files := map[string]string{"a.yaml": inNamespace(configMap("astray", "1"), "others")}
		refused(t, c.put(t, "astray", files, tenant(nil)), "tenant/deployer", "configmaps", "others")
		c.mustNotExist(t, "/api/v1/namespaces/others/configmaps/astray")
	})
	t.Run("cluster-scoped objects are refused", func(t *testing.T) {
		files := map[string]string{"a.yaml": "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: climber}\nrules: []\n"}
		refused(t, c.put(t, "climber", files, tenant(nil)), "clusterroles")
		c.mustNotExist(t, "/apis/rbac.authorization.k8s.io/v1/clusterroles/climber")
	})
	t.Run("a namespace of its own is not made", func(t *testing.T) {
		s := c.put(t, "settler", map[string]string{"a.yaml": configMap("settler", "1")}, tenant(func(s *plan.Spec) {
			s.Namespace, s.Policy.ServiceAccount = "settled", "tenant/deployer"
		}))
		refused(t, s)
		c.mustNotExist(t, "/api/v1/namespaces/settled")
	})
	t.Run("nothing is learnt of what it may not read", func(t *testing.T) {
		c.must(t, http.MethodPatch, "/api/v1/namespaces/others/secrets/theirs?fieldManager=admin", applyPatch,
			"apiVersion: v1\nkind: Secret\nmetadata: {name: theirs, namespace: others}\nstringData: {key: hidden}\n")
		c.put(t, "curious", map[string]string{"a.yaml": configMap("curious", "1")}, tenant(func(s *plan.Spec) {
			s.Policy.DependsOn = []syncpolicy.Dependency{{
				Object: &syncpolicy.ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: "others", Name: "theirs"}, Condition: "has(self.data.key)",
			}}
		}))
		c.await(t, "curious", func(got report.Status) bool {
			return got.Problem != nil && got.Problem.Reason == reason.DependencyNotReady && strings.Contains(got.Problem.Message, "deployer")
		})
		c.mustNotExist(t, inTenant+"curious")
	})
	t.Run("a diff tells no more", func(t *testing.T) {
		files := map[string]string{"a.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: theirs, namespace: others}\nstringData: {key: guess}\n"}
		refused(t, c.put(t, "prying", files, tenant(nil)), "secrets")
		found, err := c.engine.Diff(t.Context(), "prying")
		if err != nil || len(found) != 1 || found[0].Problem == nil || found[0].Unified != "" {
			t.Errorf("got %+v, %v, want an object that is refused", found, err)
		}
	})
	t.Run("it goes as it came, also after a restart", func(t *testing.T) {
		s := c.put(t, "leaver", map[string]string{"a.yaml": configMap("leaver", "1")}, tenant(nil))
		c.settled(t, s, report.Healthy)
		c.must(t, http.MethodDelete, roles+"rolebindings/deployer", "", "")
		c.restart(t)
		c.drop("leaver")
		c.await(t, "leaver", func(got report.Status) bool {
			return got.Problem != nil && got.Problem.Reason == reason.TenantForbidden
		})
		c.mustExist(t, inTenant+"leaver")
		c.must(t, http.MethodPatch, roles+"rolebindings/deployer?fieldManager=admin", applyPatch, tenantBinding)
		c.gone(t, "leaver")
		c.mustNotExist(t, inTenant+"leaver")
	})
	t.Run("a locked cluster wants an account", func(t *testing.T) {
		c.configureAgent(t, syncpolicy.AgentSettings{LockDown: true})
		s := c.put(t, "nobody", map[string]string{"a.yaml": inNamespace(configMap("nobody", "1"), "tenant")}, plan.Spec{Prune: new(true)})
		refused(t, s, "serviceAccount")
		c.mustNotExist(t, inTenant+"nobody")
		s = c.put(t, "nobody", map[string]string{"a.yaml": inNamespace(configMap("nobody", "1"), "tenant")}, tenant(nil))
		c.settled(t, s, report.Healthy)
	})
	t.Run("the cluster's default account", func(t *testing.T) {
		c.configureAgent(t, syncpolicy.AgentSettings{DefaultServiceAccount: "tenant/deployer"})
		files := map[string]string{"a.yaml": inNamespace(configMap("default", "1"), "others")}
		refused(t, c.put(t, "default", files, plan.Spec{}), "tenant/deployer")
		s := c.put(t, "default", map[string]string{"a.yaml": inNamespace(configMap("default", "1"), "tenant")}, plan.Spec{Namespace: "tenant"})
		c.settled(t, s, report.Healthy)
	})
}
