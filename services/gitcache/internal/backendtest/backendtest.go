// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package backendtest is what every back end has to pass: whatever fetches from upstreams and keeps
// mirrors shows the same behaviour, the same content and the same errors.
//
// A back end runs it from its own tests:
//
//	func TestBackend(t *testing.T) {
//		backendtest.Run(t, func(t *testing.T, dir string) backendtest.Backend { … })
//	}
//
// Upstreams are real: git's own http-backend and upload-pack, see package gittest.
package backendtest

import (
	"testing"

	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// Backend is all that the service wants of a back end.
type Backend = mirror.Backend

// New makes a back end that keeps its mirrors in dir, which holds nothing, or what an earlier one
// left: that is a restart. A repository is expected at <dir>/<uid>/gen-…, bare, so that git itself
// can judge it.
type New func(t *testing.T, dir string) Backend

// Run runs the whole suite but for [RunServers] and [RunSlowServers], as parallel subtests.
func Run(t *testing.T, open New) {
	t.Helper()
	for _, test := range []struct {
		name string
		run  func(t *testing.T, open New)
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
	t.Run("many refs", func(t *testing.T) { manyRefs(t, open) }) // by itself: its figures go to the log
}
