// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package containers_test

import (
	"bufio"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/leatdev/leat/internal/runtime/localkube"
	"github.com/leatdev/leat/internal/runtime/localkube/kubetest"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/gittest"
)

// cluster is a Kubernetes cluster whose agent runs in a container, and the repository that the hub
// delivers to it.
type cluster struct {
	*person

	kubectl string
	local   *localkube.ControlPlane
	repo    *gittest.Repo
	// upstream is the repository's URL for containers.
	upstream string
	// client trusts the front.
	client *http.Client
}

// startCluster starts a control plane in the engine's network, and its agent.
func startCluster(t *testing.T, e *engine, folder string) *cluster {
	t.Helper()
	c := &cluster{
		person: newPerson(t, e, folder), kubectl: kubetest.Binaries(t.Context(), t).Kubectl,
		local: kubetest.Start(t, func(p *localkube.Params) { p.APIServerOnly = true }),
		repo:  gittest.New(t).Repo(t, "shop"),
	}
	roots := x509.NewCertPool()
	ca, err := os.ReadFile(filepath.Join(folder, "ca.crt"))
	if err != nil || !roots.AppendCertsFromPEM(ca) {
		t.Fatalf("read ca.crt: %v", err)
	}
	c.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true}}
	c.upstream = relay(t, outside, c.repo.URL())
	c.repo.Commit(t, "main", map[string]string{"deploy/shop.yaml": configMap("first")})
	// The agent's user may read these two.
	kubeconfig, authority := filepath.Join(folder, "kubeconfig"), filepath.Join(folder, "ca.crt")
	if err := os.WriteFile(kubeconfig, c.local.Kubeconfig(), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{kubeconfig, authority} {
		if err := os.Chown(path, 65532, 65532); err != nil {
			t.Fatal(err)
		}
	}
	// The rights of a person in a cluster also depend on that cluster.
	if _, err := e.run(t, nil, c.kubectl, "--kubeconfig", c.local.KubeconfigPath(), "create", "clusterrolebinding", "admin", "--clusterrole=cluster-admin", "--user=admin"); err != nil {
		t.Fatal(err)
	}
	if out := c.leat(t, "cluster", "create", "berlin"); !strings.Contains(out, "LEAT_AGENT_HUB_CA_FILE=/documents/ca.crt") {
		t.Errorf("got %s, want the agent to trust the stack's authority", out)
	}
	if out := e.do(t, "run", "--rm", "-T", "leat", "get", "clusters"); !strings.Contains(out, "berlin") {
		t.Errorf("docker compose run leat: got %s, want the cluster", out)
	}
	join := c.leat(t, "cluster", "token", "berlin")
	_, _ = e.run(t, nil, e.docker, "rm", "--force", "leat-test-agent") // of a run that was killed
	e.ask(t, "run", "--detach", "--name", "leat-test-agent", "--network", "host", "--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges:true",
		"--tmpfs", "/var/lib/leat:uid=65532,gid=65532,mode=0700", "--volume", kubeconfig+":/etc/leat/kubeconfig:ro", "--volume", authority+":/etc/leat/ca.crt:ro",
		"--env", "LEAT_AGENT_JOIN_TOKEN="+join, "--env", "LEAT_AGENT_HUB_URL="+origin, "--env", "LEAT_AGENT_HUB_CA_FILE=/etc/leat/ca.crt",
		"--env", "OTEL_EXPORTER_OTLP_ENDPOINT=http://"+net.JoinHostPort(e.address(t, "collector", "telemetry"), "4318"),
		"--env", "LEAT_AGENT_KUBECONFIG=/etc/leat/kubeconfig", "--env", "LEAT_AGENT_DATA_DIR=/var/lib/leat", "--env", "LEAT_LISTEN_ADDR=127.0.0.1:8703", e.own.Image("agent"))
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the last of what the agent logged:\n%s", e.logs(t, "leat-test-agent"))
		}
		e.ask(t, "rm", "--force", "leat-test-agent")
	})
	await.Success(t, "the agent's health check", func(context.Context) error {
		if got := e.ask(t, "inspect", "--format", "{{ .State.Health.Status }}", "leat-test-agent"); got != "healthy" {
			return fmt.Errorf("got %s, and the log\n%s", got, e.ask(t, "logs", "--tail", "5", "leat-test-agent"))
		}
		return nil
	})
	return c
}

func configMap(value string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: shop, namespace: default }\ndata: { value: " + value + " }\n"
}

// arrives blocks until the value is in the cluster.
func (c *cluster) arrives(t *testing.T, value string) {
	t.Helper()
	await.Success(t, "the value "+value+" in the cluster", func(context.Context) error {
		got, err := c.engine.run(t, nil, c.kubectl, "--kubeconfig", c.local.KubeconfigPath(), "get", "configmap", "shop", "--output", "jsonpath={.data.value}")
		if err == nil && got != value {
			err = fmt.Errorf("got %q", got)
		}
		return err
	})
}

