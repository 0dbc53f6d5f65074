// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package program_test

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/leatdev/leat/internal/testkit/program"
)

// TestProgram awaits a program and ends it while it is frozen, when it would not notice a signal.
func TestProgram(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ready")
	p := program.Start(t, exec.Command("sh", "-c", "echo begun; : >"+file+"; exec sleep 600"))
	p.Await(t, func() bool {
		_, err := os.Stat(file)
		return err == nil
	})
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	p.End(syscall.SIGTERM)
	select {
	case <-p.Ended():
	default:
		t.Error("the program has not ended")
	}
	p.End(syscall.SIGTERM) // again, which does nothing
}

// TestCompile compiles a command that is there, and reports one that is not.
func TestCompile(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "made")
	path, err := program.Compile(t.Context(), dir, "../../runtime/localkube/cmd/leat-kube")
	if err != nil || path != filepath.Join(dir, "leat-kube") {
		t.Fatalf("got %q, %v, want leat-kube in %s", path, err, dir)
	}
	if out, err := exec.CommandContext(t.Context(), path, "--help").CombinedOutput(); err != nil || !strings.Contains(string(out), "leat-kube") {
		t.Errorf("leat-kube --help: got %v, %q", err, out)
	}
	sleep, err := os.ReadFile("/bin/sleep")
	if err == nil {
		err = os.WriteFile(path, sleep, 0o700)
	}
	running := exec.CommandContext(t.Context(), path, "3600") // ends with the test
	if err = cmp.Or(err, running.Start()); err != nil {
		t.Fatal(err)
	}
	if _, err := program.Compile(t.Context(), dir, "../../runtime/localkube/cmd/leat-kube"); err != nil {
		t.Errorf("compile over a program that is running: %v", err)
	}
	_ = running.Process.Kill()
	_ = running.Wait()
	if _, err := program.Compile(t.Context(), dir, "./absent"); err == nil || !strings.Contains(err.Error(), "compile ./absent") {
		t.Errorf("compile a command that does not exist: got %v", err)
	}
}
