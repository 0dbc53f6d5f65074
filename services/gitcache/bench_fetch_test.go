// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitcache_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// histories are the ones that BenchmarkColdMirror and BenchmarkIncrementalFetch fetch: about 9 000
// and 110 000 objects.
var histories = map[string]history{
	"small": {files: 400, commits: 2_000},
	"large": {files: 6_000, commits: 20_000},
}

// BenchmarkColdMirror mirrors a repository that no replica has yet, from git http-backend on this
// machine: until packs and refs are durable. The peer is git clone --mirror, which syncs packs too.
func BenchmarkColdMirror(b *testing.B) {
	for _, size := range []string{"small", "large"} {
		b.Run("history="+size, func(b *testing.B) {
			repo := gittest.New(b).Repo(b, "demo")
			histories[size].generate(b, repo)
			for name, open := range backends {
				b.Run(name, func(b *testing.B) {
					for b.Loop() {
						b.StopTimer()
						git := open(b, b.TempDir())
						b.StartTimer()
						clone(b, git, repo, mirror.Content{})
					}
				})
			}
			b.Run("peer=git-clone", func(b *testing.B) {
				dir := b.TempDir()
				n := 0
				for b.Loop() {
					n++
					git(b, dir, "clone", "--quiet", "--mirror", repo.URL(), fmt.Sprint(n))
				}
			})
		})
	}
}

// BenchmarkIncrementalFetch fetches one commit that changes one file. The peer is git fetch into a
// mirror.
func BenchmarkIncrementalFetch(b *testing.B) {
	for _, size := range []string{"small", "large"} {
		b.Run("history="+size, func(b *testing.B) {
			h := histories[size]
			repo := gittest.New(b).Repo(b, "demo")
			h.generate(b, repo)
			last := h.commits
			commit := func(b *testing.B) {
				b.StopTimer()
				last++
				h.extend(b, repo, last, last)
				b.StartTimer()
			}
			for name, open := range backends {
				b.Run(name, func(b *testing.B) {
					ours := open(b, b.TempDir())
					have := clone(b, ours, repo, mirror.Content{})
					for b.Loop() {
						commit(b)
						have = clone(b, ours, repo, have)
					}
				})
			}
			b.Run("peer=git-fetch", func(b *testing.B) {
				dir := filepath.Join(b.TempDir(), "mirror")
				git(b, "", "clone", "--quiet", "--mirror", repo.URL(), dir)
				git(b, dir, "config", "gc.auto", "0")
				for b.Loop() {
					commit(b)
					git(b, dir, "fetch", "--quiet")
				}
			})
		})
	}
}

func git(b *testing.B, dir string, args ...string) {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), "git", args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("git %v: %v\n%s", args, err, out)
	}
}
