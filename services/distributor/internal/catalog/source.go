// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"path"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/digest"
)

// Source names content of a repository at a ref. It is comparable.
type Source struct {
	Repository string `json:"repository"`
	Ref        Ref    `json:"ref,omitzero"`
	// Path is the folder of the manifests; empty or "." means the root.
	Path string `json:"path,omitempty"`
	// Root is the folder that is bundled; it contains Path. Empty means Path itself.
	Root string `json:"root,omitempty"`
	// Folders and Files are bundled too.
	Folders List `json:"folders,omitempty"`
	Files   List `json:"files,omitempty"`
	// Include and Exclude are patterns, in the syntax of gitignore(5), for what is bundled of the
	// folders.
	Include List `json:"include,omitempty"`
	Exclude List `json:"exclude,omitempty"`
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

// FullName returns the full name of the reference that r stands for; empty for HEAD, for a commit
// and for a range.
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

// DependsOn reports whether a change of the reference of that full name can change what r selects.
// What HEAD leads to may change with any reference; a range looks at all tags.
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

// Normal returns the one spelling of s: clean paths without a leading or trailing slash, the
// repository's root as "" in Path and "." in Root, no Root that equals Path, and Folders and Files
// in order. Sources with the same Normal mean the same.
func (s Source) Normal() Source {
	s.Path, s.Root = cleanFolder(s.Path), s.normalRoot()
	s.Folders, s.Files = s.Folders.paths(), s.Files.paths()
	return s
}

func (s Source) normalRoot() string {
	if s.Root == "" {
		return ""
	}
	switch root := cleanFolder(s.Root); root {
	case cleanFolder(s.Path):
		return ""
	case "":
		return "."
	default:
		return root
	}
}

// Plain reports whether s is nothing but one folder.
func (s Source) Plain() bool {
	return s.Folders == "" && s.Files == "" && s.Include == "" && s.Exclude == ""
}

// bundled returns the folder that is bundled for Path; "" is the repository's root.
func (s Source) bundled() string { return cleanFolder(cmp.Or(s.Root, s.Path)) }

// Folder returns the folder that names in the bundle are relative to: the deepest one that holds
// everything the source names. "" is the repository's root.
func (s Source) Folder() string {
	folder := s.bundled()
	for _, other := range s.Folders.Items() {
		folder = common(folder, cleanFolder(other))
	}
	for _, file := range s.Files.Items() {
		folder = common(folder, parent(cleanFolder(file)))
	}
	return folder
}

// common returns the deepest folder that holds both.
func common(a, b string) string {
	for !inside(b, a) {
		a = parent(a)
	}
	return a
}

// inside reports whether a folder is root or lies below it.
func inside(folder, root string) bool {
	return root == "" || folder == root || strings.HasPrefix(folder, root+"/")
}

func parent(of string) string { return of[:max(strings.LastIndexByte(of, '/'), 0)] }

// Subpath returns where the manifests are inside the bundle; "" is the bundle's root.
func (s Source) Subpath() string {
	folder := s.Folder()
	return strings.TrimPrefix(strings.TrimPrefix(cleanFolder(s.Path), folder), "/")
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

// Resolution is what is known of a source: the last good snapshot, and beside it why it cannot be
// resolved now.
type Resolution struct {
	// Snapshot is nil until the source was resolved for the first time.
	Snapshot *Snapshot
	// Problem is nil while the source can be resolved.
	Problem *Problem
	// ResolvedAt is when Snapshot was last confirmed.
	ResolvedAt time.Time
	// FreshAt orders answers: it is when the mirror that Snapshot comes from was last known to
	// equal the upstream. Zero: that is not known, and the answer counts as newer than those
	// before.
	FreshAt time.Time
}
