// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Every back end has to pass these tests: whatever its tools are, it shows the same behaviour, the
// same content and the same errors.
//
// Upstreams are real: git's own http-backend and upload-pack (see package gittest), OpenSSH, and
// Gitea in the slow tests.
package backend_test

import (
	"log/slog"
	"os"
	"testing"

	"github.com/leatdev/leat/internal/runtime/dialguard"
	"github.com/leatdev/leat/services/gitcache/internal/backend"
	"github.com/leatdev/leat/services/gitcache/internal/gitbin"
	"github.com/leatdev/leat/services/gitcache/internal/gogit"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// opener makes a back end that keeps its mirrors in dir, which holds nothing, or what an earlier
// one left: that is a restart. A repository is at <dir>/<uid>/gen-…, bare, so that git itself can
// judge it.
type opener func(t *testing.T, dir string) mirror.Backend

func openGit(t *testing.T, dir string) mirror.Backend {
	t.Helper()
	g, err := gitbin.New(config(dir))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func openGoGit(t *testing.T, dir string) mirror.Backend {
	t.Helper()
	g, err := gogit.New(config(dir))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func config(dir string) backend.Config {
	return backend.Config{Dir: dir, Guard: dialguard.Guard{AllowLocal: true}, Logger: slog.New(slog.DiscardHandler)}
}

// onEach runs a test on each back end.
func onEach(t *testing.T, test func(t *testing.T, open opener)) {
	t.Helper()
	for name, open := range map[string]opener{"git": openGit, "gogit": openGoGit} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open)
		})
	}
}

func TestBackEnds(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, open opener) {
		for _, test := range []struct {
			name string
			run  func(t *testing.T, open opener)
		}{
			{"follows the upstream", followsUpstream},
			{"empty repository", emptyRepository},
			{"tags of all kinds", tagsOfAllKinds},
			{"follows rewritten history", followsRewrittenHistory},
			{"restart", restart},
			{"damaged mirror", damagedMirror},
			{"clones again", clonesAgain},
			{"no bytes without the right", noBytesWithoutRight},
			{"right lost while fetching", rightLostWhileFetching},
			{"cancelled fetch", cancelledFetch},
			{"cut pack", cutPack},
			{"failures have reasons", failures},
			{"copy to another replica", copies},
			{"copy drops what the owner has not", copyDropsOthers},
			{"bad copies change nothing", badCopies},
			{"many packs become few", manyPacksBecomeFew},
			{"fetched while compacting", fetchedWhileCompacting},
			{"what no ref reaches goes", unreachableGoes},
			{"copies of what was compacted", copiesOfCompacted},
			{"freshness outlives a restart", confirmed},
			{"reads what git reads", readsWhatGitReads},
			{"readers are counted", readersAreCounted},
		} {
			t.Run(test.name, func(t *testing.T) {
				t.Parallel()
				test.run(t, open)
			})
		}
		t.Run("many refs", func(t *testing.T) { manyRefs(t, open) }) // before the others: its figures go to the log
	})
}

// TestServers fetches from servers that others wrote, in every way that they can be reached: git's
// http-backend and OpenSSH.
func TestServers(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, open opener) {
		t.Run("http-backend", func(t *testing.T) { httpBackend(t, open) })
		t.Run("OpenSSH", func(t *testing.T) { openSSH(t, open) })
	})
}

// TestSlowServers is TestServers for Gitea, which takes minutes to compile the first time.
func TestSlowServers(t *testing.T) {
	t.Parallel()
	if os.Getenv("LEAT_SLOW") == "" {
		t.Skip("LEAT_SLOW is not set: Gitea is left to `make test-all`")
	}
	onEach(t, gitea)
}
