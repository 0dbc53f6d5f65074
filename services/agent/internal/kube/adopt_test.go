// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"sigs.k8s.io/yaml"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/plan"
)

const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// kubectlApply acts like kubectl apply without --server-side: it stores the applied manifest in an
// annotation, and merges the previous manifest, the new one, and the live object.
func (c *cluster) kubectlApply(t *testing.T, manager, path, manifest string) {
	t.Helper()
	var object map[string]any
	if err := yaml.Unmarshal([]byte(manifest), &object); err != nil {
		t.Fatal(err)
	}
	plain := encoded(t, object)
	metadata := object["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	if annotations == nil {
		annotations = map[string]any{}
	}
	annotations[lastApplied] = plain
	metadata["annotations"] = annotations
	wanted := encoded(t, object)
	status, live := c.request(t, http.MethodGet, path, "", "")
	if status == http.StatusNotFound {
		c.must(t, http.MethodPost, path[:strings.LastIndex(path, "/")]+"?fieldManager="+manager, plainJSON, wanted)
		return
	}
	before, _ := part(live, "metadata", "annotations", lastApplied).(string)
	patch, err := jsonmergepatch.CreateThreeWayJSONMergePatch([]byte(before), []byte(wanted), []byte(encoded(t, live)))
	if err != nil {
		t.Fatal(err)
	}
	c.editAs(t, manager, path, string(patch))
}

func encoded(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// kubectl returns an object to which a manager that works like kubectl apply has applied these
// manifests, in order.
func kubectl(manager string, manifests ...string) func(t *testing.T, c *cluster, path, name string) {
	return func(t *testing.T, c *cluster, path, name string) {
		t.Helper()
		for _, manifest := range manifests {
			c.kubectlApply(t, manager, path, strings.ReplaceAll(manifest, "NAME", name))
		}
	}
}

// made returns an object that a manager has created, and then edited.
func made(manager, manifest string, edits ...string) func(t *testing.T, c *cluster, path, name string) {
	return func(t *testing.T, c *cluster, path, name string) {
		t.Helper()
		c.createAs(t, manager, path[:strings.LastIndex(path, "/")], strings.ReplaceAll(manifest, "NAME", name))
		for _, edit := range edits {
			c.editAs(t, manager, path, edit)
		}
	}
}

// labelled returns a manifest with the labels and annotations of deployers.
func labelled(label, annotation, data string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME, labels: {%s}, annotations: {%s}}\ndata: %s\n", label, annotation, data)
}

func never(s plan.Spec) plan.Spec {
	s.Policy.Adoption = syncpolicy.AdoptNever
	return s
}

// theirs and ours are the manifests of a former deployer and of the service: a changes, b leaves, c
// is added.
var (
	theirs = settings("{a: '1', b: '1'}")
	ours   = settings("{a: '2', c: '2'}")
	taken  = map[string]any{"data.a": "2", "data.b": nil, "data.c": "2", "metadata.annotations": nil}
	byLeat = map[string]string{"f:data f:a": "leat", "f:data f:b": "", "f:data f:c": "leat"}
)

