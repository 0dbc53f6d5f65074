// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package localkube_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/runtime/localkube"
	"github.com/leatdev/leat/internal/runtime/localkube/kubetest"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/program"
)

// processesIn returns the processes that use a control plane's data directory, by process id.
func processesIn(t *testing.T, dataDir string) map[int]string {
	t.Helper()
	// pgrep and lsof differ between systems more than ps does.
	output, err := exec.CommandContext(t.Context(), "ps", "-A", "-ww", "-o", "pid=,args=").Output()
	if err != nil {
		t.Fatalf("list processes: %v", err)
	}
	found := map[int]string{}
	for line := range strings.Lines(string(output)) {
		pid, args, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.Atoi(pid); err == nil && strings.Contains(args, dataDir) {
			found[n] = args
		}
	}
	return found
}

// awaitNoProcess waits for the processes in dataDir to end.
func awaitNoProcess(t *testing.T, dataDir string) {
	t.Helper()
	await.Poll(t, "the processes to end", 20*time.Millisecond, func() (bool, string) {
		left := processesIn(t, dataDir)
		return len(left) == 0, fmt.Sprint(left)
	})
}

// stopsKilling stops a control plane without time for it.
func stopsKilling(t *testing.T, cp *localkube.ControlPlane, dir string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := cp.Stop(ctx); err == nil || !strings.Contains(err.Error(), "stop kube-apiserver: killed") {
		t.Errorf("stop without time: got error %v", err)
	}
	if left := processesIn(t, dir); len(left) != 0 {
		t.Errorf("processes after stop: %v", left)
	}
}

// reportsDeath kills the API server.
func reportsDeath(t *testing.T, cp *localkube.ControlPlane, dir string) {
	t.Helper()
	if err := cp.Err(); err != nil {
		t.Errorf("before: got %v", err)
	}
	for pid, args := range processesIn(t, dir) {
		if strings.Contains(args, "/kube-apiserver ") {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
	<-cp.Failed()
	if err := cp.Err(); err == nil || !strings.Contains(err.Error(), "kube-apiserver ended: signal: killed") {
		t.Errorf("got %v, want which component ended and how", err)
	}
}

// parent runs leat-kube, a process with a control plane, until it is ready.
func parent(t *testing.T, binary, dataDir string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, "up", "--api-server-only", "--data-dir", dataDir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "ready after ") {
		t.Fatalf("leat-kube up: got %q, want that it is ready", lines.Text())
	}
	lines.Scan() // the command to try
	return cmd
}

// TestParent kills leat-kube and starts it again: the data is whole, and its lock is free. Then it
// interrupts the whole foreground process group, as a terminal does on Ctrl-C.
func TestParent(t *testing.T) {
	t.Parallel()
	kubetest.Binaries(t.Context(), t)
	dir := t.TempDir()
	binary, err := program.Compile(t.Context(), t.TempDir(), "./cmd/leat-kube")
	if err != nil {
		t.Fatal(err)
	}
	killed := parent(t, binary, dir)
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = killed.Wait() // the error only reports that it was killed
	awaitNoProcess(t, dir)

	interrupted := parent(t, binary, dir)
	if err := syscall.Kill(-interrupted.Process.Pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := interrupted.Wait(); err != nil {
		t.Errorf("leat-kube after Ctrl-C: %v", err)
	}
	if left := processesIn(t, dir); len(left) != 0 {
		t.Errorf("processes after Ctrl-C: %v", left)
	}
}
