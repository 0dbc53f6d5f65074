// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// prying is a spec of a service without an account in a project with limits.
func prying(change func(*plan.Spec)) plan.Spec {
	s := plan.Spec{Namespace: "team-a", CreateNamespace: new(true), Policy: syncpolicy.Policy{Limits: &syncpolicy.Limits{
		Namespaces: syncpolicy.AllowList{"team-*"}, ClusterScopedKinds: syncpolicy.AllowList{"Namespace"},
	}}}
	change(&s)
	return s
}

// TestSecDependenciesReadNothingOfOthers has services depend on objects that they may not read, which
// exist and which do not, with conditions by which CEL would quote their content.
func TestSecDependenciesReadNothingOfOthers(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	c.keep(t, "others", "db", map[string]string{"key": "canary-others"})
	c.keep(t, "leat-system", "leat-agent-identity", map[string]string{"key": "canary-agent"})
	c.keep(t, "team-a", "own", map[string]string{"key": "canary-own"})
	files := map[string]string{"a.yaml": configMap("pried", "1")}
	object := func(apiVersion, kind, namespace, name string) *syncpolicy.ObjectReference {
		return &syncpolicy.ObjectReference{APIVersion: apiVersion, Kind: kind, Namespace: namespace, Name: name}
	}
	spies := 0
	for _, condition := range []string{"", "'x'.matches(self.data.key + '(')", "timestamp(self.data.key) > timestamp(0)", "{'a': true}[self.data.key]"} {
		for word, all := range map[string][]*syncpolicy.ObjectReference{
			"limits of project shop": {
				object("v1", "Secret", "others", "db"), object("v1", "Secret", "others", "missing"),
				object("rbac.authorization.k8s.io/v1", "ClusterRole", "", "cluster-admin"), object("rbac.authorization.k8s.io/v1", "ClusterRole", "", "missing"),
				object("v1", "Namespace", "", "others"), object("v1", "Namespace", "", "missing"),
			},
			"the agent's own": {object("v1", "Secret", "leat-system", "leat-agent-identity"), object("v1", "Secret", "leat-system", "missing")},
		} {
			for _, one := range all {
				spies++
				spy := fmt.Sprintf("shop.spy%d", spies)
				c.put(t, spy, files, prying(func(s *plan.Spec) {
					s.Policy.DependsOn = []syncpolicy.Dependency{{Object: one, Condition: condition}}
				}))
				got := c.awaitProblem(t, spy, report.Pending, reason.DependencyNotReady, word, one.Kind, one.Name)
				if strings.Contains(got.Problem.Message, "exist") {
					t.Errorf("got %q, want nothing about whether %s exists", got.Problem.Message, one.Name)
				}
			}
		}
	}
	// A project without limits reads everything but the agent's namespace, and expressions see no Secret.
	for _, test := range []struct {
		namespace, name, condition, word string
	}{
		{"others", "db", "timestamp(self.data.key) > timestamp(0)", "cannot be evaluated: line 1, column"},
		{"others", "db", "self.data.key.startsWith('Y2Fu')", "does not meet"},
		{"leat-system", "leat-agent-identity", "has(self.data.key)", "the agent's own"},
		{"leat-system", "leat-sops", "", "the agent's own"},
	} {
		spies++
		spy := fmt.Sprintf("spy%d", spies)
		c.put(t, spy, files, plan.Spec{Namespace: "team-a", Policy: syncpolicy.Policy{
			DependsOn: []syncpolicy.Dependency{{Object: object("v1", "Secret", test.namespace, test.name), Condition: test.condition}},
		}})
		c.awaitProblem(t, spy, report.Pending, reason.DependencyNotReady, test.name, test.word)
	}
	c.mustNotExist(t, "/api/v1/namespaces/team-a/configmaps/pried")

	// Objects within the project's limits are read as before, and limits that become narrower count.
	allowed := prying(func(s *plan.Spec) {
		s.Policy.DependsOn = []syncpolicy.Dependency{{Object: object("v1", "Secret", "", "own"), Condition: "has(self.data.key)"}}
	})
	c.settled(t, c.put(t, "shop.spy", files, allowed), report.Healthy)
	allowed.Policy.Limits = &syncpolicy.Limits{Namespaces: syncpolicy.AllowList{"team-b"}}
	c.put(t, "shop.spy", map[string]string{"a.yaml": configMap("pried", "2")}, allowed)
	c.awaitProblem(t, "shop.spy", report.Pending, reason.DependencyNotReady, "limits of project shop", "own")
}