// adoptions are encounters with objects that others have created.
var adoptions = map[string]encounter{
	"from kubectl apply":                   {others: kubectl("kubectl-client-side-apply", theirs), ours: ours, values: taken, owners: byLeat},
	"from kubectl apply, twice":            {others: kubectl("kubectl-client-side-apply", settings("{z: '1'}"), theirs), ours: ours, values: taken, owners: byLeat},
	"from kubectl apply on the server":     {others: applied("kubectl", theirs), ours: ours, values: taken, owners: byLeat},
	"from kubectl apply, one then another": {others: kubectlBoth, ours: ours, values: taken, owners: byLeat},
	"from kubectl create":                  {others: made("kubectl-create", theirs), ours: ours, values: taken, owners: byLeat},
	"from Helm 3": {
		others: made("helm", labelled("app.kubernetes.io/managed-by: Helm", "meta.helm.sh/release-name: r", "{a: '0', b: '1'}"), `{"data": {"a": "1"}}`),
		ours:   ours, values: taken, owners: byLeat,
	},
	"from Helm 4": {
		others: applied("helm", labelled("app.kubernetes.io/managed-by: Helm", "meta.helm.sh/release-name: r", "{a: '1', b: '1'}")),
		ours:   ours, values: taken, owners: byLeat,
	},
	"from Flux": {
		others: applied("kustomize-controller", labelled("kustomize.toolkit.fluxcd.io/name: apps", "", "{a: '1', b: '1'}")), ours: ours, values: taken, owners: byLeat,
	},
	"from Flux's Helm releases": {others: applied("helm-controller", theirs), ours: ours, values: taken, owners: byLeat},
	"from Argo CD": {
		others: kubectl("argocd-controller", labelled("app.kubernetes.io/instance: apps", "argocd.argoproj.io/tracking-id: x", "{a: '1', b: '1'}")),
		ours:   ours, values: taken, owners: byLeat,
	},
	"from Argo CD on the server": {others: applied("argocd-controller", theirs), ours: ours, values: taken, owners: byLeat},
	"from nobody who is known": {
		others: func(t *testing.T, c *cluster, path, name string) {
			made("x", theirs)(t, c, path, name)
			c.must(t, http.MethodPatch, path, jsonPatch, `[{"op": "replace", "path": "/metadata/managedFields", "value": [{}]}]`)
		},
		ours: ours, values: map[string]any{"data.a": "2", "data.c": "2"},
	},
	"a person's edit is a conflict": {
		others: func(t *testing.T, c *cluster, path, name string) {
			kubectl("kubectl-client-side-apply", theirs)(t, c, path, name)
			c.editAs(t, "kubectl-edit", path, `{"data": {"a": "x"}}`)
		},
		ours: ours, reason: reason.ApplyConflict, words: []string{"kubectl-edit owns data.a;"}, values: map[string]any{"data.a": "x"},
	},
	"a person's own field stays": {
		others: func(t *testing.T, c *cluster, path, name string) {
			kubectl("kubectl-client-side-apply", theirs)(t, c, path, name)
			c.editAs(t, "kubectl-edit", path, `{"data": {"mine": "x"}}`)
		},
		ours: ours, values: map[string]any{"data.a": "2", "data.b": nil, "data.mine": "x"},
	},
	"an operator's fields stay": {
		others: func(t *testing.T, c *cluster, path, name string) {
			applied("kustomize-controller", theirs, "operator", settings("{d: x}"))(t, c, path, name)
		},
		ours: ours, values: map[string]any{"data.a": "2", "data.b": nil, "data.d": "x"}, owners: map[string]string{"f:data f:d": "operator"},
	},
	"items of lists": {
		at: podTemplates, others: applied("kustomize-controller", template("[{name: app, image: '1'}, {name: old, image: '1'}]")),
		ours:   template("[{name: app, image: '2'}]"),
		values: map[string]any{"template.spec.containers.app.image": "2", "template.spec.containers.old": nil},
	},
	"ignored fields keep the deployer's value": {
		others: applied("kustomize-controller", theirs), ours: ours, spec: pointers("/data/a", "/data/b"),
		values: map[string]any{"data.a": "1", "data.b": "1", "data.c": "2"},
	},
	"status of others is not touched": {
		at: services,
		others: func(t *testing.T, c *cluster, path, name string) {
			service := "apiVersion: v1\nkind: Service\nmetadata: {name: NAME}\nspec: {type: LoadBalancer, ports: [{port: 80}]}\n"
			kubectl("kubectl-client-side-apply", service)(t, c, path, name)
			c.editAs(t, "kubectl", path+"/status", `{"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}}`)
		},
		ours:   "apiVersion: v1\nkind: Service\nmetadata: {name: NAME}\nspec: {type: LoadBalancer, ports: [{port: 81}]}\n",
		values: map[string]any{"status.loadBalancer.ingress": []any{map[string]any{"ip": "192.0.2.1", "ipMode": "VIP"}}},
		owners: map[string]string{"f:status f:loadBalancer f:ingress": "kubectl"},
	},
	"a Secret": {
		at:     secrets,
		others: kubectl("kubectl-client-side-apply", "apiVersion: v1\nkind: Secret\nmetadata: {name: NAME}\nstringData: {a: '1', b: '1'}\n"),
		ours:   "apiVersion: v1\nkind: Secret\nmetadata: {name: NAME}\nstringData: {a: '2'}\n",
		values: map[string]any{"data.a": "Mg==", "data.b": nil, "metadata.annotations": nil},
	},
	"not wanted": {
		others: kubectl("kubectl-client-side-apply", theirs), ours: ours, spec: never(plan.Spec{}),
		reason: reason.ObjectUnmanaged, words: []string{"exists"}, values: map[string]any{"data.a": "1", "data.b": "1", "metadata.labels": nil},
	},
	"not wanted, not even by force": {
		others: applied("x", theirs), ours: ours, spec: never(plan.Spec{ForceConflicts: true}),
		reason: reason.ObjectUnmanaged, values: map[string]any{"data.a": "1"},
	},
	"not wanted, and not there": {ours: ours, spec: never(plan.Spec{}), values: map[string]any{"data.a": "2"}},
	"not wanted, and made by the service": {
		first: theirs, ours: ours, spec: never(plan.Spec{Prune: new(true)}), values: map[string]any{"data.a": "2", "data.b": nil},
	},
	"of another agent's service": {
		others: func(t *testing.T, c *cluster, path, name string) {
			applied(k8s.FieldManager, labelled("leat.dev/service: somebody", "", "{a: '1'}"))(t, c, path, name)
		},
		ours: ours, reason: reason.ObjectClaimed, words: []string{"somebody"}, values: map[string]any{"data.a": "1"},
	},
	"labelled in the name of a service that there is not": {
		others: func(t *testing.T, c *cluster, path, name string) {
			applied("kustomize-controller", labelled("leat.dev/service: somebody", "", "{a: '1'}"))(t, c, path, name)
		},
		ours: ours, values: map[string]any{"data.a": "2"},
	},
	"not wanted, and labelled": {
		others: func(t *testing.T, c *cluster, path, name string) {
			applied("kustomize-controller", labelled("leat.dev/service: somebody", "", "{a: '1'}"))(t, c, path, name)
		},
		ours: ours, spec: never(plan.Spec{}), reason: reason.ObjectUnmanaged, values: map[string]any{"data.a": "1"},
	},
}

