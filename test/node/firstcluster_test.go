// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/gittest"
)

// Addresses of a trial for agents and people of its own cluster, as the notes of the chart print them.
const (
	hubURL    = "https://distributor.leat.svc:8700"
	tunnelURL = "https://tunnel.leat.svc:8701"
)

// hello is a Deployment whose pod logs and serves a text. Its namespace enforces the profile
// restricted.
func hello(text string) string {
	return `apiVersion: apps/v1
kind: Deployment
metadata: { name: hello }
spec:
  selector: { matchLabels: { app: hello } }
  template:
    metadata: { labels: { app: hello } }
    spec:
      terminationGracePeriodSeconds: 1
      securityContext: ` + restrictedPod + `
      containers:
        - name: hello
          image: busybox:1.37
          command: [sh, -c, "echo hello from $TEXT; echo $TEXT >/pages/index.html; exec httpd -f -p 8080 -h /pages"]
          env: [{ name: TEXT, value: ` + text + ` }]
          readinessProbe: { httpGet: { path: /, port: 8080 }, periodSeconds: 1 }
          securityContext: ` + restrictedContainer + `
          volumeMounts: [{ name: pages, mountPath: /pages }]
      volumes: [{ name: pages, emptyDir: {} }]
`
}

// trial is the hub of the first cluster.
type trial struct {
	*node
	// repo is served at url, where pods reach it.
	repo *gittest.Repo
	url  string
	// authority is the path of what its clients trust.
	authority string
	// kubeconfig leads to the cluster through the tunnel.
	kubeconfig string
}

// TestFirstCluster follows docs/operations/kubernetes.md from an empty cluster to a commit in a pod,
// and then disturbs what it made.
func TestFirstCluster(t *testing.T) {
	n := requireNode(t)
	h := &trial{node: n}
	h.serveRepository(t)
	if !t.Run("a trial is installed by the documented commands", h.install) ||
		!t.Run("a cluster is added by one command", h.addCluster) ||
		!t.Run("a commit arrives in a pod", h.deliver) {
		return
	}
	t.Run("kubectl through the tunnel", h.checkKubectl)
	t.Run("namespaces refuse pods with rights", h.checkPodSecurity)
	t.Run("policies", h.checkPolicies)
	t.Run("the autoscaler follows the use of processors", h.checkAutoscaler)
	t.Run("services restart while they are read", h.checkRestarts)
	t.Run("a drain honours budgets", h.checkDrain)
	t.Run("Redis is gone for a while", h.checkRedis)
	t.Run("probes", h.checkProbes)
}

