// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"net/http"
	"testing"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/agent/internal/accounts"
	"github.com/leatdev/leat/services/agent/internal/kube"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// lockDown restarts the agent with a lock of its own.
func (c *cluster) lockDown(t *testing.T, patterns ...string) {
	t.Helper()
	lock, err := accounts.NewLock(true, patterns, kube.DefaultNamespace)
	if err != nil {
		t.Fatal(err)
	}
	c.lock = lock
	c.restart(t)
}

// TestSecLockBelongsToTheCluster acts as a hostile hub, with an agent that is bound to
// cluster-admin and whose cluster is locked.
func TestSecLockBelongsToTheCluster(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	for _, namespace := range []string{"tenant", "others"} {
		c.must(t, http.MethodPatch, "/api/v1/namespaces/"+namespace+"?fieldManager=admin", applyPatch,
			"apiVersion: v1\nkind: Namespace\nmetadata: {name: "+namespace+"}\n")
	}
	const roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/tenant/"
	c.must(t, http.MethodPatch, roles+"roles/deployer?fieldManager=admin", applyPatch, tenantRights)
	c.must(t, http.MethodPatch, roles+"rolebindings/deployer?fieldManager=admin", applyPatch, tenantBinding)
	c.keep(t, "others", "db", map[string]string{"key": "canary-others"})
	const inTenant = "/api/v1/namespaces/tenant/configmaps/"
	files := func(name string) map[string]string {
		return map[string]string{"a.yaml": inNamespace(configMap(name, "1"), "tenant")}
	}
	as := func(account string) plan.Spec {
		return plan.Spec{Namespace: "tenant", Prune: new(true), Policy: syncpolicy.Policy{ServiceAccount: account}}
	}
	// Before the lock: a service with the agent's own rights, which another one will take over in
	// part.
	mixed := map[string]string{"a.yaml": inNamespace(configMap("former-a", "1"), "tenant"), "b.yaml": inNamespace(configMap("former-b", "1"), "tenant")}
	c.settled(t, c.put(t, "former", mixed, as("")), report.Healthy)
	c.settled(t, c.put(t, "moving", files("moving"), as("")), report.Healthy)

	c.lockDown(t, "tenant/*")
	c.configureAgent(t, syncpolicy.AgentSettings{}) // the hub has no lock
	for name, test := range map[string]struct{ account, word string }{
		"nobody":  {"", "LEAT_AGENT_LOCK_DOWN"},
		"slash":   {"/", "not a service account"},
		"half":    {"tenant/", "not a service account"},
		"admin":   {"kube-system/clusterrole-aggregation-controller", "LEAT_AGENT_ALLOWED_ACCOUNTS"},
		"another": {"others/deployer", "LEAT_AGENT_ALLOWED_ACCOUNTS"},
	} {
		c.put(t, name, files(name), as(test.account))
		c.awaitProblem(t, name, report.Failed, reason.TenantForbidden, test.word)
		if found, err := c.engine.Diff(t.Context(), name); err == nil {
			t.Errorf("%s: got the diff %+v, want the refusal", name, found)
		}
		c.mustNotExist(t, inTenant+name)
	}
	spy := as("")
	spy.Policy.DependsOn = []syncpolicy.Dependency{{Object: &syncpolicy.ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: "others", Name: "db"}}}
	c.put(t, "spy", files("spy"), spy)
	c.awaitProblem(t, "spy", report.Pending, reason.DependencyNotReady, "LEAT_AGENT_LOCK_DOWN")
	c.settled(t, c.put(t, "own", files("own"), as("deployer")), report.Healthy)

	// The hub's default counts within the list alone.
	c.configureAgent(t, syncpolicy.AgentSettings{DefaultServiceAccount: "kube-system/clusterrole-aggregation-controller"})
	c.put(t, "nobody", map[string]string{"a.yaml": inNamespace(configMap("nobody", "2"), "tenant")}, as(""))
	c.awaitProblem(t, "nobody", report.Failed, reason.TenantForbidden, "clusterrole-aggregation-controller")
	c.configureAgent(t, syncpolicy.AgentSettings{DefaultServiceAccount: "deployer"})
	c.settled(t, c.put(t, "nobody", map[string]string{"a.yaml": inNamespace(configMap("nobody", "3"), "tenant")}, as("")), report.Healthy)
	c.configureAgent(t, syncpolicy.AgentSettings{})

	// An object that was applied before with the agent's own rights is not deleted with them. Another
	// service may take its objects over with an account.
	c.drop("former", "slash")
	c.awaitProblem(t, "former", report.Failed, reason.TenantForbidden, "LEAT_AGENT_LOCK_DOWN")
	c.mustExist(t, inTenant+"former-a", inTenant+"former-b")
	c.gone(t, "slash") // nothing of it was applied
	c.drop("moving")
	c.settled(t, c.put(t, "moved", files("moving"), as("deployer")), report.Healthy)
	c.gone(t, "moving")
	c.mustExist(t, inTenant+"moving")
	c.settled(t, c.put(t, "former", mixed, as("deployer")), report.Healthy) // the way out: an account
	c.drop("former")
	c.gone(t, "former")
	c.mustNotExist(t, inTenant+"former-a", inTenant+"former-b")
}
