// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/internal/runtime/localkube/kubetest"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/kube"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/report"
)

const (
	agentAccount = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: leat-agent, namespace: leat-system}\n"
	agentRole    = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: leat-agent-view}\nrules: [{apiGroups: [\"\"], resources: [nodes], verbs: [list]}]\n"
	agentViews   = `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: leat-agent-view}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: leat-agent-view}
subjects: [{kind: ServiceAccount, name: leat-agent, namespace: leat-system}]
`
	agentClaim = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data, namespace: leat-system}\n" +
		"spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n"
)

// agentMap is a ConfigMap in the agent's namespace.
func agentMap(name string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: leat-system}\n", name)
}

// agentDeployment is what runs the agent.
func agentDeployment(name, namespace string, replicas int) string {
	return fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata: {name: %s, namespace: %s}
spec:
  replicas: %d
  selector: {matchLabels: {app: leat-agent}}
  template:
    metadata: {labels: {app: leat-agent}}
    spec:
      serviceAccountName: leat-agent
      containers: [{name: agent, image: ghcr.io/leatdev/leat/agent, env: [{name: A, valueFrom: {secretKeyRef: {name: maybe, key: a, optional: true}}}]}]
      volumes:
      - {name: data, persistentVolumeClaim: {claimName: data}}
      - {name: ca, configMap: {name: ca}}
      - {name: join, secret: {secretName: join, optional: true}}
`, name, namespace, replicas)
}

// agentFiles are the manifests of the agent.
func agentFiles() map[string]string {
	return map[string]string{
		"deployment.yaml": agentDeployment("leat-agent", "leat-system", 1), "account.yaml": agentAccount, "role.yaml": agentRole, "binding.yaml": agentViews,
		"claim.yaml": agentClaim, "ca.yaml": agentMap("ca"), "join.yaml": agentMap("join"), "other.yaml": agentMap("other"),
	}
}

// startInPod runs an engine with the token of a Pod that a Deployment owns, with the rights of a ClusterRole. grant
// gives it those of another one.
func startInPod(t *testing.T, role, rules string) (c *cluster, client *kube.Client, grant func(role string)) {
	t.Helper()
	cp := kubetest.Borrow(t)
	kubectl := func(stdin string, args ...string) string {
		t.Helper()
		command := exec.CommandContext(t.Context(), kubetest.Binaries(t.Context(), t).Kubectl, append([]string{"--kubeconfig", cp.KubeconfigPath()}, args...)...)
		command.Env, command.Stdin = append(os.Environ(), "HOME="+t.TempDir()), strings.NewReader(stdin)
		out, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("kubectl %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	kubectl("apiVersion: v1\nkind: Namespace\nmetadata: {name: leat-system}\n---\n"+agentAccount+"---\n"+agentClaim+"---\n"+agentMap("ca")+"---\n"+
		agentDeployment("leat-agent", "leat-system", 1)+"---\n"+rules, "apply", "-f", "-")
	grant = func(role string) {
		t.Helper()
		kubectl("", "create", "clusterrolebinding", "agent-has-"+role, "--clusterrole="+role, "--serviceaccount=leat-system:leat-agent")
	}
	grant(role)
	uid := func(kind, name string) string {
		return kubectl("", "-n", "leat-system", "get", kind, name, "-o", "jsonpath={.metadata.uid}")
	}
	owned := func(kind, apiVersion, owner, ownerKind, ownerAPI, spec string) string {
		return fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":"leat-agent-1","namespace":"leat-system","labels":{"app":"leat-agent"},`+
			`"ownerReferences":[{"apiVersion":%q,"kind":%q,"name":%q,"uid":%q,"controller":true}]},"spec":%s}`,
			apiVersion, kind, ownerAPI, ownerKind, owner, uid(ownerKind, owner), spec)
	}
	pod := kubectl("", "-n", "leat-system", "get", "deployment", "leat-agent", "-o", "jsonpath={.spec.template}")
	spec := kubectl("", "-n", "leat-system", "get", "deployment", "leat-agent", "-o", "jsonpath={.spec.template.spec}")
	kubectl(owned("ReplicaSet", "apps/v1", "leat-agent", "Deployment", "apps/v1", `{"selector":{"matchLabels":{"app":"leat-agent"}},"template":`+pod+`}`), "create", "-f", "-")
	kubectl(owned("Pod", "v1", "leat-agent-1", "ReplicaSet", "apps/v1", spec), "create", "-f", "-")
	token := kubectl("", "-n", "leat-system", "create", "token", "leat-agent", "--bound-object-kind=Pod", "--bound-object-name=leat-agent-1")
	c = clusterAt(t, asToken(t, cp.KubeconfigPath(), token))
	c.cp = cp
	return c, c.client, grant
}

