// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gittest_test

import (
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/testkit/gittest"
)

// TestHistory requires the same history every time, valid by git's own checks, with every kind of
// entry that it promises.
func TestHistory(t *testing.T) {
	t.Parallel()
	server := gittest.New(t)
	one, two, other := server.Repo(t, "one"), server.Repo(t, "two"), server.Repo(t, "other")
	p := gittest.HistoryParams{Seed: 1, Commits: 400}
	one.History(t, p)
	two.History(t, p)
	other.History(t, gittest.HistoryParams{Seed: 2, Commits: 400})
	refs := one.Git(t, "show-ref")
	if got := two.Git(t, "show-ref"); got != refs {
		t.Errorf("got other ids from the same parameters:\n%s\nwant\n%s", got, refs)
	}
	if got := other.Git(t, "show-ref"); got == refs {
		t.Error("got the same ids from another seed")
	}
	one.Git(t, "fsck", "--full", "--strict")
	commits := strings.Split(one.Git(t, "rev-list", "--all"), "\n")
	if len(commits) < p.Commits {
		t.Errorf("got %d commits that refs lead to, want at least %d", len(commits), p.Commits)
	}
	for what, count := range map[string]int{
		"merges":          len(strings.Fields(one.Git(t, "rev-list", "--all", "--min-parents=2"))),
		"octopus merges":  len(strings.Fields(one.Git(t, "rev-list", "--all", "--min-parents=3"))),
		"roots":           len(strings.Fields(one.Git(t, "rev-list", "--all", "--max-parents=0"))) - 1,
		"symbolic links":  strings.Count(one.Git(t, "log", "--all", "--raw", "--no-renames", "--format="), " 120000 "),
		"submodules":      strings.Count(one.Git(t, "log", "--all", "--raw", "--no-renames", "--format="), " 160000 "),
		"changes of mode": strings.Count(one.Git(t, "log", "--all", "--summary", "--no-renames", "--format="), " mode change "),
		"type changes":    strings.Count(one.Git(t, "log", "--all", "--name-status", "--no-renames", "--format="), "T\t"),
		"renames":         strings.Count(one.Git(t, "log", "--all", "--name-status", "-M", "--format="), "R100\t"),
		"odd names":       strings.Count(one.Git(t, "log", "--all", "--name-only", "--format=", "--no-renames"), `\377`),
	} {
		if count < 2 {
			t.Errorf("got %d %s, want some", count, what)
		}
	}
}