// install runs the commands of the page.
func (h *trial) install(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(top, "docs", "operations", "kubernetes.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "## A trial\n")
	_, section, _ = strings.Cut(section, "```\n")
	commands, _, found := strings.Cut(section, "```")
	if !found {
		t.Fatal("docs/operations/kubernetes.md has no commands for a trial")
	}
	// Without TLS, kubectl would send no credentials to the tunnel; the page mentions it.
	const mode = "--set database.mode=trial"
	if !strings.Contains(commands, mode) || !strings.Contains(string(page), "`--set tls.mode=generated`") {
		t.Fatalf("got the commands\n%swhich the test cannot change to use TLS", commands)
	}
	commands = strings.Replace(commands, mode, mode+" --set tls.mode=generated", 1)
	out, err := h.try(t, strings.NewReader("set -e\n"+commands), "/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out, "Phase:          Succeeded") {
		t.Errorf("got\n%s\nwant that helm test succeeds", out)
	}
	h.rolledOut(t, "leat", "statefulset/gitcache", "statefulset/distributor", "deployment/tunnel", "deployment/redis", "statefulset/postgres")
}

// secret returns a key of a Secret.
func (n *node) secret(t *testing.T, namespace, name, key string) string {
	t.Helper()
	text, err := base64.StdEncoding.DecodeString(n.kubectl(t, "--namespace", namespace, "get", "secret", name, "--output", "jsonpath={.data."+strings.ReplaceAll(key, ".", `\.`)+"}"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// addCluster enrols the node's own cluster.
func (h *trial) addCluster(t *testing.T) {
	h.env = append(h.env, "LEAT_SERVER="+hubURL, "LEAT_CA_FILE="+h.authority, "LEAT_TOKEN="+h.secret(t, "leat", "leat-hub", "admin-token"))
	if err := os.WriteFile(h.authority, []byte(h.secret(t, "leat", "leat-distributor-tls", "ca.crt")), 0o600); err != nil {
		t.Fatal(err)
	}
	h.apply(t, h.run(t, "leat", "cluster", "create", "berlin", "--output", "kubernetes"))
	h.rolledOut(t, "leat-system", "deployment/leat-agent")
}

// serveRepository serves a Git repository until the test ends.
func (h *trial) serveRepository(t *testing.T) {
	t.Helper()
	h.repo = gittest.New(t).Repo(t, "hello")
	h.repo.Commit(t, "main", map[string]string{"deploy/hello.yaml": hello("first")})
	// Policies of the chart allow Git servers at the usual ports alone.
	server, path, _ := strings.Cut(strings.TrimPrefix(h.repo.URL(), "http://"), "/")
	relay(t, h.address+":80", server)
	h.url = "http://" + h.address + "/" + path
	h.authority = filepath.Join(t.TempDir(), "ca.crt")
}

// deliver applies a service, and changes it by a commit.
func (h *trial) deliver(t *testing.T) {
	h.kubectl(t, "create", "namespace", "hello")
	h.kubectl(t, "label", "namespace", "hello", "pod-security.kubernetes.io/enforce=restricted")
	documents := fmt.Sprintf(`apiVersion: leat.dev/v1
kind: Repository
metadata: { name: hello }
spec: { url: "%s", pollInterval: 10s }
---
apiVersion: leat.dev/v1
kind: Service
metadata: { name: hello }
spec: { cluster: berlin, namespace: hello, sources: [{ repository: hello, ref: { branch: main }, path: deploy }] }
`, h.url)
	h.run(t, "leat", "apply", "--filename", file(t, "hello.yaml", documents))
	h.arrives(t, "first")
	h.repo.Commit(t, "main", map[string]string{"deploy/hello.yaml": hello("second")})
	h.arrives(t, "second")
}

// arrives blocks until the only pod is the commit's, by its own log.
func (h *trial) arrives(t *testing.T, text string) {
	t.Helper()
	await.Success(t, "the log of a pod of the commit "+text, func(context.Context) error {
		got, err := h.try(t, nil, "kubectl", "--namespace", "hello", "logs", "--selector", "app=hello")
		if err == nil && got != "hello from "+text {
			err = fmt.Errorf("got %q", got)
		}
		return err
	})
	h.rolledOut(t, "hello", "deployment/hello")
}

// through returns the arguments with which kubectl goes through the tunnel.
func (h *trial) through(args ...string) []string {
	return append([]string{"--kubeconfig", h.kubeconfig, "--namespace", "hello"}, args...)
}

// checkKubectl uses the real kubectl with the kubeconfig that leat prints, for each kind of stream.
func (h *trial) checkKubectl(t *testing.T) {
	config := h.run(t, "leat", "kubeconfig", "berlin")
	if want := "server: " + tunnelURL + "/clusters/berlin"; !strings.Contains(config, want) {
		t.Fatalf("got %s, want %s", config, want)
	}
	h.kubeconfig = file(t, "kubeconfig", config)
	if got := h.kubectl(t, h.through("logs", "deployment/hello")...); got != "hello from second" {
		t.Errorf("logs: got %q", got)
	}
	if got := h.kubectl(t, h.through("exec", "deployment/hello", "--", "cat", "/pages/index.html")...); got != "second" {
		t.Errorf("exec: got %q", got)
	}
	name := h.kubectl(t, h.through("get", "pods", "--selector", "app=hello", "--field-selector", "status.phase=Running", "--output", "jsonpath={.items[0].metadata.name}")...)
	sent, received := file(t, "sent", strings.Repeat("a file for a pod\n", 10_000)), filepath.Join(t.TempDir(), "received")
	h.kubectl(t, h.through("cp", sent, name+":/pages/sent")...)
	h.kubectl(t, h.through("cp", name+":/pages/sent", received)...)
	a, b := read(t, sent), read(t, received)
	if a != b {
		t.Errorf("cp: got back %d bytes, want the %d that were sent", len(b), len(a))
	}
	h.checkPortForward(t)
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// checkPortForward reads the pod's page through a forwarded port.
func (h *trial) checkPortForward(t *testing.T) {
	t.Helper()
	forward := h.command(t, "kubectl", h.through("port-forward", "deployment/hello", ":8080")...)
	out, err := forward.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := forward.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = forward.Process.Kill(), forward.Wait() }()
	lines := bufio.NewScanner(out)
	lines.Scan()
	address, _, found := strings.Cut(strings.TrimPrefix(lines.Text(), "Forwarding from "), " -> 8080")
	if !found {
		t.Fatalf("got %q, %v, want the forwarded port", lines.Text(), lines.Err())
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || strings.TrimSpace(string(body)) != "second" {
		t.Errorf("port-forward: got %q, %v", body, err)
	}
}

// checkPodSecurity asks for a pod with rights in each namespace of Leat.
func (h *trial) checkPodSecurity(t *testing.T) {
	for _, namespace := range []string{"leat", "leat-system"} {
		_, err := h.try(t, nil, "kubectl", "--namespace", namespace, "run", "root", "--image=busybox:1.37", "--dry-run=server", "--privileged")
		if want := `violates PodSecurity "restricted`; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a privileged pod in %s: got %v, want %s", namespace, err, want)
		}
	}
}
