// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"log/slog"
	"net/http"
	"slices"
	"testing"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/kube"
)

// TestContentsWithoutRightsToSecrets asks an agent that may list everything but Secrets what a
// namespace contains. The service's account, which may list them, sees them in its place. Without
// such an account the namespace does not count as empty.
func TestContentsWithoutRightsToSecrets(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	const rbac = "/apis/rbac.authorization.k8s.io/v1/"
	const header = "apiVersion: rbac.authorization.k8s.io/v1\n"
	grant := func(place, kind, name, rules, subject string) {
		c.must(t, http.MethodPatch, rbac+place+kind+"s/"+name+"?fieldManager=admin", applyPatch, header+"kind: "+map[string]string{
			"role": "Role", "clusterrole": "ClusterRole",
		}[kind]+"\nmetadata: {name: "+name+"}\nrules: ["+rules+"]\n")
		c.must(t, http.MethodPatch, rbac+place+kind+"bindings/"+name+"?fieldManager=admin", applyPatch, header+"kind: "+map[string]string{
			"role": "RoleBinding", "clusterrole": "ClusterRoleBinding",
		}[kind]+"\nmetadata: {name: "+name+"}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: "+map[string]string{
			"role": "Role", "clusterrole": "ClusterRole",
		}[kind]+", name: "+name+"}\nsubjects: ["+subject+"]\n")
	}
	c.keep(t, "held", "kept", map[string]string{"key": "canary"})
	grant("", "clusterrole", "lister", `{apiGroups: [""], resources: [configmaps, endpoints, events, limitranges, persistentvolumeclaims, pods, podtemplates, `+
		`replicationcontrollers, resourcequotas, serviceaccounts, services], verbs: [list]}, `+
		`{apiGroups: [apps, autoscaling, batch, coordination.k8s.io, discovery.k8s.io, events.k8s.io, networking.k8s.io, policy, rbac.authorization.k8s.io, `+
		`resource.k8s.io, scheduling.k8s.io, storage.k8s.io, certificates.k8s.io], resources: ["*"], verbs: [list]}`,
		"{kind: User, apiGroup: rbac.authorization.k8s.io, name: lister}")
	grant("namespaces/held/", "role", "owner", `{apiGroups: [""], resources: [secrets], verbs: [list]}`, "{kind: ServiceAccount, name: owner, namespace: held}")
	client, err := kube.New(kube.Params{Kubeconfig: kubeconfigAs(t, c, "lister"), UserAgent: userAgent, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	held := inventory.Ref{Key: inventory.Key{Kind: "Namespace", Name: "held"}, Version: "v1"}
	for name, isSeen := range map[string]bool{"": false, "stranger": false, "owner": true} {
		account := k8s.Account{}
		if name != "" {
			account = k8s.Account{Namespace: "held", Name: name}
		}
		api, err := client.As(account)
		if err != nil {
			t.Fatal(err)
		}
		found, err := api.Contents(t.Context(), held)
		switch {
		case isSeen && (err != nil || !slices.ContainsFunc(found, func(o inventory.Object) bool { return o.Kind == "Secret" && o.Name == "kept" })):
			t.Errorf("as %q: got %v, %v, want the Secret", name, found, err)
		case !isSeen && (err == nil || reason.ProblemOf(err).Reason == reason.Internal || len(found) > 0):
			t.Errorf("as %q: got %v, %v, want a refusal", name, found, err)
		}
	}
}
