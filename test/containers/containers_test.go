// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package containers runs the images and docker-compose.yml as they are shipped, on a real engine,
// and delivers a commit through them. `make containers` starts the engine and runs these tests in
// its network. Those of images compile beside those of the stack, which mostly wait.
package containers_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/leatdev/leat/internal/localkube"
	"github.com/leatdev/leat/internal/localkube/kubetest"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/gittest"
)

// top is the root of the checkout.
const top = "../.."

// outside is an address in the engine's network that belongs to none of its bridges. Containers reach
// it, and it stays when the stack is taken down. tools/containers/engine.sh adds it.
const outside = "10.211.0.1"

// origin is where the front of the stack answers everything.
const origin = "https://127.0.0.1:8443"

// ours are the images of the hub's services and of the agent.
var ours = []string{"gitcache", "distributor", "tunnel", "agent"}

// There is one stack, and builds share one cache, so a test holds the lock of what it changes.
var stack, builds sync.Mutex

// engine runs the clients of the engine that `make containers` started.
type engine struct {
	docker, compose string
	// services are those of the compose file that are brought up.
	services []string
	// env are the variables that every command gets besides the test's own.
	env []string
}

// requireEngine returns the engine. Without one it skips the test.
func requireEngine(t *testing.T) *engine {
	t.Helper()
	compose := os.Getenv("LEAT_CONTAINERS_COMPOSE")
	if compose == "" {
		t.Skip("LEAT_CONTAINERS_COMPOSE is not set: images and docker-compose.yml are left to `make containers`")
	}
	return &engine{docker: os.Getenv("LEAT_CONTAINERS_DOCKER"), compose: compose, services: strings.Fields(os.Getenv("LEAT_CONTAINERS_SERVICES"))}
}

// requireStack returns the engine with these variables for its commands. Until the test ends it has the
// stack to itself, which is taken down before and after it, with the services of all profiles.
func requireStack(t *testing.T, env ...string) *engine {
	t.Helper()
	e := requireEngine(t)
	e.env = append([]string{"COMPOSE_ANSI=never", "COMPOSE_PROGRESS=quiet"}, env...)
	stack.Lock()
	t.Cleanup(stack.Unlock)
	down := func() { e.down(t, "--volumes", "--remove-orphans") }
	down() // what a run before this one left would be taken for this one's
	t.Cleanup(down)
	t.Cleanup(func() {
		if t.Failed() {
			logs, err := e.run(t, nil, e.compose, "--profile", "*", "logs", "--no-color", "--tail", "40")
			t.Logf("the last of what the containers logged: %v\n%s", err, logs)
		}
	})
	return e
}

// run returns what a program prints to its standard output, without blanks at the ends.
func (e *engine) run(t *testing.T, stdin io.Reader, name string, args ...string) (string, error) {
	t.Helper()
	command := exec.CommandContext(context.WithoutCancel(t.Context()), name, args...)
	command.Dir, command.Stdin, command.Env = top, stdin, append(os.Environ(), e.env...)
	var complaints bytes.Buffer
	command.Stderr = &complaints
	out, err := command.Output()
	if err != nil {
		err = fmt.Errorf("%s %s: %w\n%s", filepath.Base(name), strings.Join(args, " "), err, bytes.TrimSpace(complaints.Bytes()))
	}
	return strings.TrimSpace(string(out)), err
}

