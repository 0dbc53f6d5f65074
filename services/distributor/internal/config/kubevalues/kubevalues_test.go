// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kubevalues_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/internal/runtime/dialguard"
	"github.com/leatdev/leat/internal/runtime/localkube"
	"github.com/leatdev/leat/internal/runtime/localkube/kubetest"
	"github.com/leatdev/leat/internal/testkit/chaos"
	"github.com/leatdev/leat/services/distributor/internal/config/backendcall"
	"github.com/leatdev/leat/services/distributor/internal/config/configs"
	"github.com/leatdev/leat/services/distributor/internal/config/configstest"
	"github.com/leatdev/leat/services/distributor/internal/config/kubevalues"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

func TestMain(m *testing.M) { os.Exit(kubetest.Run(m)) }

// cluster is a namespace of a real API server, with an account that may get the objects of its
// role.
type cluster struct {
	cp        *localkube.ControlPlane
	namespace string
	// proxy is before the server, and tokenFile holds the account's token.
	proxy     *chaos.Proxy
	tokenFile string
	token     string
}

var namespaces atomic.Int64

func newCluster(t *testing.T, cp *localkube.ControlPlane) *cluster {
	t.Helper()
	at, err := url.Parse(cp.Host())
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{
		cp: cp, namespace: fmt.Sprintf("values-%d", namespaces.Add(1)), tokenFile: filepath.Join(t.TempDir(), "token"),
		proxy: chaos.Start(t, chaos.Params{Target: at.Host}),
	}
	c.send(t, http.MethodPost, "/api/v1/namespaces", map[string]any{"metadata": map[string]any{"name": c.namespace}})
	c.send(t, http.MethodPost, c.core("serviceaccounts"), map[string]any{"metadata": map[string]any{"name": "hub"}})
	c.send(t, http.MethodPost, c.rbac("roles"), role(nil))
	c.send(t, http.MethodPost, c.rbac("rolebindings"), map[string]any{
		"metadata": map[string]any{"name": "hub"}, "roleRef": map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "hub"},
		"subjects": []any{map[string]any{"kind": "ServiceAccount", "name": "hub", "namespace": c.namespace}},
	})
	var review struct {
		Status struct {
			Token string `json:"token"`
		} `json:"status"`
	}
	answer := c.send(t, http.MethodPost, c.core("serviceaccounts/hub/token"), map[string]any{"spec": map[string]any{"expirationSeconds": 3600}})
	if err := json.Unmarshal([]byte(answer), &review); err != nil || review.Status.Token == "" {
		t.Fatalf("got no token: %v", err)
	}
	c.token = review.Status.Token
	c.write(t, c.token)
	return c
}

// role is the role of the account: all objects, or those named.
func role(names []string) map[string]any {
	rule := map[string]any{"apiGroups": []string{""}, "resources": []string{"secrets", "configmaps"}, "verbs": []string{"get"}}
	if names != nil {
		rule["resourceNames"] = names
	}
	return map[string]any{"metadata": map[string]any{"name": "hub"}, "rules": []any{rule}}
}

func (c *cluster) core(path string) string { return "/api/v1/namespaces/" + c.namespace + "/" + path }

func (c *cluster) rbac(path string) string {
	return "/apis/rbac.authorization.k8s.io/v1/namespaces/" + c.namespace + "/" + path
}

