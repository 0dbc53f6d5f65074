// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package gitbin_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/services/gitcache/internal/gitbin"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// TestCancelEndsTheGroup lets git start another process and hang, deaf to being asked to end.
// Cancelling the fetch ends both, and leaves no zombie.
func TestCancelEndsTheGroup(t *testing.T) {
	t.Parallel()
	pids := filepath.Join(t.TempDir(), "pids")
	deaf := newScript(t, fmt.Sprintf(`case "$*" in
*version) echo git version 2.50.0 ;;
*) trap '' TERM
   /bin/sleep 1000 &
   echo $$ $! > %s.new && /bin/mv %s.new %s
   wait ;;
esac
`, pids, pids, pids))
	g, err := gitbin.New(gitbin.Config{Dir: t.TempDir(), Executable: deaf, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	repo := gittest.New(t).Repo(t, "demo")
	repo.Commit(t, "main", map[string]string{"a": "1"})
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	enough := errors.New("enough")
	ended := make(chan error, 1)
	go func() {
		_, err := fetch(ctx, g, repo.URL(), mirror.Content{})
		ended <- err
	}()
	group := waitForPIDs(t, pids)
	cancel(enough)
	if err := <-ended; !errors.Is(err, enough) {
		t.Errorf("got %v, want the cause of the cancellation", err)
	}
	for _, pid := range group {
		gone(t, pid)
	}
}

func waitForPIDs(t *testing.T, path string) []int {
	t.Helper()
	var pids []int
	await.Success(t, "the processes of the fetch", func(context.Context) error {
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for word := range strings.FieldsSeq(string(data)) {
			pid, err := strconv.Atoi(word)
			if err != nil {
				return err
			}
			pids = append(pids, pid)
		}
		return nil
	})
	return pids
}

// gone waits until a process has ended. One that only waits for being buried by init has.
func gone(t *testing.T, pid int) {
	t.Helper()
	await.Success(t, "the end of a process", func(context.Context) error {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || (err == nil && bytes.Contains(status, []byte(") Z "))) {
			return nil
		}
		return fmt.Errorf("process %d is alive", pid)
	})
}