// ask is [engine.run] of docker for a command that has to succeed.
func (e *engine) ask(t *testing.T, args ...string) string {
	t.Helper()
	out, err := e.run(t, nil, e.docker, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// logs returns the last lines that a container printed.
func (e *engine) logs(t *testing.T, container string) string {
	t.Helper()
	out, err := e.run(t, nil, "sh", "-c", `exec "$0" logs --tail 40 "$1" 2>&1`, e.docker, container)
	if err != nil {
		return err.Error()
	}
	return out
}

// do is [engine.run] of docker compose for a command that has to succeed.
func (e *engine) do(t *testing.T, args ...string) string {
	t.Helper()
	out, err := e.run(t, nil, e.compose, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// up starts the services and returns when all of them are healthy.
func (e *engine) up(t *testing.T) {
	t.Helper()
	e.do(t, append([]string{"up", "--detach", "--no-build", "--wait"}, e.services...)...)
}

// down takes the services of all profiles down. The engine may have miscounted a network's containers, and then
// refuses to remove it until the engine starts again (https://github.com/moby/moby/issues/42119). Such a network
// serves the next stack as well.
func (e *engine) down(t *testing.T, flags ...string) {
	t.Helper()
	_, err := e.run(t, nil, e.compose, append([]string{"--profile", "*", "down"}, flags...)...)
	if err == nil {
		return
	}
	network := isMiscounted.FindStringSubmatch(err.Error())
	if network == nil {
		t.Fatal(err)
	}
	t.Logf("the engine keeps a network: %v", err)
	if containers := e.ask(t, "network", "inspect", "--format", "{{ len .Containers }}", network[1]); containers != "0" {
		t.Fatalf("%s containers are left in it", containers)
	}
}

var isMiscounted = regexp.MustCompile("network (leat_[a-z]+) id [0-9a-f]+ has active endpoints")

// build is docker build. The engine asks its client every few seconds whether it is there, and gives it
// up on a machine that is busy enough. Such a build begins again.
func (e *engine) build(t *testing.T, args ...string) {
	t.Helper()
	await.Success(t, "docker build", func(context.Context) error {
		_, err := e.run(t, nil, e.docker, append([]string{"build", "--quiet"}, args...)...)
		if err != nil && !isGivenUp.MatchString(err.Error()) {
			t.Fatal(err)
		}
		return err
	})
}

var isGivenUp = regexp.MustCompile("transport is closing|connection is closing|no active session")

// container returns the name of a service's container.
func container(service string) string { return "leat-" + service + "-1" }

// address returns the address of a service's container on a network of the compose file.
func (e *engine) address(t *testing.T, service, network string) string {
	t.Helper()
	return e.ask(t, "inspect", "--format", fmt.Sprintf(`{{ (index .NetworkSettings.Networks "leat_%s").IPAddress }}`, network), container(service))
}

// files returns the paths in an image, with the owners and modes of those that others could use.
func (e *engine) files(t *testing.T, image string) []string {
	t.Helper()
	id := e.ask(t, "create", image)
	defer e.ask(t, "rm", id)
	archive := filepath.Join(t.TempDir(), "image.tar")
	e.ask(t, "export", "--output", archive, id)
	listing, err := e.run(t, nil, "tar", "--numeric-owner", "-tvf", archive)
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for line := range strings.Lines(listing) {
		f := strings.Fields(line)
		if path := f[5]; !isMadeByEngine(path) {
			files = append(files, f[0]+" "+f[1]+" "+path)
		}
	}
	slices.Sort(files)
	return files
}

// isMadeByEngine reports whether the engine makes a path in every container.
func isMadeByEngine(path string) bool {
	return slices.ContainsFunc([]string{"dev/", "proc/", "sys/", "etc/hosts", "etc/hostname", "etc/resolv.conf", "etc/mtab", ".dockerenv"},
		func(made string) bool { return strings.HasPrefix(path, made) })
}

// imageConfig holds those parts of an image that the tests compare.
type imageConfig struct {
	Config struct {
		User        string
		Env         []string
		Entrypoint  []string
		Volumes     map[string]any
		Labels      map[string]string
		Healthcheck *struct{ Test []string }
	}
	RootFS struct{ Layers []string }
}

func (e *engine) image(t *testing.T, name string) imageConfig {
	t.Helper()
	var images []imageConfig
	if err := json.Unmarshal([]byte(e.ask(t, "image", "inspect", name)), &images); err != nil {
		t.Fatal(err)
	}
	return images[0]
}

// TestSecImagesContainOnlyTheProgram lists what is in each image.
func TestSecImagesContainOnlyTheProgram(t *testing.T) {
	t.Parallel()
	e := requireEngine(t)
	for _, name := range append([]string{"leat"}, ours...) {
		program, home, check := "leat-service", "drwx------ 65532/65532 var/lib/leat/", []string{"CMD", "/usr/local/bin/leat-service", "health"}
		if name == "leat" {
			program, home, check = "leat", "drwx------ 65532/65532 home/leat/", nil
		}
		image := e.image(t, "leat/"+name)
		c := image.Config
		if c.User != "65532:65532" || len(c.Volumes) > 0 || !slices.Equal(c.Entrypoint, []string{"/usr/local/bin/" + program}) {
			t.Errorf("%s: got user %q, volumes %v, entry point %v", name, c.User, c.Volumes, c.Entrypoint)
		}
		if has := c.Healthcheck != nil; has != (check != nil) || has && !slices.Equal(c.Healthcheck.Test, check) {
			t.Errorf("%s: got health check %+v, want %v", name, c.Healthcheck, check)
		}
		for _, label := range []string{"title", "description", "source", "licenses", "vendor", "version"} {
			if c.Labels["org.opencontainers.image."+label] == "" {
				t.Errorf("%s: the label %s is empty", name, label)
			}
		}
		var others []string
		for _, file := range e.files(t, "leat/"+name) {
			isFolder := strings.HasPrefix(file, "drwxr-xr-x 0/0 ")
			if !isFolder && file != home && file != "-rwxr-xr-x 0/0 usr/local/bin/"+program && !strings.HasSuffix(file, " etc/ssl/certs/ca-certificates.crt") {
				others = append(others, file)
			}
		}
		if len(others) > 0 {
			t.Errorf("%s also contains\n%s", name, strings.Join(others, "\n"))
		}
	}
}

// TestImagesAreReproducible builds an image again, without the layers of the first build. The
// engine compiles all packages of Leat. For the first one it linked what the machine had compiled.
func TestImagesAreReproducible(t *testing.T) {
	t.Parallel()
	e := requireEngine(t)
	builds.Lock()
	defer builds.Unlock()
	if _, err := e.run(t, nil, "tools/containers/compiled.sh", "--others", "tunnel"); err != nil {
		t.Fatal(err)
	}
	// A flag that `go build` ignores makes every step new. With --no-cache the engine would compile
	// the packages of others, too.
	e.build(t, "--build-arg", "SERVICE=tunnel", "--build-arg", "GOFLAGS=-run="+rand.Text(), "--tag", "leat/tunnel:again", ".")
	defer e.ask(t, "image", "rm", "leat/tunnel:again")
	first, second := e.image(t, "leat/tunnel").RootFS.Layers, e.image(t, "leat/tunnel:again").RootFS.Layers
	if !slices.Equal(first, second) {
		t.Errorf("got layers %v and %v, want the same ones", first, second)
	}
}

// TestCompose brings the stack up, delivers through it, takes it down, and brings it up again.
func TestCompose(t *testing.T) {
	t.Parallel()
	e, folder := requireStack(t), t.TempDir()
	e.up(t)
	for _, service := range e.services {
		e.checkHealth(t, service)
	}
	// People's files, by the command that init prints.
	e.do(t, "cp", "init:/secrets/people/.", folder)
	t.Run("services listen on the hub's network alone", e.checkListeners)
	t.Run("heaps stay below the limit of the container", e.checkMemory)
	t.Run("backup and its check", e.checkBackup)
	cluster := startCluster(t, e, folder)
	t.Run("a commit arrives", cluster.checkDelivery)
	t.Run("kubectl through the front", cluster.checkKubectl)
	t.Run("a webhook is taken", cluster.checkWebhook)
	t.Run("replicas are cut off from their store", cluster.checkCuts)
	t.Run("processes are killed", cluster.checkKills)
	t.Run("services end with 0 and come back", func(t *testing.T) { e.checkRestart(t, cluster) })
	t.Run("down leaves no volume without a name", e.checkVolumes)
}

func (e *engine) checkHealth(t *testing.T, service string) {
	t.Helper()
	state := e.ask(t, "inspect", "--format", "{{ .State.Status }} {{ if .State.Health }}{{ .State.Health.Status }}{{ end }} {{ .RestartCount }}", container(service))
	want := "running healthy 0"
	if service == "collector" { // it has no health check
		want = "running  0"
	}
	if state != want {
		t.Errorf("%s after up --wait: got %q, want %q", service, state, want)
	}
}

// checkListeners connects to each service from the other side of each network.
func (e *engine) checkListeners(t *testing.T) {
	for service, port := range map[string]string{
		"gitcache-1": "8702", "gitcache-2": "8702", "tunnel-1": "8701", "tunnel-2": "8705", "distributor-1": "8700", "distributor-2": "8700",
	} {
		for network, want := range map[string]map[string]bool{
			"hub": {port: true}, "telemetry": {port: false, "8790": true}, "redis": {port: false, "8790": true},
		} {
			if strings.HasPrefix(service, "distributor-") && network == "redis" {
				continue
			}
			for port, isOpen := range want {
				connection, err := new(net.Dialer).DialContext(t.Context(), "tcp", net.JoinHostPort(e.address(t, service, network), port))
				if err == nil {
					_ = connection.Close()
				}
				if isOpen != (err == nil) {
					t.Errorf("%s on the network %s, port %s: got %v", service, network, port, err)
				}
			}
		}
	}
	// Of the machine, the stack has the front's port alone.
	for _, port := range []string{"8443", "8700", "8701", "8702", "8705", "8790"} {
		connection, err := new(net.Dialer).DialContext(t.Context(), "tcp", net.JoinHostPort("127.0.0.1", port))
		if err == nil {
			_ = connection.Close()
		}
		if isOpen := port == "8443"; isOpen != (err == nil) {
			t.Errorf("port %s of the machine: got %v", port, err)
		}
	}
}

// checkMemory requires that each hub service tells its collector of the container's limit.
func (e *engine) checkMemory(t *testing.T) {
	client := &http.Client{Transport: &http.Transport{}}
	for _, service := range []string{"gitcache-1", "distributor-1", "tunnel-1"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+net.JoinHostPort(e.address(t, service, "hub"), "8790")+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		page, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if limit := "go_gc_gomemlimit_bytes 9.66367638e+08"; !bytes.Contains(page, []byte(limit)) {
			t.Errorf("%s: got no %q, want nine tenths of 1 GiB", service, limit)
		}
	}
}

// checkBackup runs the documented commands.
func (e *engine) checkBackup(t *testing.T) {
	backup, err := e.run(t, nil, e.compose, "exec", "-T", "distributor-1", "leat-service", "backup")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.run(t, strings.NewReader(backup), e.compose, "run", "--rm", "-T", "distributor-1", "restore", "--restore-check"); err != nil {
		t.Error(err)
	}
}

// checkRestart stops the stack, looks at how its processes ended, and brings it up again with what
// it kept.
func (e *engine) checkRestart(t *testing.T, c *cluster) {
	e.do(t, "stop", "--timeout", "300") // a process that a busy machine holds up is not killed
	for _, service := range e.services {
		code := e.ask(t, "inspect", "--format", "{{ .State.ExitCode }}", container(service))
		if code != "0" {
			t.Errorf("%s ended with %s, want 0", service, code)
		}
	}
	e.down(t)
	e.up(t)
	if out := c.leat(t, "get", "clusters"); !strings.Contains(out, "berlin") {
		t.Errorf("after down and up: got %s, want the cluster kept", out)
	}
	c.repo.Commit(t, "main", map[string]string{"deploy/shop.yaml": configMap("last")})
	c.report(t, c.webhookSecret(t))
	c.arrives(t, "last")
}

// checkVolumes takes the stack down, first without its volumes.
func (e *engine) checkVolumes(t *testing.T) {
	e.ask(t, "stop", "leat-test-agent") // a tunnel would wait for it to connect elsewhere
	e.down(t)
	var named []string
	for volume := range strings.Lines(e.ask(t, "volume", "ls", "--quiet")) {
		named = append(named, strings.TrimSpace(volume))
	}
	slices.Sort(named)
	want := []string{"leat_distributor-1", "leat_distributor-2", "leat_gitcache-1", "leat_gitcache-2", "leat_postgres"}
	for _, reader := range []string{"agent", "authority", "distributor", "front", "gitcache", "people", "postgres", "redis", "tunnel"} {
		want = append(want, "leat_secrets-"+reader)
	}
	if !slices.Equal(named, want) {
		t.Errorf("down left the volumes %v, want %v", named, want)
	}
	e.down(t, "--volumes")
	if left := e.ask(t, "volume", "ls", "--quiet"); left != "" {
		t.Errorf("down --volumes left %s", left)
	}
}

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
	// What a person may do in a cluster is decided by that cluster, too.
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
		"--env", "LEAT_AGENT_KUBECONFIG=/etc/leat/kubeconfig", "--env", "LEAT_AGENT_DATA_DIR=/var/lib/leat", "--env", "LEAT_LISTEN_ADDR=127.0.0.1:8703", "leat/agent")
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
// prints. What changes while it watches arrives at once, though it is less than any buffer holds.
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

// webhookSecret returns the stack's secret of webhooks.
func (c *cluster) webhookSecret(t *testing.T) string {
	t.Helper()
	secret, err := os.ReadFile(filepath.Join(c.folder, "webhook-secret"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(secret))
}

// report reports a push with a secret, and returns the status of the answer.
func (c *cluster) report(t *testing.T, secret string) int {
	t.Helper()
	body := fmt.Sprintf(`{"repository":{"clone_url":%q}}`, c.upstream)
	sum := hmac.New(sha256.New, []byte(secret))
	sum.Write([]byte(body))
	return c.call(t, http.MethodPost, "/webhooks/github", http.Header{
		"X-Hub-Signature-256": {"sha256=" + hex.EncodeToString(sum.Sum(nil))}, "X-Github-Event": {"push"}, "Content-Type": {"application/json"},
	}, body)
}

// call sends a request to the front and returns the status of the answer, 0 if there was none.
func (c *cluster) call(t *testing.T, method, path string, header http.Header, body string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, origin+path, strings.NewReader(body))
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
// arrives, and people reach the cluster.
func (c *cluster) checkCuts(t *testing.T) {
	header := http.Header{"Authorization": {"Bearer " + c.leat(t, "token")}}
	for _, cut := range []struct{ service, store string }{
		{"gitcache-1", "redis"}, {"gitcache-2", "redis"}, {"distributor-1", "database"}, {"distributor-2", "database"}, {"tunnel-1", "redis"}, {"tunnel-2", "redis"},
	} {
		network := "leat_" + cut.store
		c.engine.ask(t, "network", "disconnect", network, container(cut.service))
		value := "without-" + cut.service
		c.repo.Commit(t, "main", map[string]string{"deploy/shop.yaml": configMap(value)})
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
// while requests go on. The engine starts it again, and then a further commit arrives.
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
			state := c.engine.ask(t, "inspect", "--format", "{{ .State.StartedAt }} {{ .State.Health.Status }}", container(service))
			if begun, health, _ := strings.Cut(state, " "); begun == started || health != "healthy" {
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
		c.report(t, secret) // what is lost here costs a poll
		c.arrives(t, value)
		c.answers(t, header)
	}
}

// TestComposeRefusals brings the stack up where it cannot start, and reads what people are told.
func TestComposeRefusals(t *testing.T) {
	t.Parallel()
	e := requireStack(t)
	refused := func(t *testing.T, want string, args ...string) {
		t.Helper()
		_, err := e.run(t, nil, e.compose, append(args, "up", "--detach", "--no-build", "--wait", "front")...)
		logs, logsErr := e.run(t, nil, e.compose, "logs", "--no-log-prefix", "init")
		if err == nil || logsErr != nil || !strings.Contains(err.Error()+logs, want) {
			t.Errorf("got %v, and the log of init\n%s%v\nwant %q", err, logs, logsErr, want)
		}
	}
	t.Run("a port that is taken", func(t *testing.T) {
		listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:8443")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		refused(t, "address already in use")
	})
	t.Run("a secret that was lost", func(t *testing.T) {
		e.ask(t, "run", "--rm", "--volume", "leat_secrets-distributor:/secrets", "golang:1.26-bookworm", "rm", "/secrets/sealing-keys")
		refused(t, "/secrets/distributor/sealing-keys: lost")
		refused(t, "Restore it from a backup.")
	})
	e.down(t, "--volumes")
	t.Run("a volume that is full", func(t *testing.T) {
		override := filepath.Join(t.TempDir(), "full.yml")
		text := "volumes: { secrets-tunnel: { driver: local, driver_opts: { type: tmpfs, device: tmpfs, o: size=4k } } }\n"
		if err := os.WriteFile(override, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		refused(t, "volume full", "--file", "docker-compose.yml", "--file", override)
		refused(t, "it goes on where it stopped", "--file", "docker-compose.yml", "--file", override)
	})
}

// TestComposeTakesOverSecrets runs the documented commands for a stack whose secrets are in .env.
func TestComposeTakesOverSecrets(t *testing.T) {
	t.Parallel()
	e := requireStack(t)
	page, err := os.ReadFile(filepath.Join(top, "docs", "operations", "containers.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "### A stack whose secrets are in `.env`")
	_, section, _ = strings.Cut(section, "```\n")
	commands, _, found := strings.Cut(section, "```")
	if !found {
		t.Fatal("docs/operations/containers.md has no commands for such a stack")
	}
	folder := t.TempDir() // as the checkout of that stack
	if err := os.CopyFS(filepath.Join(folder, "deploy"), os.DirFS(filepath.Join(top, "deploy"))); err != nil {
		t.Fatal(err)
	}
	compose, err := os.ReadFile(filepath.Join(top, "docker-compose.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var env strings.Builder
	given := map[string]string{}
	for _, name := range []string{
		"DISTRIBUTOR_SECRET", "GITCACHE_SECRET", "TUNNEL_SECRET", "DISTRIBUTOR_ADMIN_TOKEN", "DISTRIBUTOR_SEALING_KEYS", "POSTGRES_PASSWORD",
		"REDIS_GITCACHE_PASSWORD", "REDIS_TUNNEL_PASSWORD", "GITCACHE_WEBHOOK_SECRET",
	} {
		given[name] = rand.Text() + rand.Text()
		if name == "DISTRIBUTOR_ADMIN_TOKEN" {
			given[name] = "leat_" + given[name]
		}
		fmt.Fprintf(&env, "LEAT_%s=%s\n", name, given[name])
	}
	// The authority of that stack.
	e.do(t, "up", "--detach", "--no-build", "--wait", "redis")
	e.do(t, "cp", "init:/secrets/authority/ca.pem", folder)
	e.down(t, "--volumes")
	authority, err := os.ReadFile(filepath.Join(folder, "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(authority, []byte("-----BEGIN CERTIFICATE"))
	key, certificate := slices.Concat(authority[:at], authority[at+bytes.Index(authority[at:], []byte("-----END CERTIFICATE-----\n"))+26:]), authority[at:]
	if end := bytes.Index(certificate, []byte("-----END CERTIFICATE-----\n")); end >= 0 {
		certificate = certificate[:end+26]
	}
	tlsFolder := filepath.Join(folder, "deploy", "compose", "tls")
	if err := os.Mkdir(tlsFolder, 0o700); err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string][]byte{
		filepath.Join(folder, ".env"): []byte(env.String()), filepath.Join(folder, "docker-compose.yml"): compose,
		filepath.Join(tlsFolder, "ca.key"): key, filepath.Join(tlsFolder, "ca.crt"): certificate,
	} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// Images are built already, and `docker compose` is a program of its own here.
	script := "set -e\ncd " + folder + "\n" + strings.NewReplacer("docker compose", e.compose, " --build", "").Replace(commands)
	if out, err := e.run(t, strings.NewReader(script), "/bin/sh"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	e.do(t, "cp", "init:/secrets/.", folder)
	for path, want := range map[string]string{
		"people/token": given["DISTRIBUTOR_ADMIN_TOKEN"], "distributor/sealing-keys": given["DISTRIBUTOR_SEALING_KEYS"],
		"tunnel/service-secret": given["TUNNEL_SECRET"], "postgres/password": given["POSTGRES_PASSWORD"],
		"redis/gitcache-password": given["REDIS_GITCACHE_PASSWORD"], "people/ca.crt": strings.TrimSpace(string(certificate)),
	} {
		got, err := os.ReadFile(filepath.Join(folder, path))
		if err != nil || strings.TrimSpace(string(got)) != want {
			t.Errorf("%s: got %q, %v, want what that stack had", path, got, err)
		}
	}
	e.up(t)
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
