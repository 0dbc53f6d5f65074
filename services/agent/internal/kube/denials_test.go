// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/canarytest"
	"github.com/leatdev/leat/internal/testkit/selfsigned"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// shown returns everything that the engine has reported so far, its events, and what the agent has
// stored in ConfigMaps.
func (c *cluster) shown(t *testing.T, events <-chan report.Event) string {
	t.Helper()
	c.mu.Lock()
	text, err := json.Marshal(c.statuses)
	c.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	shown := string(text) + fmt.Sprint(c.get(t, "/api/v1/namespaces/leat-system/configmaps"))
	for len(events) > 0 {
		shown += fmt.Sprintf("%+v", <-events)
	}
	for _, part := range []string{`"Phase":`, "leat-inventory."} {
		if !strings.Contains(shown, part) {
			t.Errorf("got no %s in what the engine shows", part)
		}
	}
	return shown
}

// denying is an admission webhook that denies requests of a namespace, and repeats the whole object
// in every part of its answer. An object names the code of the answer in the annotation deny, or
// deny-delete for its deletion.
type denying struct{ t *testing.T }

func (d denying) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var review struct {
		Request struct {
			UID, Operation    string
			Object, OldObject json.RawMessage
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		d.t.Errorf("read a review: %v", err)
		return
	}
	content, annotation := review.Request.Object, "deny"
	if review.Request.Operation == "DELETE" {
		content, annotation = review.Request.OldObject, "deny-delete"
	}
	var object struct {
		Metadata struct{ Annotations map[string]string }
		Data     map[string]string
	}
	if err := json.Unmarshal(content, &object); err != nil {
		d.t.Errorf("read the object of a review: %v", err)
		return
	}
	response := map[string]any{"uid": review.Request.UID, "allowed": true}
	if code := object.Metadata.Annotations[annotation]; code != "" {
		secret := fmt.Sprint(object.Data)
		if plain, err := base64.StdEncoding.DecodeString(object.Data["password"]); err == nil {
			secret += string(plain)
		}
		number, _ := strconv.Atoi(code)
		response["allowed"] = false
		response["status"] = map[string]any{
			"code": number, "message": "User u cannot have " + secret, "reason": secret,
			"details": map[string]any{"causes": []any{
				map[string]any{"reason": "FieldManagerConflict", "field": secret, "message": `conflict with "` + secret + `"`},
				map[string]any{"reason": "NamespaceTerminating", "field": secret, "message": secret},
				map[string]any{"reason": secret, "field": "metadata.uid", "message": "immutable " + secret},
			}},
		}
	}
	if err := json.NewEncoder(w).Encode(map[string]any{
		"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response,
	}); err != nil {
		d.t.Errorf("answer a review: %v", err)
	}
}

// deny has a webhook judge Secrets and ConfigMaps of a namespace. It blocks until the API server
// asks it.
func (c *cluster) deny(t *testing.T, namespace string, set *canarytest.Set) {
	t.Helper()
	certificate := selfsigned.New(t)
	server := httptest.NewUnstartedServer(denying{t})
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate.Pair}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(server.Close)
	c.must(t, http.MethodPost, "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", plainJSON, fmt.Sprintf(`{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": {"name": %q},
		"webhooks": [{
			"name": "deny.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Fail",
			"clientConfig": {"url": %q, "caBundle": %q},
			"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": %q}},
			"rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE", "DELETE"], "resources": ["secrets", "configmaps"]}]
		}]}`, namespace, server.URL, base64.StdEncoding.EncodeToString(certificate.PEM), namespace))
	secret := set.Plant("the administrator's own")
	await.Poll(t, "the webhook to deny a Secret", 50*time.Millisecond, func() (bool, string) {
		code, answer := c.request(t, http.MethodPost, "/api/v1/namespaces/"+namespace+"/secrets?dryRun=All", plainJSON,
			string(secretJSON(t, "probe", secret, "403")))
		// The answer to the administrator quotes the Secret: a leak would be found.
		return code == http.StatusForbidden && len(set.Find(fmt.Sprint(answer))) > 0, fmt.Sprint(code)
	})
}

// secretJSON returns a Secret whose creation the webhook denies with a code; empty: it does not.
func secretJSON(t *testing.T, name, password, code string) []byte {
	t.Helper()
	text, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": name, "annotations": map[string]string{"deny": code}},
		"data": map[string]string{"password": base64.StdEncoding.EncodeToString([]byte(password))},
	})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestSecDenialsQuoteNoSecret has admission webhooks and policies deny objects with secrets, under