func kubectlBoth(t *testing.T, c *cluster, path, name string) {
	t.Helper()
	kubectl("kubectl-client-side-apply", settings("{b: '1'}"))(t, c, path, name)
	c.applyAs(t, "kubectl", path, strings.ReplaceAll(theirs, "NAME", name))
}

// testAdoptionIsForOnce counts the requests of an adoption, and shows that no request is repeated.
func testAdoptionIsForOnce(t *testing.T, c *cluster) {
	kubectl("kubectl-client-side-apply", theirs)(t, c, configMaps+"once", "once")
	events, stop := c.engine.Subscribe("once")
	defer stop()
	files := map[string]string{"a.yaml": strings.ReplaceAll(ours, "NAME", "once")}
	guards := guard(files, configMaps, settings("{s: us}"), "sentinel-once")
	c.assertAfter(t, "once", 2, func() { c.carriedOut(t, c.put(t, "once", files, plan.Spec{})) })
	for event := range events {
		if event.Object != nil && event.Object.Name == "once" && event.Message == "adopted the fields of kubectl-client-side-apply" {
			break
		}
	}
	c.assertQuiet(t, configMaps+"once", guards, 0, func() {})
	c.assertQuiet(t, configMaps+"once", guards, 1, func() {
		files["a.yaml"] = strings.ReplaceAll(settings("{a: '3'}"), "NAME", "once")
		c.carriedOut(t, c.put(t, "once", files, plan.Spec{}))
	})
}

// testAdoptedNamespace has a namespace that the agent created before the service's manifests
// contain it, in a service that adopts nothing.
func testAdoptedNamespace(t *testing.T, c *cluster) {
	spec := never(plan.Spec{Namespace: "own", CreateNamespace: new(true)})
	c.carriedOut(t, c.put(t, "own", map[string]string{"a.yaml": configMap("a", "1")}, spec))
	namespace := "apiVersion: v1\nkind: Namespace\nmetadata: {name: own, labels: {tier: x}}\n"
	c.carriedOut(t, c.put(t, "own", map[string]string{"a.yaml": configMap("a", "1"), "n.yaml": namespace}, spec))
	live := c.get(t, "/api/v1/namespaces/own")
	if got := part(live, "metadata", "labels", "tier"); got != "x" {
		t.Errorf("label: got %v, want x", got)
	}
	if got := part(live, "metadata", "labels", "kubernetes.io/metadata.name"); got != "own" {
		t.Errorf("label of the API server: got %v, want own", got)
	}
}