// checkDelivery applies a service, and changes it by a commit.
func (c *cluster) checkDelivery(t *testing.T) {
	documents := fmt.Sprintf(`apiVersion: leat.dev/v1
kind: Repository
metadata: {name: shop}
spec: {url: %q, pollInterval: 10s}
---
apiVersion: leat.dev/v1
kind: Service
metadata: {name: shop}
spec:
  cluster: berlin
  sources: [{repository: shop, ref: {branch: main}, path: deploy}]
`, c.upstream)
	if err := os.WriteFile(filepath.Join(c.folder, "shop.yaml"), []byte(documents), 0o600); err != nil {
		t.Fatal(err)
	}
	c.leat(t, "apply", "-f", "/documents/shop.yaml")
	c.arrives(t, "first")
	c.repo.Commit(t, "main", map[string]string{"deploy/shop.yaml": configMap("second")})
	c.arrives(t, "second")
}

// checkKubectl reads and watches the cluster with the real kubectl and the kubeconfig that leat
// prints. Changes during the watch arrive at once, though they are smaller than any buffer.
func (c *cluster) checkKubectl(t *testing.T) {
	kubeconfig := c.kubeconfig(t, "berlin")
	watch := exec.CommandContext(t.Context(), c.kubectl, "--kubeconfig", kubeconfig, "get", "configmap", "shop", "--watch", "--output", `jsonpath={.data.value}{"\n"}`)
	out, err := watch.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = watch.Process.Kill(), watch.Wait() }()
	lines := bufio.NewScanner(out)
	if lines.Scan(); lines.Text() != "second" {
		t.Fatalf("got %q, %v, want the value of the last commit", lines.Text(), lines.Err())
	}
	c.repo.Commit(t, "main", map[string]string{"deploy/shop.yaml": configMap("third")})
	for lines.Text() != "third" {
		if !lines.Scan() {
			t.Fatalf("the watch ended: %v", lines.Err())
		}
	}
}

// checkWebhook reports a push as a Git host does. One without a proof is refused by gitcache.
func (c *cluster) checkWebhook(t *testing.T) {
	for key, want := range map[string]int{c.webhookSecret(t): http.StatusAccepted, "another": http.StatusUnauthorized} {
		if got := c.report(t, key); got != want {
			t.Errorf("got %d, want %d", got, want)
		}
	}
}

// checkUI opens the web UI, of which the front needs the page and the script that the page names.
func (c *cluster) checkUI(t *testing.T) {
	page := c.read(t, "/ui/")
	script := regexp.MustCompile(`<script [^>]*src="(/ui/[^"]+\.js)"`).FindStringSubmatch(page)
	if script == nil {
		t.Fatalf("got\n%s\nwant the page of the web UI that the Dockerfile builds", page)
	}
	if got := c.read(t, script[1]); len(got) < 1<<10 {
		t.Errorf("%s: got %d bytes, want the web UI's script", script[1], len(got))
	}
}

// read returns what the front has at a path.
func (c *cluster) read(t *testing.T, path string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, origin+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := c.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: got %s, %v", path, response.Status, err)
	}
	return string(content)
}

