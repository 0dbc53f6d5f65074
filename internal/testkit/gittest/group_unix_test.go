// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package gittest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/gittest"
)

// TestClientLeavesAHookThatPrints kills a client while a hook of its push prints more than pipes
// hold, or prints nothing more.
func TestClientLeavesAHookThatPrints(t *testing.T) {
	t.Parallel()
	for name, rest := range map[string]string{
		"without end": "while :; do echo more; done",
		"once":        "exec sleep 600",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			repo := gittest.New(t).Repo(t, "demo")
			repo.Commit(t, "main", map[string]string{"a": "1"})
			clone, pid := filepath.Join(t.TempDir(), "clone"), filepath.Join(t.TempDir(), "pid")
			mustGit(t, nil, "clone", "--quiet", repo.URL(), clone)
			hook := "#!/bin/sh\necho $$ > '" + pid + "'\n" + rest + "\n"
			hooks := t.TempDir()
			if err := os.WriteFile(filepath.Join(hooks, "pre-receive"), []byte(hook), 0o700); err != nil {
				t.Fatal(err)
			}
			repo.Git(t, "config", "core.hooksPath", hooks)
			mustGit(t, nil, "-C", clone, "commit", "--quiet", "--allow-empty", "-m", "next")
			ctx, leave := context.WithCancel(t.Context())
			push := exec.CommandContext(ctx, "git", "-C", clone, "push", "--quiet")
			push.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + t.TempDir(), "GIT_CONFIG_NOSYSTEM=1"}
			push.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // git has git-remote-http speak to the server
			push.Cancel = func() error { return syscall.Kill(-push.Process.Pid, syscall.SIGKILL) }
			if err := push.Start(); err != nil {
				t.Fatal(err)
			}
			await.True(t, "the hook", func() bool { return isRunning(pid) })
			leave()
			_ = push.Wait()
			await.True(t, "the end of the hook", func() bool { return !isRunning(pid) })
		})
	}
}

// isRunning reports whether the process whose number is in a file runs. One that only waits for
// being buried by init does not.
func isRunning(file string) bool {
	content, err := os.ReadFile(file)
	text, isWhole := strings.CutSuffix(string(content), "\n")
	pid, err2 := strconv.Atoi(text)
	if err != nil || err2 != nil || !isWhole || errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return false
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || !bytes.Contains(status, []byte(") Z "))
}
