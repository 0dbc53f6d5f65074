// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"runtime/debug"
	"strings"
)

// version and commit are set by the linker (-X) in images and releases, which are built without the Git
// repository, and by nothing else.
var version, commit string

// unreleased is the version of a build that is not a release: the next one, which is still made.
const unreleased = "0.2.0-dev"

// BuildInfo describes the running build.
type BuildInfo struct {
	// Version is the release, or "0.2.0-dev" on the way to the next one.
	Version string
	// Commit is the Git commit of the source, or empty if the build did not record it.
	Commit string
	// Modified reports whether the working tree differed from the commit.
	Modified bool
	// GoVersion is the compiler's version.
	GoVersion string
}

// Version returns the release that is running, or "0.2.0-dev" on the way to the next one.
func Version() string { return Build().Version }

// Build returns what the linker and the Go tool recorded in this binary.
func Build() BuildInfo {
	read, ok := debug.ReadBuildInfo()
	if !ok {
		read = &debug.BuildInfo{}
	}
	return describe(BuildInfo{Version: version, Commit: commit}, read)
}

// describe adds to info what the Go tool recorded. What the linker set wins.
func describe(info BuildInfo, read *debug.BuildInfo) BuildInfo {
	info.GoVersion = read.GoVersion
	if info.Version == "" {
		info.Version = read.Main.Version
	}
	// The Go tool gives a checkout without a tag "(devel)", or a version made of its commit, which follows anyway.
	if info.Version == "" || info.Version == "(devel)" || strings.HasPrefix(info.Version, "v0.0.0-") {
		info.Version = unreleased
	}
	for _, s := range read.Settings {
		switch s.Key {
		case "vcs.revision":
			info.Commit = cmp.Or(info.Commit, s.Value)
		case "vcs.modified":
			info.Modified = s.Value == "true"
		}
	}
	return info
}

// Release returns the version of a release as the tags of its images have it, and nothing for another
// build.
func (b BuildInfo) Release() string {
	if strings.HasSuffix(b.Version, "-dev") {
		return ""
	}
	return strings.TrimPrefix(b.Version, "v")
}

// String prints the build on one line.
func (b BuildInfo) String() string {
	parts := []string{b.Version}
	if b.Commit != "" {
		parts = append(parts, "commit "+b.Commit)
	}
	if b.Modified {
		parts = append(parts, "modified")
	}
	return strings.Join(append(parts, b.GoVersion), ", ")
}