// webhookSecret returns the stack's secret of webhooks.
func (c *cluster) webhookSecret(t *testing.T) string {
	t.Helper()
	secret, err := os.ReadFile(filepath.Join(c.folder, "webhook-secret"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(secret))
}

// report reports a push to the front with a secret, and returns the status of the answer.
func (c *cluster) report(t *testing.T, secret string) int {
	t.Helper()
	return c.reportTo(t, origin, secret)
}

// reportTo is [cluster.report] to the server of a URL. Each report has a text of its own, as it has of a Git host, which
// names the commit: gitcache does nothing about one that it has received before.
func (c *cluster) reportTo(t *testing.T, server, secret string) int {
	t.Helper()
	body := fmt.Sprintf(`{"after":%q,"repository":{"clone_url":%q}}`, rand.Text(), c.upstream)
	sum := hmac.New(sha256.New, []byte(secret))
	sum.Write([]byte(body))
	return c.callTo(t, http.MethodPost, server+"/webhooks/github", http.Header{
		"X-Hub-Signature-256": {"sha256=" + hex.EncodeToString(sum.Sum(nil))}, "X-Github-Event": {"push"}, "Content-Type": {"application/json"},
	}, body)
}

// call sends a request to the front and returns the status of the answer, 0 if there was none.
func (c *cluster) call(t *testing.T, method, path string, header http.Header, body string) int {
	t.Helper()
	return c.callTo(t, method, origin+path, header, body)
}

// callTo is [cluster.call] for a whole URL.
func (c *cluster) callTo(t *testing.T, method, url string, header http.Header, body string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header = header
	response, err := c.client.Do(request)
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode
}

// checkCuts cuts one replica after another off from Redis or the database, while all others still reach it. A commit
// arrives, and people reach the cluster. The commit is reported to a gitcache that is not cut off, which has it fetched.
// It does not arrive as long as the agent's distributor follows the events of the other gitcache. Before the first cut
// it follows one of the two, so in one of the two cuts it has to leave a stream.
func (c *cluster) checkCuts(t *testing.T) {
	header, secret := http.Header{"Authorization": {"Bearer " + c.leat(t, "token")}}, c.webhookSecret(t)
	for _, cut := range []struct{ service, store string }{
		{"gitcache-1", "redis"}, {"gitcache-2", "redis"}, {"distributor-1", "database"}, {"distributor-2", "database"}, {"tunnel-1", "redis"}, {"tunnel-2", "redis"},
	} {
		network := "leat_" + cut.store
		c.engine.ask(t, "network", "disconnect", network, container(cut.service))
		value := "without-" + cut.service
		c.repo.Commit(t, "main", map[string]string{"deploy/shop.yaml": configMap(value)})
		connected := "gitcache-1"
		if cut.service == connected {
			connected = "gitcache-2"
		}
		if got := c.reportTo(t, "http://"+net.JoinHostPort(c.engine.address(t, connected, "hub"), "8702"), secret); got != http.StatusAccepted {
			t.Errorf("%s is cut off: %s answers a webhook with %d, want %d", cut.service, connected, got, http.StatusAccepted)
		}
		c.arrives(t, value)
		c.answers(t, header)
		c.engine.ask(t, "network", "connect", network, container(cut.service))
	}
}

// answers blocks until the cluster answers through the front.
func (c *cluster) answers(t *testing.T, header http.Header) {
	t.Helper()
	await.Success(t, "the cluster through the front", func(context.Context) error {
		if got := c.call(t, http.MethodGet, "/clusters/berlin/api/v1/namespaces/default/configmaps/shop", header, ""); got != http.StatusOK {
			return fmt.Errorf("got the status %d", got)
		}
		return nil
	})
}

// checkKills ends the process of each container in turn, as the kernel does for want of memory,
// during requests. The engine starts it again, and then a further commit arrives.
func (c *cluster) checkKills(t *testing.T) {
	header, secret := http.Header{"Authorization": {"Bearer " + c.leat(t, "token")}}, c.webhookSecret(t)
	const keys = "/.well-known/jwks.json"
	for i, service := range c.engine.services {
		var failed atomic.Int64
		killed, load := make(chan struct{}), make(chan struct{})
		go func() { // reads of either replica of the distributor
			defer close(load)
			for isOver := false; !isOver; {
				select {
				case <-killed:
					isOver = true
				default:
				}
				if got := c.call(t, http.MethodGet, keys, nil, ""); got != http.StatusOK {
					failed.Add(1)
				}
			}
		}()
		started := c.engine.ask(t, "inspect", "--format", "{{ .State.StartedAt }}", container(service))
		pid := c.engine.ask(t, "inspect", "--format", "{{ .State.Pid }}", container(service))
		if _, err := c.engine.run(t, nil, "kill", "-9", pid); err != nil {
			t.Fatal(err)
		}
		await.Success(t, service+" to be healthy again", func(context.Context) error {
			state := c.engine.ask(t, "inspect", "--format", "{{ .State.StartedAt }} {{ .State.Status }} {{ if .State.Health }}{{ .State.Health.Status }}{{ end }}", container(service))
			if begun, health, _ := strings.Cut(state, " "); begun == started || health != healthOf(service) {
				return fmt.Errorf("got %s", state)
			}
			return nil
		})
		close(killed)
		<-load
		// Only without the front is there no answer.
		if count := failed.Load(); count > 0 && service != "front" {
			t.Errorf("%s was killed: %d reads failed, want all answered by another replica", service, count)
		}
		value := fmt.Sprintf("killed-%d", i)
		c.repo.Commit(t, "main", map[string]string{"deploy/shop.yaml": configMap(value)})
		c.report(t, secret) // a report that is lost costs a poll
		c.arrives(t, value)
		c.answers(t, header)
	}
}

// relay passes connections to an address of this machine on to the server of a URL, and returns the
// URL with that address.
func relay(t *testing.T, host, target string) string {
	t.Helper()
	_, rest, _ := strings.Cut(target, "://")
	server, path, _ := strings.Cut(rest, "/")
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			to, err := new(net.Dialer).DialContext(context.Background(), "tcp", server)
			if err != nil {
				_ = from.Close()
				continue
			}
			pass := func(a, b net.Conn) {
				_, _ = io.Copy(a, b)
				_, _ = a.Close(), b.Close()
			}
			go pass(from, to)
			go pass(to, from)
		}
	}()
	return "http://" + listener.Addr().String() + "/" + path
}
