// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package containers_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/runtime/localkube/kubetest"
	"github.com/leatdev/leat/internal/testkit/await"
)

// demo is the stack with the profile demo, and the checkout of a person who pushes to it.
type demo struct {
	*person

	kubectl, kubeconfig string
	checkout            string
}

// TestComposeDemo brings the stack up with the profile demo, whose cluster simulates its nodes, pushes
// to its repository, and uses its pods through the front.
func TestComposeDemo(t *testing.T) {
	t.Parallel()
	// The simulated cluster runs no containers, so it needs no rights. Root of a machine that builds may
	// not have all of them, and then cannot give them away.
	override := filepath.Join(t.TempDir(), "rights.yml")
	if err := os.WriteFile(override, []byte("services: { demo-cluster: { privileged: false } }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	e := requireStack(t, "COMPOSE_PROFILES=demo", "COMPOSE_FILE=docker-compose.yml:"+override)
	e.services = nil // all of the profile
	e.up(t)
	if out := e.do(t, "run", "--rm", "-T", "leat", "get", "services"); !isHealthyAt(out, "") {
		t.Errorf("after up --wait: got\n%s\nwant the demo delivered", out)
	}
	folder := t.TempDir()
	e.do(t, "cp", "init:/secrets/people/.", folder)
	d := &demo{person: newPerson(t, e, folder), kubectl: kubetest.Binaries(t.Context(), t).Kubectl, checkout: filepath.Join(t.TempDir(), "demo")}
	d.kubeconfig = d.person.kubeconfig(t, "demo-1")
	t.Run("a push arrives", d.checkPush)
	t.Run("exec", d.checkExec)
	t.Run("logs", d.checkLogs)
	t.Run("port-forward", d.checkPortForward)
	t.Run("down and up", d.checkRestart)
}

// isHealthyAt reports whether a list of services has the demo, healthy at a commit. Any commit counts
// if it is empty.
func isHealthyAt(list, commit string) bool {
	for line := range strings.Lines(list) {
		if strings.Contains(line, "demo-1") && strings.Contains(line, "Healthy") && strings.Contains(line, commit) {
			return true
		}
	}
	return false
}

// git runs git in a folder.
func (d *demo) git(t *testing.T, folder string, args ...string) string {
	t.Helper()
	out, err := d.engine.run(t, nil, "git", append([]string{"-C", folder, "-c", "user.name=Ada", "-c", "user.email=ada@example.com"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// kube is a command of kubectl through the front. It ends with the test.
func (d *demo) kube(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	return exec.CommandContext(t.Context(), d.kubectl, append([]string{"--kubeconfig", d.kubeconfig, "--namespace", "demo"}, args...)...)
}

// ask returns what a command of kubectl prints.
func (d *demo) ask(t *testing.T, args ...string) string {
	t.Helper()
	out, err := d.kube(t, args...).Output()
	if err != nil {
		t.Fatalf("kubectl %s: %v", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out))
}

// pod returns a pod of the demo.
func (d *demo) pod(t *testing.T) string {
	t.Helper()
	pod, _, _ := strings.Cut(d.ask(t, "get", "pods", "--output", "name"), "\n")
	return pod
}

// lines starts a command and reads what it prints, line by line.
func lines(t *testing.T, command *exec.Cmd) *bufio.Scanner {
	t.Helper()
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = command.Process.Kill(), command.Wait() })
	return bufio.NewScanner(out)
}

func (d *demo) checkPush(t *testing.T) {
	d.git(t, filepath.Dir(d.checkout), "clone", "--quiet", "http://127.0.0.1:8444/demo.git", d.checkout)
	deployment := filepath.Join(d.checkout, "deploy", "deployment.yaml")
	text, err := os.ReadFile(deployment)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(deployment, []byte(strings.Replace(string(text), "replicas: 2", "replicas: 3", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	d.git(t, d.checkout, "commit", "--quiet", "--all", "--message", "Three replicas")
	d.git(t, d.checkout, "push", "--quiet")
	commit := d.git(t, d.checkout, "rev-parse", "--short=7", "HEAD")
	await.Success(t, "the push to be healthy", func(context.Context) error {
		if out := d.leat(t, "get", "services"); !isHealthyAt(out, commit) {
			return fmt.Errorf("got\n%s\nwant %s", out, commit)
		}
		return nil
	})
	if got := d.ask(t, "get", "deployment", "hello", "--output", "jsonpath={.status.readyReplicas}"); got != "3" {
		t.Errorf("got %s ready replicas, want 3", got)
	}
}

// protocols are the settings with which kubectl opens streams in one way or the other.
var protocols = map[string][]string{
	"websocket": {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS=true", "KUBECTL_PORT_FORWARD_WEBSOCKETS=true"},
	"SPDY":      {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS=false", "KUBECTL_PORT_FORWARD_WEBSOCKETS=false"},
}

// checkExec sends a text through a pod and back. The simulated pod does not learn that the text ends.
func (d *demo) checkExec(t *testing.T) {
	text := strings.Repeat(rand.Text(), 20_000)
	for protocol, settings := range protocols {
		command := d.kube(t, "exec", "--stdin", d.pod(t), "--", "head", "-c", strconv.Itoa(len(text)))
		command.Env, command.Stdin = append(os.Environ(), settings...), strings.NewReader(text)
		if out, err := command.Output(); err != nil || string(out) != text {
			t.Errorf("%s: got %d bytes, %v, want the %d that were sent", protocol, len(out), err, len(text))
		}
	}
}

// checkLogs follows a log. A line that is written meanwhile arrives, though it fills no buffer.
func (d *demo) checkLogs(t *testing.T) {
	pod := d.pod(t)
	log := lines(t, d.kube(t, "logs", "--follow", pod))
	if log.Scan(); log.Text() != "the first line of the log" {
		t.Fatalf("got %q, %v, want the first line", log.Text(), log.Err())
	}
	d.ask(t, "exec", pod, "--", "sh", "-c", `echo "2026-01-02T03:04:06Z stdout F the next line of the log" >>/opt/kubernetes/pod.log`)
	if log.Scan(); log.Text() != "the next line of the log" {
		t.Errorf("got %q, %v, want the next line", log.Text(), log.Err())
	}
}

// forwarding matches the line that kubectl prints once it listens.
var forwarding = regexp.MustCompile(`^Forwarding from (127\.0\.0\.1:\d+)`)

// checkPortForward fetches a page of a pod.
func (d *demo) checkPortForward(t *testing.T) {
	for protocol, settings := range protocols {
		command := d.kube(t, "port-forward", d.pod(t), ":80", "--address=127.0.0.1")
		command.Env = append(os.Environ(), settings...)
		printed := lines(t, command)
		printed.Scan()
		found := forwarding.FindStringSubmatch(printed.Text())
		if found == nil {
			t.Fatalf("%s: got %q, %v, want an address", protocol, printed.Text(), printed.Err())
		}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+found[1]+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		response, err := client.Do(request)
		if err != nil {
			t.Fatalf("%s: %v", protocol, err)
		}
		page, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || string(page) != "a page of a pod\n" {
			t.Errorf("%s: got %q, %v, want the page", protocol, page, err)
		}
	}
}

// checkRestart takes the stack down and brings it up with what it kept. The agent has an identity, and
// needs no further token.
func (d *demo) checkRestart(t *testing.T) {
	d.engine.down(t)
	for volume := range strings.Lines(d.engine.ask(t, "volume", "ls", "--quiet")) {
		if !strings.HasPrefix(volume, "leat_") {
			t.Errorf("down left the volume %s", volume)
		}
	}
	d.engine.up(t)
	commit := d.git(t, d.checkout, "rev-parse", "--short=7", "HEAD")
	if out := d.leat(t, "get", "services"); !isHealthyAt(out, commit) {
		t.Errorf("after down and up: got\n%s\nwant %s", out, commit)
	}
}
