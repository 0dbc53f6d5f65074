// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"runtime/debug"
	"strings"
)

// version is set by the linker (-X) in release builds, and by nothing else.
var version string

// BuildInfo describes the running build.
type BuildInfo struct {
	// Version is the release, or "devel".
	Version string
	// Commit is the Git commit of the source, or empty if the build did not record it.
	Commit string
	// Modified reports whether the working tree differed from the commit.
	Modified bool
	// GoVersion is the compiler's version.
	GoVersion string
}

// Version returns the release that is running, or "devel".
func Version() string { return Build().Version }

// Build returns what the linker and the Go tool recorded in this binary.
func Build() BuildInfo {
	info := BuildInfo{Version: version}
	if read, ok := debug.ReadBuildInfo(); ok {
		info = describe(info, read)
	}
	if info.Version == "" || info.Version == "(devel)" {
		info.Version = "devel"
	}
	return info
}

func describe(info BuildInfo, read *debug.BuildInfo) BuildInfo {
	info.GoVersion = read.GoVersion
	if info.Version == "" {
		info.Version = read.Main.Version
	}
	for _, s := range read.Settings {
		switch s.Key {
		case "vcs.revision":
			info.Commit = s.Value
		case "vcs.modified":
			info.Modified = s.Value == "true"
		}
	}
	return info
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
