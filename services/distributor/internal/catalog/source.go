// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"path"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/digest"
)

// Source names the content of a folder at a ref. It is comparable.
type Source struct {
	Repository string `json:"repository"`
	Ref        Ref    `json:"ref,omitzero"`
	// Path is the folder of the manifests; empty or "." means the root.
	Path string `json:"path,omitempty"`
	// Root is the folder that is bundled; it contains Path. Empty means Path itself.
	Root string `json:"root,omitempty"`
}

// RefKind says how a Ref selects its commit.
type RefKind string

// The kinds of refs.
const (
	RefHead   RefKind = ""
	RefBranch RefKind = "branch"
	RefTag    RefKind = "tag"
	RefCommit RefKind = "commit"
	RefName   RefKind = "name"
	RefSemver RefKind = "semver"
)

const tagPrefix = "refs/tags/"

// Ref selects a commit. The zero Ref is HEAD.
type Ref struct {
	Kind  RefKind `json:"kind,omitempty"`
	Value string  `json:"value,omitempty"`
}

// FullName returns the full name of the reference that r stands for; empty for HEAD, for a commit and for a range.
func (r Ref) FullName() string {
	switch r.Kind {
	case RefBranch:
		return "refs/heads/" + r.Value
	case RefTag:
		return tagPrefix + r.Value
	case RefName:
		return r.Value
	case RefHead, RefCommit, RefSemver:
	}
	return ""
}

// DependsOn tells whether a change of the reference of that full name can change what r selects. What HEAD leads to may
// change with any reference; a range looks at all tags.
func (r Ref) DependsOn(name string) bool {
	switch r.Kind {
	case RefHead:
		return true
	case RefSemver:
		return strings.HasPrefix(name, tagPrefix)
	case RefCommit:
		return false
	case RefBranch, RefTag, RefName:
	}
	full := r.FullName()
	return full == name || full == "HEAD"
}

// Normal returns the one spelling of s: clean paths without a leading or trailing slash, the repository's root as ""
// in Path and "." in Root, and no Root that equals Path. Sources that mean the same have the same Normal.
func (s Source) Normal() Source {
	s.Path = cleanFolder(s.Path)
	if s.Root == "" {
		return s
	}
	root := cleanFolder(s.Root)
	switch root {
	case s.Path:
		s.Root = ""
	case "":
		s.Root = "."
	default:
		s.Root = root
	}
	return s
}

// Folder returns the folder that is bundled; "" is the repository's root.
func (s Source) Folder() string {
	n := s.Normal()
	switch n.Root {
	case "":
		return n.Path
	case ".":
		return ""
	default:
		return n.Root
	}
}

// Subpath returns where the manifests are inside the bundle; "" is the bundle's root.
func (s Source) Subpath() string {
	folder := s.Folder()
	inside := strings.TrimPrefix(s.Normal().Path, folder)
	return strings.TrimPrefix(inside, "/")
}

func cleanFolder(p string) string {
	return strings.TrimPrefix(path.Clean("/"+p), "/")
}

// Snapshot is the answer to "what does this source hold".
type Snapshot struct {
	Commit string
	Digest digest.Digest
	// ContentSize and StoredSize are bytes, uncompressed and as sent.
	ContentSize int64
	StoredSize  int64
	Files       int
}

// Resolution is what is known of a source: the last good snapshot, and beside it why it cannot be resolved now.
type Resolution struct {
	// Snapshot is nil until the source was resolved for the first time.
	Snapshot *Snapshot
	// Problem is nil while the source can be resolved.
	Problem *Problem
	// ResolvedAt is when Snapshot was last confirmed.
	ResolvedAt time.Time
}
