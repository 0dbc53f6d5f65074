// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"fmt"
	"maps"
	"net/http"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/services/agent/internal/report"
)

func workload(name, replicas string) string {
	return "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: " + name + "}\nspec:\n" + replicas +
		"  selector: {matchLabels: {app: " + name + "}}\n  template:\n    metadata: {labels: {app: " + name + "}}\n" +
		"    spec: {containers: [{name: x, image: example.test/y, resources: {requests: {cpu: \"0.001\"}}}]}\n"
}

const (
	deploymentRequests = "apps/v1 deployments/"
	scale              = `{"spec":{"replicas":3}}`
)

// controlled waits until the deployment's controller has observed its current generation.
func (g *stage) controlled(t *testing.T, name string) {
	t.Helper()
	g.await(t, g.name, func(got report.Status) bool { return got.Phase == report.Healthy })
	o := g.must(t, http.MethodGet, deploymentRequests+name, "", "")
	status, _ := o["status"].(map[string]any)
	if status["readyReplicas"] == nil {
		t.Errorf("status of %s: got %v, want replicas that are ready", name, status)
	}
}

// testScale has an autoscaler change a number of replicas that the manifest sets, or does not set.
func testScale(t *testing.T, c *cluster) {
	g := c.enter(t, "scale", syncpolicy.DriftCorrect, workload("said", "  replicas: 2\n"), workload("unsaid", ""), workload("fence", ""))
	for _, name := range []string{"said", "unsaid", "fence"} {
		g.controlled(t, name)
	}
	g.must(t, http.MethodPatch, deploymentRequests+"unsaid/scale?fieldManager=autoscaler", mergePatch, scale)
	g.must(t, http.MethodPatch, deploymentRequests+"said/scale?fieldManager=autoscaler", mergePatch, scale)
	g.corrected(t, "said")
	g.await(t, g.name, func(got report.Status) bool { return got.Phase == report.Healthy })
	g.must(t, http.MethodPatch, deploymentRequests+"fence?fieldManager=somebody", mergePatch, `{"spec":{"template":{"spec":{"containers":[{"name":"x","image":"other"}]}}}}`)
	g.corrected(t, "fence")
	g.await(t, g.name, func(got report.Status) bool { return got.Phase == report.Healthy })
	for name, want := range map[string]int{"said": 2, "unsaid": 1, "fence": 2} {
		if got := g.applies(t, "deployments", g.name, name); got != want {
			t.Errorf("applies of %s: got %d, want %d", name, got, want)
		}
	}
	for name, want := range map[string]float64{"said": 2, "unsaid": 3} {
		o := g.must(t, http.MethodGet, deploymentRequests+name, "", "")
		if got := o["spec"].(map[string]any)["replicas"]; got != want {
			t.Errorf("replicas of %s: got %v, want %v", name, got, want)
		}
	}
}

// untilMutated creates a namespace and waits until a policy is in force there.
func (c *cluster) untilMutated(t *testing.T, namespace string, want map[string]any) {
	t.Helper()
	body := fmt.Sprintf(`{"metadata":{"name":%q}}`, namespace)
	if status, _ := c.request(t, http.MethodPost, "/api/v1/namespaces", "application/json", body); status != http.StatusCreated {
		t.Fatalf("create namespace: got %d", status)
	}
	await.Poll(t, fmt.Sprintf("the policy to be in force: %v", want), 20*time.Millisecond, func() (bool, string) {
		_, o := c.request(t, http.MethodPost, "/api/v1/namespaces/"+namespace+"/configmaps?dryRun=All", "application/yaml", configMap("target", "1"))
		data, _ := o["data"].(map[string]any)
		return maps.Equal(data, want), fmt.Sprint(o)
	})
}

// testStatus writes a status repeatedly.
func testStatus(t *testing.T, c *cluster) {
	g := c.enter(t, "status", syncpolicy.DriftCorrect, workload("web", ""), workload("fence", ""))
	g.controlled(t, "web")
	for i := range 5 {
		body := fmt.Sprintf(`{"status":{"conditions":[{"type":"Custom","status":"True","reason":"r%d"}]}}`, i)
		g.must(t, http.MethodPatch, deploymentRequests+"web/status?fieldManager=somebody", mergePatch, body)
	}
	g.must(t, http.MethodPatch, deploymentRequests+"fence?fieldManager=somebody", mergePatch, `{"metadata":{"labels":{"leat.dev/service":null}}}`)
	g.corrected(t, "fence")
	if got := g.applies(t, "deployments", g.name, "web"); got != 1 {
		t.Errorf("applies: got %d, want only the first", got)
	}
}

