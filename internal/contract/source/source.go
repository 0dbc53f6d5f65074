// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package source holds what a source names: content of a repository at a ref, and the folder of a service's tree where it
// lies. The hub stores and resolves sources; the command line checks those that it writes. Package sourcewire converts
// them.
package source

import (
	"cmp"
	"path"
	"strings"
)

// Source names content of a repository at a ref, and where it lies in the service's tree. It is
// comparable.
//
// The names in JSON are a contract: the database holds Sources that earlier versions wrote.
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
	// Include and Exclude are patterns, in the syntax of gitignore(5), for the bundled part of the
	// folders.
	Include List `json:"include,omitempty"`
	Exclude List `json:"exclude,omitempty"`
	// Chart is the chart's name in a Helm repository. Empty in other repositories.
	Chart string `json:"chart,omitempty"`
	// Layer selects which layer of an OCI artifact is delivered. It is zero in other repositories.
	Layer ArtifactLayer `json:"layer,omitzero"`
	// Mount is the folder of the service's tree where the content lies: a clean path. Empty: the
	// tree's root.
	Mount string `json:"mount,omitempty"`
}

// ArtifactLayer selects layers of an OCI artifact. The zero value is a chart's layer, or else the
// only one, unpacked.
type ArtifactLayer struct {
	// MediaType is the type of the layer. Empty: the artifact's only layer.
	MediaType string `json:"mediaType,omitempty"`
	// Copy keeps the layer as a file instead of unpacking it.
	Copy bool `json:"copy,omitempty"`
	// Files keeps every layer that has a title as a file. It excludes the others.
	Files bool `json:"files,omitempty"`
}

// RefKind is how a Ref selects its commit.
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

// RefName returns the full name of the reference that s is read at; empty for HEAD, for a commit and
// for a range. The reference of a chart's version is refs/tags/<chart>/<version>.
func (s Source) RefName() string {
	if s.Ref.Kind == RefTag {
		return s.tags() + s.Ref.Value
	}
	return s.Ref.FullName()
}

// tags returns what the full names of all tags begin with at which s can be read.
func (s Source) tags() string {
	if s.Chart == "" {
		return tagPrefix
	}
	return tagPrefix + s.Chart + "/"
}

// DependsOn reports whether a change of the reference of that full name can change what s selects.
// The target of HEAD may change with any reference, or with any version of the chart; a range
// considers all tags.
func (s Source) DependsOn(name string) bool {
	isTag := strings.HasPrefix(name, s.tags())
	switch s.Ref.Kind {
	case RefHead:
		return s.Chart == "" || isTag
	case RefSemver:
		return isTag
	case RefCommit:
		return false
	case RefBranch, RefTag, RefName:
	}
	full := s.RefName()
	if full == name || full == "HEAD" {
		return true
	}
	// A registry's tags have "_" where versions have "+".
	return s.Ref.Kind == RefTag && strings.ReplaceAll(full, "+", "_") == name
}

// Normal returns the one spelling of what s selects: clean paths without a leading or trailing
// slash, the repository's root as "" in Path and "." in Root, no Root that equals Path, and Folders
// and Files in order. It has no Mount, so that services which mount the same content at different
// places share one snapshot. Sources with the same Normal have the same content.
func (s Source) Normal() Source {
	s.Path, s.Root, s.Mount = cleanFolder(s.Path), s.normalRoot(), ""
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

// Place returns where in the repository the manifests are, for messages: a chart's name and the
// folder.
func (s Source) Place() string { return path.Join(s.Chart, cleanFolder(s.Path)) }

// Plain reports whether s selects nothing but one folder of a Git repository, or of an artifact that
// is unpacked by default.
func (s Source) Plain() bool {
	return s.Folders == "" && s.Files == "" && s.Include == "" && s.Exclude == "" && s.Chart == "" && s.Layer == (ArtifactLayer{})
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
