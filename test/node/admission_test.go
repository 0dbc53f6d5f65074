// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/selfsigned"
)

// admission is an admission webhook of the test. The API server asks it before each write in some
// namespaces, so a test sees each step of a program, and does something between two of them.
type admission struct {
	// note sees each request, one after the other.
	note func(*admissionv1.AdmissionRequest)

	mu    sync.Mutex
	traps []*trap
}

// trap holds the first request that it wants.
type trap struct {
	wants  func(*admissionv1.AdmissionRequest) bool
	caught chan held
}

// held is a request that the API server does not continue before the test has answered.
type held struct {
	*admissionv1.AdmissionRequest

	isAllowed chan<- bool
}

// let has the API server continue.
func (h held) let() { h.isAllowed <- true }

// refuse has the API server refuse the request.
func (h held) refuse() { h.isAllowed <- false }

// admit serves a webhook for these namespaces until the test ends, which notes each request. Without
// the test, writes pass.
func (n *node) admit(t *testing.T, note func(*admissionv1.AdmissionRequest), namespaces ...string) *admission {
	t.Helper()
	a := &admission{note: note}
	server := httptest.NewUnstartedServer(a)
	certificate := selfsigned.New(t)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate.Pair}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(server.Close)
	n.apply(t, strings.NewReplacer("SERVER", server.URL, "BUNDLE", base64.StdEncoding.EncodeToString(certificate.PEM),
		"NAMESPACES", strings.Join(namespaces, ", ")).Replace(admissionWebhook))
	t.Cleanup(func() { n.kubectl(t, "delete", "validatingwebhookconfiguration", "steps.leat.test") })
	return a
}

const admissionWebhook = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: { name: steps.leat.test }
webhooks:
  - name: steps.leat.test
    admissionReviewVersions: [v1]
    sideEffects: None
    failurePolicy: Ignore
    timeoutSeconds: 30
    clientConfig: { url: "SERVER", caBundle: BUNDLE }
    namespaceSelector: { matchExpressions: [{ key: kubernetes.io/metadata.name, operator: In, values: [NAMESPACES] }] }
    rules:
      - { apiGroups: [apps], apiVersions: [v1], resources: [deployments], operations: [CREATE, UPDATE, DELETE] }
      - { apiGroups: [""], apiVersions: [v1], resources: [pods, configmaps], operations: [CREATE, UPDATE, DELETE] }
      - { apiGroups: [coordination.k8s.io], apiVersions: [v1], resources: [leases], operations: [CREATE, UPDATE] }
`

// next returns a trap for the next request that is wanted.
func (a *admission) next(wants func(*admissionv1.AdmissionRequest) bool) *trap {
	set := &trap{wants: wants, caught: make(chan held, 1)}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.traps = append(a.traps, set)
	return set
}

// wait blocks until the trap holds a request.
func (set *trap) wait(t *testing.T, what string) held {
	t.Helper()
	return await.Value(t, what, set.caught)
}

// ServeHTTP answers the API server.
func (a *admission) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
		http.Error(w, "no review", http.StatusBadRequest)
		return
	}
	answer := &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	if set := a.spring(review.Request); set != nil {
		isAllowed := make(chan bool, 1)
		set.caught <- held{review.Request, isAllowed}
		select {
		case answer.Allowed = <-isAllowed:
		case <-r.Context().Done():
		}
	}
	if !answer.Allowed {
		answer.Result = &metav1.Status{Message: "a test refuses this once", Reason: metav1.StatusReasonForbidden, Code: http.StatusForbidden}
	}
	review.Request, review.Response = nil, answer
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review)
}

// spring notes the request, and removes and returns a trap for it.
func (a *admission) spring(request *admissionv1.AdmissionRequest) *trap {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.note(request)
	for i, set := range a.traps {
		if set.wants(request) {
			a.traps = append(a.traps[:i], a.traps[i+1:]...)
			return set
		}
	}
	return nil
}
