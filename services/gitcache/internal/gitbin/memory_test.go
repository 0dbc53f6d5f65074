// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package gitbin_test

import (
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/services/gitcache/internal/gitbin"
	"github.com/leatdev/leat/services/gitcache/internal/memory"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// TestSecGitHasBoundedMemory checks the memory bound of git while it indexes a pack, and the error
// if git runs out of memory.
func TestSecGitHasBoundedMemory(t *testing.T) {
	t.Parallel()
	repo := gittest.New(t).Repo(t, "demo")
	repo.Commit(t, "main", map[string]string{"a": "1"})
	git, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	seen := filepath.Join(t.TempDir(), "seen")
	const wait = `n=0; while [ "$(ulimit -d)" = unlimited ] && [ $n -lt 2000 ]; do n=$((n+1)); done; `
	for name, then := range map[string]string{
		"enough": "exec " + git + ` "$@"`, "not enough": "echo fatal: Out of memory, malloc failed >&2; exit 128",
	} {
		wrapper := newScript(t, `case "$*" in *index-pack*) `+wait+"ulimit -d >"+seen+"; "+then+" ;; esac\nexec "+git+` "$@"`+"\n")
		g, err := gitbin.New(gitbin.Config{
			Dir: t.TempDir(), Executable: wrapper, Memory: memory.NewBudget(300 << 20), Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		_, err = fetch(t.Context(), g, repo.URL(), mirror.Content{})
		upstream, refused := errors.AsType[*mirror.UpstreamError](err)
		if name == "enough" && err != nil {
			t.Errorf("got %v, want the pack indexed", err)
		}
		if name == "not enough" && (!refused || upstream.Reason != reason.Internal || !strings.Contains(upstream.Message, "gitcache-memory")) {
			t.Errorf("got %v, want the operator told about gitcache-memory", err)
		}
		got, err := os.ReadFile(seen)
		if err != nil || strings.TrimSpace(string(got)) != "307200" { // KiB
			t.Errorf("%s: got a bound of %q KiB (%v), want 300 MiB", name, got, err)
		}
	}
}
