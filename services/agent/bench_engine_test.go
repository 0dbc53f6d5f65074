// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/runtime/localkube"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/loopback"
)

// engine is a program that applies manifests in a benchmark, in a process of its own.
type engine interface {
	name() string
	// apply brings files, which are all for one namespace, into the cluster, and returns how long
	// that took.
	apply(b *testing.B, namespace string, files map[string]string) time.Duration
	// again checks the objects that were applied last, so often, and returns the duration of each
	// check.
	again(b *testing.B, namespace string, looks int) []time.Duration
}

// peer is an engine of others, built from tools/peers.
type peer struct {
	title  string
	binary string
	cp     *localkube.ControlPlane

	dir     string // of the manifests
	process *exec.Cmd
	ask     io.Writer
	answers *bufio.Scanner
}

func newPeer(b *testing.B, cp *localkube.ControlPlane, name string) *peer {
	b.Helper()
	p := &peer{title: name, cp: cp, binary: filepath.Join(b.TempDir(), name)}
	build := exec.CommandContext(b.Context(), "go", "build", "-o", p.binary, ".")
	build.Dir, build.Env = filepath.Join("..", "..", "tools", "peers", name), append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("build %s: %v\n%s", name, err, out)
	}
	return p
}

func (p *peer) name() string { return p.title }

func (p *peer) apply(b *testing.B, namespace string, files map[string]string) time.Duration {
	b.Helper()
	p.dir = b.TempDir()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(p.dir, name), []byte(content), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	p.start(b, namespace)
	return p.look(b)
}

// start runs the peer for the folder, in place of an earlier one.
func (p *peer) start(b *testing.B, namespace string) {
	b.Helper()
	p.stop()
	p.process = exec.Command(p.binary, p.cp.KubeconfigPath(), p.dir, namespace)
	p.process.Stderr = os.Stderr
	in, err := p.process.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := p.process.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := p.process.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(p.stop)
	p.ask, p.answers = in, bufio.NewScanner(out)
	if !p.answers.Scan() { // it reports when it is ready
		b.Fatalf("%s: %v", p.title, p.answers.Err())
	}
}

func (p *peer) stop() {
	if p.process != nil {
		_ = p.process.Process.Kill()
		_ = p.process.Wait()
		p.process = nil
	}
}

func (p *peer) look(b *testing.B) time.Duration {
	b.Helper()
	if _, err := fmt.Fprintln(p.ask); err != nil {
		b.Fatal(err)
	}
	if !p.answers.Scan() {
		b.Fatalf("%s ended: %v", p.title, p.answers.Err())
	}
	var answer struct{ Took time.Duration }
	if err := json.Unmarshal(p.answers.Bytes(), &answer); err != nil {
		b.Fatal(err)
	}
	return answer.Took
}

func (p *peer) again(b *testing.B, _ string, looks int) (took []time.Duration) {
	b.Helper()
	for range looks {
		took = append(took, p.look(b))
	}
	return took
}

// leat is the agent.
type leat struct {
	hub      *hub
	binary   string
	settings []string // of its environment
	process  *exec.Cmd
	metrics  string
}

// startLeat builds the agent as images have it, and starts it, with more settings if need be.
func startLeat(b *testing.B, cp *localkube.ControlPlane, settings ...string) *leat {
	b.Helper()
	binary := filepath.Join(b.TempDir(), "agent")
	build := exec.CommandContext(b.Context(), "go", "build", "-trimpath", "-ldflags=-s -w", "-o", binary, "./cmd/agent")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("build agent: %v\n%s", err, out)
	}
	address := loopback.Addr(b)
	l := &leat{hub: newHub(b), binary: binary, metrics: "http://" + address + "/metrics"}
	l.settings = append([]string{
		"LEAT_LISTEN_ADDR=" + address, "LEAT_AGENT_HUB_URL=" + l.hub.url(), "LEAT_AGENT_JOIN_TOKEN=" + joinToken,
		"LEAT_AGENT_DATA_DIR=" + b.TempDir(), "LEAT_AGENT_KUBECONFIG=" + cp.KubeconfigPath(), "LEAT_LOG_LEVEL=warn",
		"LEAT_AGENT_REFRESH_INTERVAL=1s",
	}, settings...)
	l.start(b)
	b.Cleanup(func() {
		_ = l.process.Process.Kill()
		_ = l.process.Wait()
	})
	return l
}

func (l *leat) start(b *testing.B) {
	b.Helper()
	l.process = exec.Command(l.binary)
	l.process.Stderr, l.process.Env = os.Stderr, append(os.Environ(), l.settings...)
	if err := l.process.Start(); err != nil {
		b.Fatal(err)
	}
}

func (l *leat) name() string { return "leat" }

func (l *leat) apply(b *testing.B, namespace string, files map[string]string) time.Duration {
	b.Helper()
	d := l.hub.deploy(b, namespace, files)
	took := l.hub.applied(b, namespace, d).GetApplyDuration().AsDuration()
	return took
}

// again waits for refreshes, which come once a second, and reads how long they took from the
// agent's histogram.
func (l *leat) again(b *testing.B, _ string, looks int) (took []time.Duration) {
	b.Helper()
	count, sum := l.runs(b)
	await.Poll(b, "the agent's refreshes", 10*time.Millisecond, func() (bool, string) {
		if n, s := l.runs(b); n > count {
			took = append(took, time.Duration((s-sum)/float64(n-count)*float64(time.Second)))
			count, sum = n, s
		}
		return len(took) >= looks, ""
	})
	return took
}

// runs returns how many runs the agent has made, and how many seconds all of them took.
func (l *leat) runs(b *testing.B) (count int, sum float64) {
	b.Helper()
	request, err := http.NewRequestWithContext(b.Context(), http.MethodGet, l.metrics, http.NoBody)
	if err != nil {
		b.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		b.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		at := strings.LastIndexByte(lines.Text(), ' ')
		switch line := lines.Text(); {
		case !strings.Contains(line, `leat_reconcile_stage="run"`) || !strings.Contains(line, `outcome="ok"`):
		case strings.HasPrefix(line, "leat_reconcile_duration_seconds_count"):
			_, _ = fmt.Sscan(line[at:], &count)
		case strings.HasPrefix(line, "leat_reconcile_duration_seconds_sum"):
			_, _ = fmt.Sscan(line[at:], &sum)
		}
	}
	return count, sum
}

// ask speaks to the API server as an administrator.
func ask(b *testing.B, cp *localkube.ControlPlane, method, path, contentType, body string) (int, string) {
	b.Helper()
	request, err := http.NewRequestWithContext(b.Context(), method, cp.Host()+path, strings.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	request.Header.Set("Content-Type", contentType)
	response, err := cp.HTTPClient().Do(request)
	if err != nil {
		b.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		b.Fatal(err)
	}
	return response.StatusCode, string(answer)
}
