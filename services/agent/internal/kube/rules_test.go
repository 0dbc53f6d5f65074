// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// TestHealthOfObjects writes the status of objects like controllers do. Each state lasts until the
// test has seen its effect; nothing here waits for a health timeout.
func TestHealthOfObjects(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	c.defineOpen(t, "mill.test", "Pump", "pumps")
	c.defineOpen(t, "cert-manager.io", "Certificate", "certificates")
	for name, test := range map[string]func(*testing.T, *cluster){
		"a rule of one's own": testOwnRule, "rules change": testRulesChange, "a wrong rule": testWrongRule, "a kind of the library": testLibraryKind,
		"a failed Job": testFailedJob, "past its deadline": testPastDeadline, "ignored": testIgnored, "suspended": testSuspended,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, c)
		})
	}
}

// defineOpen defines a kind whose objects may have any status.
func (c *cluster) defineOpen(t *testing.T, group, kind, plural string) {
	t.Helper()
	body := fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[3]s.%[1]s}
spec:
  group: %[1]s
  scope: Namespaced
  names: {kind: %[2]s, plural: %[3]s}
  versions:
    - name: v1
      served: true
      storage: true
      subresources: {status: {}}
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`, group, kind, plural)
	status, answer := c.request(t, http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "application/yaml", body)
	if status != http.StatusCreated {
		t.Fatalf("define %s: got %d %v", kind, status, answer)
	}
}

// tells writes a status as a controller would.
func (c *cluster) tells(t *testing.T, path, status string) {
	t.Helper()
	code, answer := c.request(t, http.MethodPatch, path+"/status?fieldManager=controller", "application/merge-patch+json", `{"status":`+status+`}`)
	if code != http.StatusOK {
		t.Fatalf("status of %s: got %d %v", path, code, answer)
	}
}

// says waits until a service is in a phase for a problem with the given words; no words: for none.
func (c *cluster) says(t *testing.T, s plan.Service, phase report.Phase, words string) {
	t.Helper()
	c.await(t, s.Name, func(got report.Status) bool {
		return got.Phase == phase && got.Observed.SpecDigest == s.SpecDigest &&
			(got.Problem == nil) == (words == "") && (words == "" || strings.Contains(got.Problem.Message, words))
	})
}

func withRules(rules ...syncpolicy.HealthRule) plan.Spec {
	return plan.Spec{Prune: new(true), Policy: syncpolicy.Policy{HealthRules: rules}}
}

func pump(name string) map[string]string {
	return map[string]string{"a.yaml": "apiVersion: mill.test/v1\nkind: Pump\nmetadata: {name: " + name + "}\nspec: {wheels: 2}\n"}
}

const pumps = "/apis/mill.test/v1/namespaces/default/pumps/"

func testOwnRule(t *testing.T, c *cluster) {
	s := c.put(t, "own-rule", pump("own"), withRules(syncpolicy.HealthRule{
		Group: "mill.test", Kind: "Pump", Healthy: "self.status.turning == self.spec.wheels", Degraded: "self.isTrue('Broken')",
		Message: "self.isTrue('Broken') ? self.message('Broken') : string(self.status.turning) + ' wheels turn'",
	}))
	c.says(t, s, report.Progressing, "")
	c.tells(t, pumps+"own", `{"turning":1}`)
	c.await(t, s.Name, func(got report.Status) bool {
		return got.Phase == report.Progressing && got.Objects[0].Health.Message == "1 wheels turn"
	})
	c.tells(t, pumps+"own", `{"turning":2}`)
	c.says(t, s, report.Healthy, "")
	c.tells(t, pumps+"own", `{"conditions":[{"type":"Broken","status":"True","message":"the shaft broke"}]}`)
	c.says(t, s, report.Degraded, "not healthy: Pump.mill.test default/own: the shaft broke")
	c.tells(t, pumps+"own", `{"conditions":[]}`)
	c.says(t, s, report.Healthy, "")
}

// The object stays unchanged; only the verdict on it changes.
func testRulesChange(t *testing.T, c *cluster) {
	s := c.put(t, "rules-change", pump("changing"), plan.Spec{Prune: new(true)})
	c.says(t, s, report.Healthy, "")
	s = c.put(t, "rules-change", pump("changing"), withRules(syncpolicy.HealthRule{Kind: "Pump", Degraded: "true", Message: "'we want no pumps'"}))
	c.says(t, s, report.Degraded, "we want no pumps")
	s = c.put(t, "rules-change", pump("changing"), plan.Spec{Prune: new(true)})
	c.says(t, s, report.Healthy, "")
}

func testWrongRule(t *testing.T, c *cluster) {
	s := c.put(t, "wrong-rule", pump("wrong"), withRules(syncpolicy.HealthRule{Kind: "Pump", Healthy: "status.turning > 1"}))
	c.says(t, s, report.Degraded, "health rule for Pump: healthy: line 1, column 1: undeclared reference to 'status'")
	c.mustExist(t, pumps+"wrong")
}

func testLibraryKind(t *testing.T, c *cluster) {
	const certificate = "/apis/cert-manager.io/v1/namespaces/default/certificates/web"
	s := c.put(t, "library", map[string]string{
		"a.yaml": "apiVersion: cert-manager.io/v1\nkind: Certificate\nmetadata: {name: web}\nspec: {secretName: web}\n",
	}, plan.Spec{Prune: new(true)})
	c.says(t, s, report.Progressing, "")
	c.tells(t, certificate, `{"conditions":[{"type":"Ready","status":"True"}]}`)
	c.says(t, s, report.Healthy, "")
	c.tells(t, certificate, `{"conditions":[{"type":"Ready","status":"False"},{"type":"Issuing","status":"False","reason":"Failed","message":"order is invalid"}]}`)
	c.says(t, s, report.Degraded, "Certificate.cert-manager.io default/web: order is invalid")
}

func testFailedJob(t *testing.T, c *cluster) {
	s := c.put(t, "failed-job", map[string]string{
		"a.yaml": "apiVersion: batch/v1\nkind: Job\nmetadata: {name: migrate}\nspec:\n  template:\n    spec:\n      restartPolicy: Never\n" +
			"      containers: [{name: x, image: example.test/x}]\n",
	}, plan.Spec{Prune: new(true)})
	c.says(t, s, report.Progressing, "")
	const at = `"2026-01-01T00:00:00Z"`
	c.tells(t, "/apis/batch/v1/namespaces/default/jobs/migrate", `{"startTime":`+at+`,"failed":7,"conditions":[`+
		`{"type":"FailureTarget","status":"True","reason":"BackoffLimitExceeded","message":"no more retries","lastTransitionTime":`+at+`},`+
		`{"type":"Failed","status":"True","reason":"BackoffLimitExceeded","message":"no more retries","lastTransitionTime":`+at+`}]}`)
	c.says(t, s, report.Degraded, "Job.batch default/migrate: failed after 7 failed pods: BackoffLimitExceeded: no more retries")
}

func testPastDeadline(t *testing.T, c *cluster) {
	s := c.put(t, "past-deadline", map[string]string{"a.yaml": fmt.Sprintf(deployment, "slow", "")}, plan.Spec{Prune: new(true)})
	c.says(t, s, report.Progressing, "")
	c.tells(t, "/apis/apps/v1/namespaces/default/deployments/slow", `{"observedGeneration":1,"replicas":2,"updatedReplicas":2,"conditions":[`+
		`{"type":"Progressing","status":"False","reason":"ProgressDeadlineExceeded","message":"timed out"}]}`)
	c.says(t, s, report.Degraded, "Deployment.apps default/slow: 0 of 2 replicas are ready, and the rollout has made no progress for 600 s")
}

func testIgnored(t *testing.T, c *cluster) {
	const balancer = "apiVersion: v1\nkind: Service\nmetadata:\n  name: %s\n  annotations: {%s}\nspec: {type: LoadBalancer, ports: [{port: 80}]}\n"
	theirs := fmt.Sprintf(balancer, "theirs", `argocd.argoproj.io/ignore-healthcheck: "true"`)
	ours := func(annotation string) map[string]string {
		return map[string]string{"a.yaml": fmt.Sprintf(balancer, "ours", annotation), "b.yaml": theirs}
	}
	s := c.put(t, "ignored", ours("leat.dev/health: ignore"), plan.Spec{Prune: new(true)})
	c.says(t, s, report.Healthy, "")
	s = c.put(t, "ignored", ours(""), plan.Spec{Prune: new(true)})
	c.says(t, s, report.Progressing, "")
	c.tells(t, "/api/v1/namespaces/default/services/ours", `{"loadBalancer":{"ingress":[{"ip":"192.0.2.1"}]}}`)
	c.says(t, s, report.Healthy, "")
}

func testSuspended(t *testing.T, c *cluster) {
	s := c.put(t, "suspended", map[string]string{
		"a.yaml": "apiVersion: mill.test/v1\nkind: Pump\nmetadata: {name: resting}\nspec: {suspend: true}\n",
	}, plan.Spec{Prune: new(true)})
	c.says(t, s, report.Healthy, "")
	c.tells(t, pumps+"resting", `{"conditions":[{"type":"Ready","status":"False","reason":"Calm"}]}`)
	all, err := c.engine.Objects(s.Name)
	if err != nil || len(all) != 1 || all[0].Health.Message != "is suspended" {
		t.Errorf("got %+v, %v, want one object that says that it is suspended", all, err)
	}
}