// each code that the agent treats in a way of its own, and repeat the values in every part of the
// answer.
func TestSecDenialsQuoteNoSecret(t *testing.T) {
	t.Parallel()
	c, set := startCluster(t), &canarytest.Set{}
	events, stop := c.engine.Subscribe("")
	defer stop()
	c.must(t, http.MethodPatch, "/api/v1/namespaces/denied?fieldManager=admin", applyPatch, "apiVersion: v1\nkind: Namespace\nmetadata: {name: denied}\n")
	c.deny(t, "denied", set)
	spec := plan.Spec{Namespace: "denied"}
	wait := func(service string) *reason.Problem {
		t.Helper()
		got := c.await(t, service, func(got report.Status) bool { return got.Phase == report.Failed })
		if got.Problem.Reason != reason.ApplyRejected || !strings.Contains(got.Problem.Message, "admission webhook deny.example.com") {
			t.Errorf("%s: got %v %q, want APPLY_REJECTED that names the webhook", service, got.Problem.Reason, got.Problem.Message)
		}
		return got.Problem
	}
	var services []string
	for _, code := range []string{"400", "401", "403", "404", "409", "422", "429", "500", "503", "504"} {
		name := "denied-" + code
		c.put(t, name, map[string]string{"a.json": string(secretJSON(t, name, set.Plant("a Secret denied with "+code), code))}, spec)
		services = append(services, name)
		// An object of another kind holds a secret of the service's configuration.
		name = "confidential-" + code
		value := set.PlantWord("a configuration denied with " + code)
		c.configure(t, name, map[string]string{"a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + ", annotations: {deny: '" + code + "'}}\ndata: {password: '${PASSWORD}'}\n"},
			spec, &render.Variables{Secrets: map[string]string{"PASSWORD": value}})
		services = append(services, name)
	}
	for _, service := range services {
		wait(service)
	}

	// A denied deletion is not an object that another client has replaced.
	prune := plan.Spec{Namespace: "denied", Prune: new(true)}
	kept := string(secretJSON(t, "kept", set.Plant("a Secret that stays"), ""))
	kept = strings.Replace(kept, `{"deny":""}`, `{"deny-delete":"409"}`, 1)
	both := map[string]string{"a.json": kept, "b.yaml": configMap("beside", "1"), "c.yaml": configMap("beside-too", "1")}
	c.settled(t, c.put(t, "kept", both, prune), report.Healthy)
	delete(both, "a.json")
	c.put(t, "kept", both, prune)
	wait("kept")
	c.mustExist(t, "/api/v1/namespaces/denied/secrets/kept")

	// A policy words what a right that the account lacks sounds like.
	c.must(t, http.MethodPatch, "/api/v1/namespaces/tenant?fieldManager=admin", applyPatch, "apiVersion: v1\nkind: Namespace\nmetadata: {name: tenant}\n")
	const roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/tenant/"
	c.must(t, http.MethodPatch, roles+"roles/deployer?fieldManager=admin", applyPatch,
		strings.Replace(tenantRights, "resources: [configmaps]", "resources: [configmaps, secrets]", 1))
	c.must(t, http.MethodPatch, roles+"rolebindings/deployer?fieldManager=admin", applyPatch, tenantBinding)
	const registration = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic"
	c.must(t, http.MethodPost, registration+"ies", plainJSON, `{"metadata": {"name": "quoting"}, "spec": {
		"failurePolicy": "Fail",
		"matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["secrets"]}],
			"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "tenant"}}},
		"validations": [{"expression": "false", "reason": "Forbidden", "messageExpression": "'User u cannot have ' + string(object.data.password)"}]}}`)
	c.must(t, http.MethodPost, registration+"ybindings", plainJSON, `{"metadata": {"name": "quoting"}, "spec": {"policyName": "quoting", "validationActions": ["Deny"]}}`)
	probe := set.Plant("the administrator's second")
	await.Poll(t, "the policy to deny a Secret", 50*time.Millisecond, func() (bool, string) {
		code, answer := c.request(t, http.MethodPost, "/api/v1/namespaces/tenant/secrets?dryRun=All", plainJSON, string(secretJSON(t, "probe", probe, "")))
		return code == http.StatusForbidden && len(set.Find(fmt.Sprint(answer))) > 0, fmt.Sprint(code, answer["message"])
	})
	c.put(t, "policy", map[string]string{"a.json": string(secretJSON(t, "policy", set.Plant("a Secret denied by a policy"), ""))},
		plan.Spec{Namespace: "tenant", CreateNamespace: new(false), Policy: syncpolicy.Policy{ServiceAccount: "deployer"}})
	got := c.await(t, "policy", func(got report.Status) bool { return got.Phase == report.Failed })
	if got.Problem.Reason != reason.ApplyRejected || !strings.Contains(got.Problem.Message, "ValidatingAdmissionPolicy quoting") {
		t.Errorf("got %v %q, want APPLY_REJECTED that names the policy", got.Problem.Reason, got.Problem.Message)
	}
	set.Check(t, "the engine", c.shown(t, events))
}
