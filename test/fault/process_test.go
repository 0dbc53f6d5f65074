// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fault_test

import (
	"cmp"
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/kit/childproc"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/loopback"
	"github.com/leatdev/leat/internal/testkit/program"
)

const (
	// pause is the time between two checks of another process.
	pause = 50 * time.Millisecond
	// callTimeout bounds one call. A call may never be answered if its replica, or one that this
	// depends on, is frozen.
	callTimeout = time.Minute
)

// compiled are the deployables of this tree, in one folder. Linking one takes seconds of a core, and most
// tests need the same two.
var compiled = struct {
	mu  sync.Mutex
	dir string
}{}

func TestMain(m *testing.M) {
	code := m.Run()
	_ = os.RemoveAll(compiled.dir)
	os.Exit(code)
}

// build compiles one deployable, as the Dockerfile does, unless an earlier test did, and returns the binary.
func build(t *testing.T, service string) string {
	t.Helper()
	compiled.mu.Lock()
	defer compiled.mu.Unlock()
	if compiled.dir == "" {
		dir, err := os.MkdirTemp("", "leat-fault-") //nolint:usetesting // it outlives this test
		if err != nil {
			t.Fatal(err)
		}
		compiled.dir = dir
	}
	binary := filepath.Join(compiled.dir, service)
	if _, err := os.Stat(binary); err == nil {
		return binary
	}
	if _, err := program.Compile(context.WithoutCancel(t.Context()), compiled.dir, "../../services/"+service+"/cmd/"+service); err != nil {
		t.Fatal(err)
	}
	return binary
}

// process is a deployable that a test starts, kills and starts again at the same address.
type process struct {
	name, binary, addr, log string
	dir                     string // the data folder
	disk                    *disk  // what holds dir; nil: a disk of this machine
	redis                   *wire  // its connection to Redis
	door                    *wire  // where other replicas of gitcache reach it
	// probed is the setting of the address that answers probes. Empty: the internal listener's.
	probed string
	// internal is the address that answers probes and scrapes, from the first start on.
	internal string
	// certificate is the file of its certificate, if it serves with TLS.
	certificate string
	env         []string
	cmd         *exec.Cmd
	exited      <-chan struct{}
}

func (p *process) url() string { return "http://" + p.addr }

// start runs the process and waits until it is ready.
func (p *process) start(t *testing.T) {
	t.Helper()
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	p.cmd = p.disk.command(p.binary)
	if p.internal == "" {
		p.internal = loopback.Addr(t)
	}
	p.cmd.Env = append(append(os.Environ(), p.env...), cmp.Or(p.probed, "LEAT_INTERNAL_LISTEN_ADDR")+"="+p.internal)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	exited, err := childproc.Start(p.cmd)
	if err != nil {
		t.Fatal(err)
	}
	cmd := p.cmd
	p.exited = exited
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-exited
		if t.Failed() {
			t.Logf("the log of %s ends so:\n%s", p.name, tail(p.log))
		}
	})
	await.Poll(t, p.name+" to be ready", pause, func() (bool, string) {
		select {
		case <-exited:
			t.Fatalf("%s ended instead of becoming ready", p.name)
		default:
		}
		request, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.internal+"/readyz", nil)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return false, err.Error()
		}
		defer response.Body.Close()
		return response.StatusCode == http.StatusOK, response.Status
	})
}

// kill ends the process with SIGKILL and waits for its end.
func (p *process) kill(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatalf("kill %s: %v", p.name, err)
	}
	<-p.exited
}

// stop shuts the process down cleanly and waits for its end.
func (p *process) stop(t *testing.T) {
	t.Helper()
	p.signal(t, syscall.SIGTERM)
	<-p.exited
}

// held returns the UIDs of the mirrors in the process's folder.
func (p *process) held(t *testing.T) []string {
	t.Helper()
	states, err := filepath.Glob(filepath.Join(p.dir, "mirrors", "*", "state.json"))
	if err != nil {
		t.Fatal(err)
	}
	uids := make([]string, 0, len(states))
	for _, state := range states {
		uids = append(uids, filepath.Base(filepath.Dir(state)))
	}
	return uids
}

// signal sends a signal.
func (p *process) signal(t *testing.T, signal syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(signal); err != nil {
		t.Fatalf("signal %s: %v", p.name, err)
	}
}

// tail returns the end of a file.
func tail(path string) string {
	const enough = 12_000
	content, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	if len(content) > enough {
		content = content[len(content)-enough:]
	}
	return string(content)
}