// TestSecChartsLookNothingUpOfOthers has charts look up what the limits of the project do not allow,
// although a hub has let the rule pass.
func TestSecChartsLookNothingUpOfOthers(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	c.keep(t, "others", "db", map[string]string{"key": "canary-others"})
	c.keep(t, "leat-system", "leat-agent-identity", map[string]string{"key": "canary-agent"})
	const role = "rbac.authorization.k8s.io/v1"
	files := map[string]string{
		"Chart.yaml":           "apiVersion: v2\nname: spy\nversion: 1.0.0\n",
		"templates/a.yaml":     "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: found}\ndata:\n  others: {{ lookup \"v1\" \"Secret\" \"others\" \"\" | toJson | quote }}\n",
		"templates/NOTES.txt":  "{{ lookup \"v1\" \"Secret\" \"leat-system\" \"leat-agent-identity\" | toJson }}",
		"templates/roles.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: roles}\ndata: {all: {{ lookup \"" + role + "\" \"ClusterRole\" \"\" \"\" | toJson | quote }}}\n",
	}
	for i, test := range []struct {
		rule renderstep.LookupRule
		spec plan.Spec
		why  reason.Reason
	}{
		{renderstep.LookupRule{APIVersion: "v1", Kind: "Secret", Namespace: "others", Name: "db"}, prying(func(*plan.Spec) {}), reason.ProjectForbidden},
		{renderstep.LookupRule{APIVersion: "v1", Kind: "Secret", Namespace: "others", Name: "*"}, prying(func(*plan.Spec) {}), reason.ProjectForbidden},
		{renderstep.LookupRule{APIVersion: role, Kind: "ClusterRole", Name: "*"}, prying(func(*plan.Spec) {}), reason.ProjectForbidden},
		{renderstep.LookupRule{APIVersion: role, Kind: "ClusterRole", Name: "cluster-admin"}, prying(func(*plan.Spec) {}), reason.ProjectForbidden},
		{renderstep.LookupRule{APIVersion: "v1", Kind: "Namespace", Name: "others"}, prying(func(*plan.Spec) {}), reason.ProjectForbidden},
		{renderstep.LookupRule{APIVersion: "v1", Kind: "Secret", Namespace: "leat-system", Name: "*"}, prying(func(*plan.Spec) {}), reason.TenantForbidden},
		{renderstep.LookupRule{APIVersion: "v1", Kind: "Secret", Namespace: "leat-system", Name: "leat-agent-identity"}, plan.Spec{Namespace: "team-a"}, reason.TenantForbidden},
	} {
		test.spec.Render = []renderstep.Step{{Renderer: renderstep.Helm, Helm: &renderstep.HelmOptions{Lookup: []renderstep.LookupRule{test.rule}}}}
		spy := fmt.Sprintf("shop.chart%d", i)
		c.put(t, spy, files, test.spec)
		c.awaitProblem(t, spy, report.Failed, test.why, test.rule.Kind, test.rule.Name)
	}
	c.mustNotExist(t, "/api/v1/namespaces/team-a/configmaps/found", "/api/v1/namespaces/team-a/configmaps/roles")
}

// TestSecPatternsDoNotMeanTheAgentsNamespace: a limit such as * lets no service without an account into
// the namespace with the keys of the cluster.
func TestSecPatternsDoNotMeanTheAgentsNamespace(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	c.keep(t, "leat-system", "leat-agent-identity", map[string]string{"key": "canary-agent"})
	files := map[string]string{"a.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: leat-agent-identity, namespace: leat-system}\n"}
	c.put(t, "shop.spy", files, plan.Spec{Namespace: "team-a", Policy: syncpolicy.Policy{Limits: &syncpolicy.Limits{Namespaces: syncpolicy.AllowList{"*"}}}})
	c.awaitProblem(t, "shop.spy", report.Failed, reason.ProjectForbidden, "the agent's own")
	if differences, err := c.engine.Diff(t.Context(), "shop.spy"); err == nil {
		t.Errorf("got %+v, want the refusal", differences)
	}
	if _, live := c.request(t, http.MethodGet, "/api/v1/namespaces/leat-system/secrets/leat-agent-identity", "", ""); at(live, "metadata", "labels") != nil {
		t.Errorf("got labels %v, want the agent's own Secret as it was", at(live, "metadata", "labels"))
	}
}