// testAdmission has policies that add to applied objects, and that overwrite them.
func testAdmission(t *testing.T, c *cluster) {
	policy := func(name, mutation string) {
		object := fmt.Sprintf(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"MutatingAdmissionPolicy","metadata":{"name":%[1]q},"spec":{
			"reinvocationPolicy":"Never","failurePolicy":"Fail",
			"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE","UPDATE"],"resources":["configmaps"],"resourceNames":["target"]}],
				"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":%[1]q}}},
			"mutations":[{"patchType":"ApplyConfiguration","applyConfiguration":{"expression":%[2]q}}]}}`, name, mutation)
		binding := fmt.Sprintf(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"MutatingAdmissionPolicyBinding","metadata":{"name":%[1]q},"spec":{"policyName":%[1]q}}`, name)
		for resource, body := range map[string]string{"mutatingadmissionpolicies": object, "mutatingadmissionpolicybindings": binding} {
			if status, answer := c.request(t, http.MethodPost, "/apis/admissionregistration.k8s.io/v1/"+resource, "application/json", body); status != http.StatusCreated {
				t.Fatalf("create %s: got %d, %v", resource, status, answer["message"])
			}
		}
	}
	policy("admission-adds", `Object{data: {"added": "by policy"}, metadata: Object.metadata{annotations: {"policy": "was here"}}}`)
	policy("admission-writes-over", `Object{data: {"value": "by policy"}}`)
	for name, want := range map[string]map[string]any{
		"admission-adds": {"value": "1", "added": "by policy"}, "admission-writes-over": {"value": "by policy"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.untilMutated(t, name, want)
			g := c.enter(t, name, syncpolicy.DriftCorrect, configMap("target", "1"))
			g.fence(t)
			if got := g.data(t, "target"); !maps.Equal(got.(map[string]any), want) {
				t.Errorf("data: got %v, want %v", got, want)
			}
			before := g.applies(t, "configmaps", g.name, "target")
			g.merge(t, target, `{"metadata":{"annotations":{"a":"b"}}}`)
			g.fence(t)
			g.fence(t)
			if got := g.applies(t, "configmaps", g.name, "target"); before != 1 || got != 1 {
				t.Errorf("applies: got %d and then %d, want only the first", before, got)
			}
			g.merge(t, target, `{"metadata":{"labels":{"leat.dev/service":null}}}`)
			g.corrected(t, "target")
			g.fence(t)
			if got := g.applies(t, "configmaps", g.name, "target") - before; got != 1 {
				t.Errorf("applies for the label: got %d, want 1", got)
			}
		})
	}
}

// testVersions has two services apply objects of one kind in different versions, of which the watch
// reads one.
func testVersions(t *testing.T, c *cluster) {
	autoscaler := func(version, metrics string) string {
		return "apiVersion: autoscaling/" + version + "\nkind: HorizontalPodAutoscaler\nmetadata: {name: target}\nspec:\n" +
			"  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: none}\n  maxReplicas: 3\n" + metrics
	}
	old := c.enter(t, "version-old", syncpolicy.DriftCorrect, autoscaler("v1", "  targetCPUUtilizationPercentage: 70\n"))
	young := c.enter(t, "version-new", syncpolicy.DriftCorrect, autoscaler("v2",
		"  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 70}}}]\n"))
	const path = "autoscaling/v2 horizontalpodautoscalers/target"
	for _, g := range []*stage{old, young} {
		g.must(t, http.MethodPatch, path+"?fieldManager=somebody", mergePatch, `{"metadata":{"annotations":{"a":"b"}}}`)
		g.must(t, http.MethodPatch, path+"?fieldManager=somebody", mergePatch, `{"spec":{"maxReplicas":4}}`)
		g.corrected(t, "target")
		g.must(t, http.MethodPatch, path+"?fieldManager=somebody", mergePatch, `{"metadata":{"labels":{"leat.dev/service":null}}}`)
		g.corrected(t, "target")
		if got := g.applies(t, "horizontalpodautoscalers", g.name, "target"); got != 3 {
			t.Errorf("%s: got %d applies, want the first and one for each of two changes", g.name, got)
		}
	}
}
