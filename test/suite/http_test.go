// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package suite_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// get returns status and body of a GET, with a bearer token unless it is empty.
func get(t *testing.T, client *http.Client, url, token string) (int, string) {
	t.Helper()
	response := open(t, client, url, token)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("read %s: %v", url, err)
	}
	return response.StatusCode, string(body)
}

// open begins a GET and leaves its body to the caller.
func open(t *testing.T, client *http.Client, url, token string) *http.Response {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatalf("get %s: %v", url, err)
	}
	return response
}

// kubePost creates an object in the cluster directly, as its administrator.
func (h *hub) kubePost(t *testing.T, path, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.cluster.Host()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := h.cluster.HTTPClient().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusCreated {
		answer, _ := io.ReadAll(response.Body)
		t.Fatalf("create at %s: got %s %s", path, response.Status, answer)
	}
}

// grantAdmins gives the group in which administrators are impersonated all rights, like
// deploy/kubernetes/agent.yaml.
func (h *hub) grantAdmins(t *testing.T) {
	t.Helper()
	h.kubePost(t, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", `{
		"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "leat-admins"},
		"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
		"subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "leat:admins"}]}`)
}
