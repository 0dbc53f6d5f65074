// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package program_test

import (
	"os"
	"os/exec"
	"path/filepath"
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
