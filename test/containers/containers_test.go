// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package containers runs the images and docker-compose.yml as they are shipped, on a real engine,
// and delivers a commit through them. `make containers` starts the engine and runs these tests in
// its network. The tests of images compile beside the tests of the stack, which mostly wait.
package containers_test

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/leatdev/leat/test/supply"
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

// TestSecImagesContainOnlyTheProgram lists the content of each image.
func TestSecImagesContainOnlyTheProgram(t *testing.T) {
	t.Parallel()
	e := requireEngine(t)
	for _, name := range append([]string{"leat"}, ours...) {
		program, home, check := "leat-service", "drwx------ 65532/65532 var/lib/leat/", []string{"CMD", "/usr/local/bin/leat-service", "health"}
		if name == "leat" {
			program, home, check = "leat", "drwx------ 65532/65532 home/leat/", nil
		}
		image := e.image(t, e.own.Image(name))
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
		beside := []string{"etc/ssl/certs/ca-certificates.crt", "licenses/LICENSE", "licenses/" + supply.NoticesFile}
		var others []string
		for _, file := range e.files(t, e.own.Image(name)) {
			isFolder := strings.HasPrefix(file, "drwxr-xr-x 0/0 ")
			if !isFolder && file != home && file != "-rwxr-xr-x 0/0 usr/local/bin/"+program && !slices.ContainsFunc(beside, func(name string) bool { return strings.HasSuffix(file, " "+name) }) {
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
	built, again := e.image(t, e.own.Image("tunnel")), e.own.Name("tunnel")+":again"
	revision := built.Config.Labels["org.opencontainers.image.revision"] // which the program reports
	// A flag that `go build` ignores makes every step new. With --no-cache the engine would compile
	// the packages of others, too.
	e.build(t, "--build-arg", "SERVICE=tunnel", "--build-arg", "GOFLAGS=-run="+rand.Text(), "--build-arg", "REVISION="+revision, "--tag", again, ".")
	defer e.ask(t, "image", "rm", again)
	first, second := built.RootFS.Layers, e.image(t, again).RootFS.Layers
	if !slices.Equal(first, second) {
		t.Errorf("got layers %v and %v, want the same ones", first, second)
	}
}

// TestCompose brings the stack up with the profile observe, delivers through it, takes it down, and brings it up again.
func TestCompose(t *testing.T) {
	t.Parallel()
	e, folder := requireStack(t, "COMPOSE_PROFILES=observe"), t.TempDir()
	e.services = append(e.services, observers...)
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
	t.Run("the web UI", cluster.checkUI)
	t.Run("kubectl through the front", cluster.checkKubectl)
	t.Run("a webhook is taken", cluster.checkWebhook)
	t.Run("a push and a request are one trace each", cluster.checkTrace)
	t.Run("metrics and dashboards", cluster.checkMetrics)
	t.Run("nothing waits for telemetry", cluster.checkSilence)
	t.Run("replicas are cut off from their store", cluster.checkCuts)
	t.Run("processes are killed", cluster.checkKills)
	if t.Run("services end with 0 and come back", func(t *testing.T) { e.checkRestart(t, cluster) }) { // else the logs are needed
		t.Run("down leaves no volume without a name", e.checkVolumes)
	}
}

func (e *engine) checkHealth(t *testing.T, service string) {
	t.Helper()
	state := e.ask(t, "inspect", "--format", "{{ .RestartCount }} {{ .State.Status }} {{ if .State.Health }}{{ .State.Health.Status }}{{ end }}", container(service))
	if want := "0 " + healthOf(service); state != want {
		t.Errorf("%s after up --wait: got %q, want %q", service, state, want)
	}
}

// healthOf returns the state of a service that is well, and its health.
func healthOf(service string) string {
	if service == "collector" { // it has no health check
		return "running"
	}
	return "running healthy"
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
	// Of the machine, the stack has the ports of the front, of metrics and of traces.
	for _, port := range []string{"8443", "9090", "16686", "4318", "8700", "8701", "8702", "8705", "8790", "8888"} {
		connection, err := new(net.Dialer).DialContext(t.Context(), "tcp", net.JoinHostPort("127.0.0.1", port))
		if err == nil {
			_ = connection.Close()
		}
		if isOpen := port == "8443" || port == "9090" || port == "16686"; isOpen != (err == nil) {
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

// checkRestart stops the stack, checks how its processes ended, and brings it up again with what it
// kept.
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