// TestSelf has the API server name the Pod of a token, and what it is made of.
func TestSelf(t *testing.T) {
	t.Parallel()
	c, client, _ := startInPod(t, "cluster-admin", "")
	key := func(group, kind, name string) inventory.Key {
		return inventory.Key{Group: group, Kind: kind, Namespace: "leat-system", Name: name}
	}
	self, err := kube.Self{Client: client}.Ask(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if want := (k8s.Account{Namespace: "leat-system", Name: "leat-agent"}); self.Account != want || self.Gap != nil {
		t.Errorf("got %+v, want the account %v, and all of it known", self, want)
	}
	if want := []inventory.Key{key("", "Pod", "leat-agent-1"), key("apps", "ReplicaSet", "leat-agent-1"), key("apps", "Deployment", "leat-agent")}; !slices.Equal(self.Workloads, want) {
		t.Errorf("got the workloads %v, want %v", self.Workloads, want)
	}
	if want := []inventory.Key{key("", "Secret", "leat-agent-identity"), key("", "PersistentVolumeClaim", "data"), key("", "ConfigMap", "ca")}; !slices.Equal(self.Needs, want) {
		t.Errorf("got the needs %v, want %v", self.Needs, want)
	}
	outside, err := kube.New(kube.Params{Kubeconfig: c.cp.KubeconfigPath(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if self, err := (kube.Self{Client: outside}).Ask(t.Context()); err != nil || len(self.Workloads) > 0 || self.Account != (k8s.Account{}) || len(self.Base) != 1 {
		t.Errorf("got %+v and %v for an administrator, want the namespace alone", self, err)
	}
}

// TestSecAgentSurvivesItsManifests delivers an agent its own manifests, which a committer then breaks in one way after
// the other. The agent lives on with its rights, and reports what it refused.
func TestSecAgentSurvivesItsManifests(t *testing.T) {
	t.Parallel()
	c, _, _ := startInPod(t, "cluster-admin", "")
	spec := plan.Spec{Namespace: "leat-system", Prune: new(true), Policy: syncpolicy.Policy{
		Deletion: syncpolicy.Deletion{VolumeClaims: true, Namespaces: true},
	}}
	const (
		home, rbac = "/api/v1/namespaces/leat-system", "/apis/rbac.authorization.k8s.io/v1/"
		deployment = "/apis/apps/v1/namespaces/leat-system/deployments/leat-agent"
	)
	deliver := func(change func(map[string]string), also ...func(*plan.Spec)) plan.Service {
		files, own := agentFiles(), spec
		change(files)
		for _, edit := range also {
			edit(&own)
		}
		return c.put(t, "agent", files, own)
	}
	applied := func(s plan.Service) {
		t.Helper()
		c.await(t, s.Name, func(got report.Status) bool {
			return got.Problem == nil && slices.Equal(got.Applied.Digests, []string{s.Bundles[0].Digest.String()}) && got.Observed.SpecDigest == s.SpecDigest
		})
	}
	refused := func(s plan.Service, words ...string) {
		t.Helper()
		c.await(t, s.Name, func(got report.Status) bool {
			text := ""
			if got.Problem != nil && got.Problem.Reason == reason.AgentItself {
				text = got.Problem.Message
			}
			return got.Observed.SpecDigest == s.SpecDigest && slices.Equal(got.Observed.Digests, []string{s.Bundles[0].Digest.String()}) &&
				text != "" && !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(text, word) })
		})
		c.mustExist(t, deployment, home, home+"/serviceaccounts/leat-agent", home+"/persistentvolumeclaims/data", home+"/configmaps/ca",
			rbac+"clusterroles/leat-agent-view", rbac+"clusterrolebindings/leat-agent-view")
	}
	without := func(names ...string) func(map[string]string) {
		return func(files map[string]string) {
			maps.DeleteFunc(files, func(name, _ string) bool { return slices.Contains(names, name) })
		}
	}
	with := func(name, text string) func(map[string]string) {
		return func(files map[string]string) { files[name] = text }
	}
	// A change that nothing refuses. Its digest is applied only when a run has ended, in which every object was applied: then
	// the guard of deletions counts from the beginning. Manifests that were applied before need no run.
	changes := 0
	healthy := func() func(map[string]string) {
		changes++
		return with("other.yaml", agentMap("other")+fmt.Sprintf("data: {change: \"%d\"}\n", changes))
	}

	applied(deliver(healthy()))
	for _, gone := range []string{"claim.yaml", "ca.yaml", "binding.yaml", "role.yaml"} {
		refused(deliver(without(gone)), map[string]string{"claim.yaml": "a part of the agent", "ca.yaml": "a part of the agent", "binding.yaml": "its rights", "role.yaml": "its rights"}[gone])
		applied(deliver(healthy()))
	}
	refused(deliver(without("deployment.yaml")), "no longer have Deployment.apps leat-system/leat-agent")
	refused(deliver(without("account.yaml")), "no longer have ServiceAccount leat-system/leat-agent")
	refused(deliver(with("deployment.yaml", agentDeployment("leat-agent", "leat-system", 0))), "to no replica")
	refused(deliver(with("deployment.yaml", agentDeployment("renamed", "leat-system", 1))), "no longer have")
	c.mustNotExist(t, "/apis/apps/v1/namespaces/leat-system/deployments/renamed")
	refused(deliver(with("binding.yaml", strings.ReplaceAll(agentViews, "namespace: leat-system", "namespace: elsewhere"))), "out of a binding")
	moved := func(files map[string]string) {
		for name, text := range files {
			files[name] = strings.ReplaceAll(text, "namespace: leat-system", "namespace: elsewhere")
		}
	}
	refused(deliver(moved, func(s *plan.Spec) { s.Namespace = "elsewhere"; s.CreateNamespace = new(true) }), "no longer have")
	if status, _ := c.request(t, http.MethodGet, "/api/v1/namespaces/elsewhere", "", ""); status != http.StatusNotFound {
		t.Errorf("got %d for the other namespace, want nothing changed", status)
	}
	recreate := strings.ReplaceAll(agentDeployment("leat-agent", "leat-system", 1), "app: leat-agent", "app: other")
	refused(deliver(with("deployment.yaml", recreate), func(s *plan.Spec) { s.Policy.Recreate = true }), "a part of the agent")
	c.must(t, http.MethodGet, home+"/configmaps/other", "", "")
	applied(deliver(healthy()))
	applied(deliver(without("other.yaml", "join.yaml")))
	c.mustNotExist(t, home+"/configmaps/other")
	c.drop("agent")
	c.gone(t, "agent")
	c.mustExist(t, deployment, home+"/serviceaccounts/leat-agent", home+"/persistentvolumeclaims/data", rbac+"clusterrolebindings/leat-agent-view")
	live := c.get(t, deployment)
	if labels, _ := at(live, "metadata", "labels").(map[string]any); labels[k8s.ServiceLabel] != nil {
		t.Errorf("got the labels %v, want the Deployment to be no longer Leat's", labels)
	}
}

// withoutPods are rights of an agent that may not read its own Pod.
const withoutPods = `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: without-pods}
rules:
- {apiGroups: [""], resources: [configmaps, secrets, namespaces], verbs: ["*"]}
- {apiGroups: [apiextensions.k8s.io], resources: [customresourcedefinitions], verbs: [list, watch]}
`

// TestSecAgentThatMayNotReadItsPod has an agent delete in its own namespace that does not know what it is made of. It
// names the right that it lacks, keeps the object, and deletes it once it has the right.
func TestSecAgentThatMayNotReadItsPod(t *testing.T) {
	t.Parallel()
	c, client, grant := startInPod(t, "without-pods", withoutPods)
	self, err := kube.Self{Client: client}.Ask(t.Context())
	if err != nil || self.Gap == nil || self.Gap.Object.String() != "Pod leat-system/leat-agent-1" {
		t.Fatalf("got %+v and %v, want a gap at its Pod", self, err)
	}
	spec := plan.Spec{Namespace: "leat-system", Prune: new(true)}
	const home = "/api/v1/namespaces/leat-system"
	files := map[string]string{"ca.yaml": agentMap("ca"), "other.yaml": agentMap("other"), "kept.yaml": agentMap("kept")}
	applied := func(s plan.Service) {
		t.Helper()
		c.await(t, s.Name, func(got report.Status) bool {
			return got.Problem == nil && slices.Equal(got.Applied.Digests, []string{s.Bundles[0].Digest.String()})
		})
	}
	applied(c.put(t, "agent", files, spec))

	files = map[string]string{"ca.yaml": agentMap("ca"), "kept.yaml": agentMap("kept")}
	less := c.put(t, "agent", files, spec)
	message := ""
	c.await(t, less.Name, func(got report.Status) bool {
		if got.Problem != nil && got.Problem.Reason == reason.AgentPodUnreadable {
			message = got.Problem.Message
		}
		return message != ""
	})
	for _, want := range []string{
		"leat-system/other", "could not read Pod leat-system/leat-agent-1", `cannot get resource "pods" in API group "" in the namespace "leat-system"`,
		"get pods, replicasets, deployments and statefulsets in namespace leat-system",
	} {
		if !strings.Contains(message, want) {
			t.Errorf("got %q, want %q in it", message, want)
		}
	}
	c.mustExist(t, home+"/configmaps/other")

	grant("cluster-admin")
	applied(less)
	c.mustNotExist(t, home+"/configmaps/other")
	c.mustExist(t, home+"/configmaps/ca")
}
