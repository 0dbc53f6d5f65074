// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kubetest_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/runtime/localkube"
	"github.com/leatdev/leat/internal/runtime/localkube/kubetest"
	"github.com/leatdev/leat/internal/testkit/await"
)

func TestMain(m *testing.M) { os.Exit(kubetest.Run(m)) }

// TestBorrow has one test leave behind objects that are hard to remove, and the next find none of
// it.
func TestBorrow(t *testing.T) { // not parallel: the second borrower is to get the first one's server
	const (
		definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
		wells       = "/apis/borrow.example.test/v1/namespaces/left/wells"
	)
	var first, version string
	t.Run("first", func(t *testing.T) {
		cp := kubetest.Borrow(t)
		first, version = cp.Host(), get(t, cp, "/api/v1/namespaces/default", http.StatusOK)
		send(t, cp, http.MethodPost, "/api/v1/namespaces", `{"metadata":{"name":"left"}}`)
		send(t, cp, http.MethodPost, "/api/v1/namespaces/left/configmaps", `{"metadata":{"name":"held","finalizers":["example.test/never"]}}`)
		send(t, cp, http.MethodPost, definitions, `{"metadata":{"name":"wells.borrow.example.test"},"spec":{"group":"borrow.example.test","scope":"Namespaced",
			"names":{"plural":"wells","kind":"Well"},"versions":[{"name":"v1","served":true,"storage":true,
			"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`)
		awaitServed(t, cp, wells)
		send(t, cp, http.MethodPost, wells, `{"apiVersion":"borrow.example.test/v1","kind":"Well","metadata":{"name":"deep","finalizers":["example.test/never"]}}`)
		for i := range 250 { // more than one transaction of etcd takes
			send(t, cp, http.MethodPost, "/api/v1/namespaces/default/configmaps", fmt.Sprintf(`{"metadata":{"name":"many-%d"}}`, i))
		}
		send(t, cp, http.MethodPatch, "/api/v1/namespaces/default", `{"metadata":{"labels":{"changed":"yes"}}}`)
		send(t, cp, http.MethodDelete, "/apis/rbac.authorization.k8s.io/v1/clusterroles/view", "")
	})
	t.Run("second", func(t *testing.T) {
		cp := kubetest.Borrow(t)
		if cp.Host() != first {
			t.Fatalf("got another server, %s instead of %s: the first one was not made like new", cp.Host(), first)
		}
		for _, path := range []string{"/api/v1/namespaces/left", "/api/v1/namespaces/left/configmaps/held", definitions + "/wells.borrow.example.test", wells} {
			get(t, cp, path, http.StatusNotFound)
		}
		if got := get(t, cp, "/api/v1/configmaps", http.StatusOK); strings.Contains(got, "many-") || strings.Contains(got, "held") {
			t.Errorf("got %s, want no ConfigMap of the first borrower", got)
		}
		if got := get(t, cp, "/apis", http.StatusOK); strings.Contains(got, "borrow.example.test") {
			t.Errorf("got %s, want no kind of the first borrower", got)
		}
		if got := get(t, cp, "/api/v1/namespaces/default", http.StatusOK); strings.Contains(got, "changed") || uid(got) != uid(version) {
			t.Errorf("got %s, want it as it was: %s", got, version)
		}
		get(t, cp, "/apis/rbac.authorization.k8s.io/v1/clusterroles/view", http.StatusOK)
	})
	t.Run("policies", func(t *testing.T) {
		cp := kubetest.Borrow(t)
		send(t, cp, http.MethodPost, "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
			`{"metadata":{"name":"late"},"spec":{"validations":[{"expression":"true"}],"matchConstraints":{
				"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["configmaps"]}]}}}`)
	})
	t.Run("after policies", func(t *testing.T) {
		if cp := kubetest.Borrow(t); cp.Host() == first {
			t.Error("got the server that may still apply a policy, want another")
		}
	})
}

func TestBorrowersRunSideBySide(t *testing.T) {
	one, two := kubetest.Borrow(t), kubetest.Borrow(t)
	if one.Host() == two.Host() {
		t.Errorf("got %s twice, want a server for each borrower", one.Host())
	}
}

func uid(object string) string {
	_, after, _ := strings.Cut(object, `"uid":"`)
	uid, _, _ := strings.Cut(after, `"`)
	return uid
}

func ask(t *testing.T, cp *localkube.ControlPlane, method, path, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, cp.Host()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		request.Header.Set("Content-Type", "application/merge-patch+json")
	}
	response, err := cp.HTTPClient().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

func send(t *testing.T, cp *localkube.ControlPlane, method, path, body string) {
	t.Helper()
	if status, text := ask(t, cp, method, path, body); status/100 != 2 {
		t.Fatalf("%s %s: got %d: %s", method, path, status, text)
	}
}

func get(t *testing.T, cp *localkube.ControlPlane, path string, want int) string {
	t.Helper()
	status, text := ask(t, cp, http.MethodGet, path, "")
	if status != want {
		t.Errorf("%s: got %d: %s, want %d", path, status, text, want)
	}
	return text
}

// awaitServed returns when a kind that was just defined is served.
func awaitServed(t *testing.T, cp *localkube.ControlPlane, path string) {
	t.Helper()
	await.Success(t, "the kind", func(context.Context) error {
		status, text := ask(t, cp, http.MethodGet, path, "")
		if status != http.StatusOK {
			return fmt.Errorf("%s: got %d: %s", path, status, text)
		}
		return nil
	})
}
