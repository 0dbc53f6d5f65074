// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package bench_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/testkit/hubkeys"
)

const module = "github.com/leatdev/leat/"

// build compiles a command, given by its path in the repository, and returns the path of the
// binary.
func build(tb testing.TB, command string) string {
	tb.Helper()
	binary := filepath.Join(tb.TempDir(), path.Base(command))
	cmd := exec.CommandContext(tb.Context(), "go", "build", "-o", binary, module+command)
	if out, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("build %s: %v\n%s", command, err, out)
	}
	return binary
}

// process is a server in a separate process, so that its cost can be distinguished from that of its
// clients.
type process struct {
	cmd *exec.Cmd
	url string
	// internal is the address of probes and scrapes.
	internal string
	// token authenticates the benchmark, if the server requires it.
	token string
}

// startBare starts the bare handler.
func startBare(tb testing.TB) *process {
	tb.Helper()
	cmd := exec.Command(build(tb, "bench/cmd/barehandler"))
	out, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	run(tb, cmd)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		tb.Fatal(err)
	}
	return &process{cmd: cmd, url: strings.TrimSpace(line)}
}

// startService starts a service of the hub and waits until it is ready.
func startService(tb testing.TB, name string, environment ...string) *process {
	tb.Helper()
	p := &process{url: "http://" + freeAddress(tb), internal: "http://" + freeAddress(tb)}
	p.cmd = exec.Command(build(tb, "services/"+name+"/cmd/"+name), "--listen-addr", strings.TrimPrefix(p.url, "http://"),
		"--internal-listen-addr", strings.TrimPrefix(p.internal, "http://"))
	p.cmd.Env = append(append(os.Environ(), environment...), "LEAT_SERVICE_SECRET="+hubkeys.Secret(name), "LEAT_SERVICE_KEYS="+strings.Join(hubkeys.List(), ","))
	p.cmd.Stderr = os.Stderr
	run(tb, p.cmd)
	for range 600 {
		if ready(tb, p.internal) {
			return p
		}
		<-time.After(50 * time.Millisecond)
	}
	tb.Fatalf("%s did not become ready", name)
	return nil
}

func ready(tb testing.TB, url string) bool {
	tb.Helper()
	request, err := http.NewRequestWithContext(tb.Context(), http.MethodGet, url+"/readyz", http.NoBody)
	if err != nil {
		tb.Fatal(err)
	}
	response, err := new(http.Client).Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// run starts a process that ends with the benchmark.
func run(tb testing.TB, cmd *exec.Cmd) {
	tb.Helper()
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
}

func freeAddress(tb testing.TB) string {
	tb.Helper()
	listener, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// clockTick is the unit of time in /proc, the same on every Linux.
const clockTick = 10 * time.Millisecond

// cpu returns the CPU time that the process has used, in user and kernel mode.
func (p *process) cpu(tb testing.TB) time.Duration {
	tb.Helper()
	stat := p.proc(tb, "stat")
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	var ticks int64
	for _, field := range fields[11:13] { // utime and stime, the 14th and 15th field in all
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			tb.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * clockTick
}

// memory returns the process's resident memory in bytes, current and peak.
func (p *process) memory(tb testing.TB) (now, highest int64) {
	tb.Helper()
	for line := range strings.Lines(p.proc(tb, "status")) {
		var kib int64
		if _, err := fmt.Sscanf(line, "VmRSS: %d kB", &kib); err == nil {
			now = kib << 10
		}
		if _, err := fmt.Sscanf(line, "VmHWM: %d kB", &kib); err == nil {
			highest = kib << 10
		}
	}
	return now, highest
}

func (p *process) proc(tb testing.TB, file string) string {
	tb.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.cmd.Process.Pid, file))
	if err != nil {
		tb.Fatal(err)
	}
	return string(text)
}
