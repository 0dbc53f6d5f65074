// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// TestEqualNamesOfProjects: services of one name in several projects have inventories and objects of
// their own, after a restart, too, and each prunes its own alone.
func TestEqualNamesOfProjects(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	long := strings.Repeat("p", 63) + "." + strings.Repeat("n", 63)
	spaces := map[string]string{"web": "plain-web", "shop.web": "shop-web", "blog.web": "blog-web", long: "long-web"}
	services := map[string]plan.Service{}
	put := func(name string, files ...string) {
		content := map[string]string{}
		for _, file := range files {
			content[file+".yaml"] = configMap(file, "1")
		}
		services[name] = c.put(t, name, content, plan.Spec{Namespace: spaces[name], CreateNamespace: new(true), Prune: new(true)})
	}
	for name := range spaces {
		put(name, "a", "b")
	}
	for _, s := range services {
		c.settled(t, s, report.Healthy)
	}
	for name, want := range map[string]map[string]any{
		"web": {k8s.ServiceLabel: "web"}, "shop.web": {k8s.ServiceLabel: "web", k8s.ProjectLabel: "shop"},
		long: {k8s.ServiceLabel: strings.Repeat("n", 63), k8s.ProjectLabel: strings.Repeat("p", 63)},
	} {
		_, object := c.request(t, http.MethodGet, "/api/v1/namespaces/"+spaces[name]+"/configmaps/a", "", "")
		labels, _ := at(object, "metadata", "labels").(map[string]any)
		if labels[k8s.ServiceLabel] != want[k8s.ServiceLabel] || labels[k8s.ProjectLabel] != want[k8s.ProjectLabel] {
			t.Errorf("%s: got labels %v, want %v", name, labels, want)
		}
	}

	c.restart(t)
	put("shop.web", "a")
	c.settled(t, services["shop.web"], report.Healthy)
	c.mustNotExist(t, "/api/v1/namespaces/shop-web/configmaps/b")
	c.drop("blog.web", long)
	c.gone(t, "blog.web")
	c.gone(t, long)
	c.mustNotExist(t, "/api/v1/namespaces/blog-web/configmaps/a", "/api/v1/namespaces/long-web/configmaps/a")
	c.mustExist(t, "/api/v1/namespaces/plain-web/configmaps/b", "/api/v1/namespaces/shop-web/configmaps/a")
	for name := range spaces {
		c.settledIfPlanned(t, services, name)
	}

	// An object that one project's service has is not taken by another's of the same name.
	stolen := c.put(t, "evil.web", map[string]string{"a.yaml": inNamespace(configMap("a", "2"), "shop-web")},
		plan.Spec{Namespace: "shop-web", Prune: new(true)})
	if got := c.settled(t, stolen, report.Failed); got.Problem.Reason != reason.ObjectClaimed {
		t.Errorf("got %+v, want OBJECT_CLAIMED", got.Problem)
	}
}

// settledIfPlanned waits for a service that is still in the plan.
func (c *cluster) settledIfPlanned(t *testing.T, services map[string]plan.Service, name string) {
	t.Helper()
	c.mu.Lock()
	_, isPlanned := c.services[name]
	c.mu.Unlock()
	if isPlanned {
		c.settled(t, services[name], report.Healthy)
	}
}

// TestSecProjectLimitsInTheCluster: a service that would leave the limits of its project changes nothing
// in the cluster, and its last good state stays.
func TestSecProjectLimitsInTheCluster(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	limits := &syncpolicy.Limits{
		Namespaces: syncpolicy.AllowList{"team-*"}, ClusterScopedKinds: syncpolicy.AllowList{"ClusterRole.rbac.authorization.k8s.io", "Namespace"},
	}
	spec := func(change func(*plan.Spec)) plan.Spec {
		s := plan.Spec{Namespace: "team-a", CreateNamespace: new(true), Prune: new(true), Policy: syncpolicy.Policy{Limits: limits}}
		if change != nil {
			change(&s)
		}
		return s
	}
	const role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: limited-role}\nrules: []\n"
	good := map[string]string{"a.yaml": configMap("a", "1"), "role.yaml": role}
	c.settled(t, c.put(t, "team.app", good, spec(nil)), report.Healthy)
	const own = "/api/v1/namespaces/team-a/configmaps/"
	c.mustExist(t, own+"a", "/apis/rbac.authorization.k8s.io/v1/clusterroles/limited-role")

	const definition = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: limits.limited.test}\n" +
		"spec: {group: limited.test, scope: Cluster, names: {plural: limits, singular: limit, kind: Limit}, versions: [{name: v1, served: true, " +
		"storage: true, schema: {openAPIV3Schema: {type: object}}}]}\n"
	binding := "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: limited-evil}\n" +
		"roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}\nsubjects: []\n"
	for name, test := range map[string]struct {
		files map[string]string
		spec  plan.Spec
		word  string
	}{
		"a namespace":              {map[string]string{"new.yaml": configMap("new", "1"), "x.yaml": inNamespace(configMap("x", "1"), "kube-system")}, spec(nil), "kube-system"},
		"the service's namespace":  {map[string]string{"new.yaml": configMap("new", "1")}, spec(func(s *plan.Spec) { s.Namespace = "elsewhere" }), "elsewhere"},
		"a kind without namespace": {map[string]string{"new.yaml": configMap("new", "1"), "x.yaml": binding}, spec(nil), "ClusterRoleBinding"},
		"a namespace to make":      {map[string]string{"new.yaml": configMap("new", "1"), "x.yaml": "apiVersion: v1\nkind: Namespace\nmetadata: {name: limited-other}\n"}, spec(nil), "limited-other"},
		"a definition":             {map[string]string{"new.yaml": configMap("new", "1"), "x.yaml": definition}, spec(nil), "CustomResourceDefinition"},
		"the agent itself": {
			map[string]string{"new.yaml": configMap("new", "1")},
			spec(func(s *plan.Spec) {
				s.Policy.Limits = &syncpolicy.Limits{ServiceAccounts: syncpolicy.AllowList{"team-a/deployer"}}
			}), "the agent itself",
		},
		"another account": {
			map[string]string{"new.yaml": configMap("new", "1")},
			spec(func(s *plan.Spec) {
				s.Policy.ServiceAccount = "kube-system/root"
				s.Policy.Limits = &syncpolicy.Limits{ServiceAccounts: syncpolicy.AllowList{"team-a/deployer"}}
			}), "kube-system/root",
		},
	} {
		got := c.settled(t, c.put(t, "team.app", test.files, test.spec), report.Failed)
		if got.Problem.Reason != reason.ProjectForbidden || !strings.Contains(got.Problem.Message, test.word) {
			t.Errorf("%s: got %+v, want PROJECT_FORBIDDEN and %q", name, got.Problem, test.word)
		}
		c.mustExist(t, own+"a", "/apis/rbac.authorization.k8s.io/v1/clusterroles/limited-role")
		c.mustNotExist(t, own+"new", "/api/v1/namespaces/kube-system/configmaps/x", "/api/v1/namespaces/elsewhere", "/api/v1/namespaces/limited-other",
			"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/limited-evil", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/limits.limited.test")
	}
	c.settled(t, c.put(t, "team.app", good, spec(nil)), report.Healthy)
}
