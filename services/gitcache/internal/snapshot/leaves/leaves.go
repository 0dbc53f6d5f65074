// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package leaves declares what a bundle is made from: entries of trees, the commits that have them,
// and the mirrors that hold these.
//
// A [Leaf] is an entry that the bundle is going to have, and whose content is not read yet. Its
// [Place] is the commit that has it: of the repository that is bundled, of a submodule, or of what a
// chart depends on.
//
// Content that a mirror lacks is not fetched while a mirror is open. The step of a build that needs
// it ends with an [*AbsentError]; the build closes its [Reader], calls Fetch, and tries again.
//
// [Mirrors] may be used concurrently. A Reader is for one goroutine, and has at most one mirror open
// at a time, because readers are counted: builds that each held one and waited for another could
// wait for ever.
package leaves

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/leatdev/leat/services/gitcache/internal/chartdep"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/submodule"
)

// MaxDepth bounds how deep trees may be nested; content that needs more is hostile.
const MaxDepth = 256

// ErrUnsupported is matched by every [*UnsupportedError].
var ErrUnsupported = errors.New("content not supported")

// UnsupportedError names an entry of a folder that a bundle cannot carry. It matches
// [ErrUnsupported].
type UnsupportedError struct {
	Path   string // in the repository
	Reason string // a phrase that follows the path
}

// Error implements error.
func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("%v: %q %s", ErrUnsupported, e.Path, e.Reason)
}

// Is makes errors.Is(err, ErrUnsupported) true.
func (e *UnsupportedError) Is(target error) bool { return target == ErrUnsupported }

// Leaf is one entry of a bundle that is going to be.
type Leaf struct {
	Path string // in the repository
	Name string // in the bundle
	Kind content.Kind
	ID   string
	*Place
}

// IsFile reports whether the leaf is a regular file.
func (l Leaf) IsFile() bool { return l.Kind == content.KindFile || l.Kind == content.KindExecutable }

// Sort orders leaves by their names in the bundle.
func Sort(all []Leaf) {
	slices.SortFunc(all, func(x, y Leaf) int { return strings.Compare(x.Name, y.Name) })
}

// Place is a repository whose content a bundle holds, at a commit. Places form a tree: below the
// repository that is bundled are its submodules, and below these are theirs. Content that is packed
// for a chart is a place, too: an artifact, or another folder of the same commit.
type Place struct {
	UID, Commit string
	Prefix      string          // of its paths in the repository that is bundled; empty for that one itself
	Link        *submodule.Link // nil for the repository that is bundled
	Above       *Place          // the one whose submodule it is, or one of whose charts needs this one
	Need        *chartdep.Need  // the dependency of a chart that it is; nil for any other
	// CopyOf is the place whose folder is packed for a chart. Nil: the place is not such a copy.
	CopyOf *Place
}

// ShownPrefix returns the prefix that paths of the place have for people.
func (p *Place) ShownPrefix() string {
	for p.CopyOf != nil {
		p = p.CopyOf
	}
	return p.Prefix
}

// Root returns the repository that is bundled.
func (p *Place) Root() *Place {
	for p.Above != nil {
		p = p.Above
	}
	return p
}

// ReadText reads a file that a person wrote, such as one with ignore rules or settings, and closes
// it. It returns false for one of more than 256 KiB, which is never written by hand.
func ReadText(file content.File) (text []byte, ok bool, err error) {
	text, err = io.ReadAll(io.LimitReader(file, maxText+1))
	return text, len(text) <= maxText, errors.Join(err, file.Close())
}

const maxText = 256 << 10