func (c *cluster) write(t *testing.T, token string) {
	t.Helper()
	if err := os.WriteFile(c.tokenFile, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (c *cluster) try(t *testing.T, method, path string, body any) (int, string) {
	t.Helper()
	content, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, c.cp.Host()+path, strings.NewReader(string(content)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := c.cp.HTTPClient().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

func (c *cluster) send(t *testing.T, method, path string, body any) string {
	t.Helper()
	status, text := c.try(t, method, path, body)
	if status/100 != 2 {
		t.Fatalf("%s %s: got %d: %.500s", method, path, status, text)
	}
	return text
}

// caPEM returns the certificates that the server's kubeconfig trusts.
func (c *cluster) caPEM(t *testing.T) string {
	t.Helper()
	found := regexp.MustCompile(`certificate-authority-data"?:\s*"?([A-Za-z0-9+/=]+)`).FindSubmatch(c.cp.Kubeconfig())
	if found == nil {
		t.Fatal("the kubeconfig holds no certificates")
	}
	pem, err := base64.StdEncoding.DecodeString(string(found[1]))
	if err != nil {
		t.Fatal(err)
	}
	return string(pem)
}

// own opens the cluster as the hub's own.
func (c *cluster) own(t *testing.T) configs.Backend {
	t.Helper()
	ca := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(ca, []byte(c.caPEM(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	return open(t, catalog.KubernetesBackend{}, "", kubevalues.Params{
		Own: kubevalues.OwnCluster{URL: "https://" + c.proxy.Addr(), CAFile: ca, TokenFile: c.tokenFile},
	})
}

func open(t *testing.T, k catalog.KubernetesBackend, credential string, p kubevalues.Params) configs.Backend {
	t.Helper()
	b, err := kubevalues.Open(&catalog.ConfigBackend{Spec: catalog.ConfigBackendSpec{Kubernetes: &k, Credential: secret.Text(credential)}}, p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// put writes an object. Data is by the field of the object.
func (c *cluster) put(t *testing.T, resource, name string, data map[string]any) {
	t.Helper()
	object := map[string]any{"metadata": map[string]any{"name": name}}
	for field, value := range data {
		object[field] = value
	}
	if status, text := c.try(t, http.MethodPut, c.core(resource+"/"+name), object); status == http.StatusNotFound {
		c.send(t, http.MethodPost, c.core(resource), object)
	} else if status/100 != 2 {
		t.Fatalf("put %s: got %d: %.500s", name, status, text)
	}
}

func place(t *testing.T, c *cluster, resource string) configstest.Place {
	t.Helper()
	prefix, field := "", "stringData"
	if resource == "configmaps" {
		prefix, field = "configmaps/", "data"
	}
	name := func(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }
	return configstest.Place{
		Backend: c.own(t), HasVersions: true, Largest: 900 << 10, Path: func(name string) string { return prefix + c.namespace + "/" + name },
		Put: func(t *testing.T, path string, fields map[string]string) {
			t.Helper()
			c.put(t, resource, name(path), map[string]any{field: fields})
		},
		Remove: func(t *testing.T, path string) {
			t.Helper()
			c.send(t, http.MethodDelete, c.core(resource+"/"+name(path)), map[string]any{})
		},
		Deny: func(t *testing.T, path string) {
			t.Helper()
			c.send(t, http.MethodPut, c.rbac("roles/hub"), role([]string{"open"}))
			c.awaitDenial(t, resource+"/"+name(path))
		},
		Break: func(t *testing.T) func() {
			t.Helper()
			c.write(t, "not-a-token")
			return func() { c.write(t, c.token) }
		},
		Hang: func(*testing.T) { c.proxy.Freeze() },
	}
}

// awaitDenial returns when the server follows a role that was just changed.
func (c *cluster) awaitDenial(t *testing.T, object string) {
	t.Helper()
	resource, name, _ := strings.Cut(object, "/")
	review := map[string]any{"spec": map[string]any{
		"user":               "system:serviceaccount:" + c.namespace + ":hub",
		"resourceAttributes": map[string]any{"namespace": c.namespace, "verb": "get", "resource": resource, "name": name},
	}}
	err := backoff.Retry(t.Context(), backoff.Policy{Initial: 5 * time.Millisecond, Max: 200 * time.Millisecond}, func(context.Context) error {
		if text := c.send(t, http.MethodPost, "/apis/authorization.k8s.io/v1/subjectaccessreviews", review); strings.Contains(text, `"allowed":true`) {
			return errors.New("still allowed")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestKubernetes reads from a real API server with an account that may get Secrets and ConfigMaps
// and nothing else.
func TestKubernetes(t *testing.T) {
	t.Parallel()
	cp := kubetest.Borrow(t)
	for _, resource := range []string{"secrets", "configmaps"} {
		t.Run(resource, func(t *testing.T) {
			configstest.Run(t, func(t *testing.T) configstest.Place { return place(t, newCluster(t, cp), resource) })
		})
	}
}

// TestOtherCluster signs in with a token of the document, and with the one that the operator lends.
func TestOtherCluster(t *testing.T) {
	t.Parallel()
	c := newCluster(t, kubetest.Borrow(t))
	c.put(t, "secrets", "app", map[string]any{"stringData": map[string]string{"password": configstest.Canary}})
	at := "https://" + c.proxy.Addr()
	lent := backendcall.HubToken{File: c.tokenFile, Hosts: []string{c.proxy.Addr()}}
	read := func(auth catalog.KubernetesAuth, ca string, token backendcall.HubToken, guard dialguard.Guard) error {
		b := open(t, catalog.KubernetesBackend{URL: at, CAPEM: ca, Auth: auth}, c.token, kubevalues.Params{HubToken: token, Guard: guard})
		_, err := b.Read(t.Context(), c.namespace+"/app")
		return err
	}
	local := dialguard.Guard{AllowLocal: true}
	for _, auth := range []catalog.KubernetesAuth{catalog.KubernetesByToken, catalog.KubernetesByHubToken} {
		if err := read(auth, c.caPEM(t), lent, local); err != nil {
			t.Errorf("%s: %v", auth, err)
		}
	}
	if err := read(catalog.KubernetesByToken, "", lent, local); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("got %v from a server whose certificate nobody trusts", err)
	}
	if err := read(catalog.KubernetesByToken, c.caPEM(t), lent, dialguard.Guard{}); !errors.Is(err, dialguard.ErrLocal) {
		t.Errorf("got %v, want %v", err, dialguard.ErrLocal)
	}
	if err := read(catalog.KubernetesByHubToken, c.caPEM(t), backendcall.HubToken{File: c.tokenFile, Hosts: []string{"kubernetes.example"}}, local); err == nil ||
		!strings.Contains(err.Error(), "--distributor-config-token-hosts") {
		t.Errorf("got %v, want the flag that lends the token", err)
	}
}

// TestBinaryData gives out the text of an entry, and refuses a key whose value is none.
func TestBinaryData(t *testing.T) {
	t.Parallel()
	c := newCluster(t, kubetest.Borrow(t))
	c.put(t, "secrets", "app", map[string]any{"data": map[string]any{"password": []byte("text"), "keystore": []byte{0xff, 0xfe}}})
	c.put(t, "configmaps", "app", map[string]any{"data": map[string]string{"password": "text"}, "binaryData": map[string]any{"keystore": []byte{0xff, 0xfe}}})
	b := c.own(t)
	for _, prefix := range []string{"", "configmaps/"} {
		entry, err := b.Read(t.Context(), prefix+c.namespace+"/app")
		if err != nil || entry.Check() != nil || len(entry.Fields) != 1 || entry.Fields["password"].Reveal() != "text" || len(entry.NotText) != 1 || entry.NotText[0] != "keystore" {
			t.Errorf("got %d fields, %v and %v, want the text, and that the keystore is not text", len(entry.Fields), entry.NotText, err)
		}
	}
}

// TestSecKubernetesPathsStayObjects asks for paths that could lead to other parts of the API.
func TestSecKubernetesPathsStayObjects(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = io.WriteString(w, `{"metadata": {"name": "other"}, "data": {"a": "`+configstest.Canary+`"}}`)
	}))
	t.Cleanup(server.Close)
	b := open(t, catalog.KubernetesBackend{URL: server.URL, Auth: catalog.KubernetesByToken}, "t", kubevalues.Params{Guard: dialguard.Guard{AllowLocal: true}})
	for _, path := range []string{
		"", "a", "a/b/c", "pods/a/b", "configmaps/a", "secrets/a/b", "a/b?watch=1", "a/..", "../b", "a/b/", "/a/b", "A/b", "a/b%2fc", "configmaps//b", "a/" + strings.Repeat("b", 300),
	} {
		if _, err := b.Read(t.Context(), path); path != "configmaps/a" && (err == nil || asked.Load() != 0) {
			t.Errorf("%q: got %v after %d requests, want a refusal before any", path, err, asked.Load())
		}
		asked.Store(0)
	}
	// The answer is about another object than the one that was asked for.
	if _, err := b.Read(t.Context(), "a/b"); err == nil || strings.Contains(err.Error(), configstest.Canary) {
		t.Errorf("got %v, want an error without the answer", err)
	}
}

// TestClosed reads nothing of the hub's own cluster unless its operator has opened it.
func TestClosed(t *testing.T) {
	t.Parallel()
	_, err := kubevalues.Open(&catalog.ConfigBackend{Spec: catalog.ConfigBackendSpec{Kubernetes: &catalog.KubernetesBackend{}}}, kubevalues.Params{
		Own: kubevalues.OwnCluster{URL: "https://kubernetes.default.svc"},
	})
	if err == nil || !strings.Contains(err.Error(), "--distributor-config-kubernetes-token-file") {
		t.Errorf("got %v, want the flag that opens the cluster", err)
	}
}
