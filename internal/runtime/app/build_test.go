// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"runtime/debug"
	"testing"
)

// TestCommitOfABuild has a build in a checkout, and one of an image, which has no repository.
func TestCommitOfABuild(t *testing.T) {
	t.Parallel()
	recorded := []debug.BuildSetting{{Key: "vcs.revision", Value: "4f2c1e0"}}
	for name, c := range map[string]struct {
		linked   string
		recorded []debug.BuildSetting
		want     string
	}{
		"of a checkout": {recorded: recorded, want: unreleased + ", commit 4f2c1e0, go1.26"},
		"of a release":  {linked: "8f14e45", want: unreleased + ", commit 8f14e45, go1.26"},
		"of both":       {linked: "8f14e45", recorded: recorded, want: unreleased + ", commit 8f14e45, go1.26"},
		"of neither":    {want: unreleased + ", go1.26"},
	} {
		if got := describe(BuildInfo{Commit: c.linked}, &debug.BuildInfo{GoVersion: "go1.26", Settings: c.recorded}).String(); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestVersionOfABuild(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ linked, recorded, want, release string }{
		"of a checkout":          {recorded: "(devel)", want: "0.2.0-dev"},
		"of nothing":             {want: "0.2.0-dev"},
		"of a commit":            {recorded: "v0.0.0-20261126100000-dac37c4a8bff+dirty", want: "0.2.0-dev"},
		"of an image":            {linked: "0.2.0-dev", recorded: "(devel)", want: "0.2.0-dev"},
		"installed by go":        {recorded: "v0.2.1", want: "v0.2.1", release: "0.2.1"},
		"set by the linker":      {linked: "0.1.0", recorded: "(devel)", want: "0.1.0", release: "0.1.0"},
		"set by the linker, too": {linked: "0.1.1-rc.1", recorded: "v0.2.1", want: "0.1.1-rc.1", release: "0.1.1-rc.1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := describe(BuildInfo{Version: c.linked}, &debug.BuildInfo{Main: debug.Module{Version: c.recorded}})
			if got.Version != c.want || got.Release() != c.release {
				t.Errorf("got %q and the release %q, want %q and %q", got.Version, got.Release(), c.want, c.release)
			}
		})
	}
}
