// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/Masterminds/semver/v3"
)

// SelectorKind is how a [Selector] names a commit.
type SelectorKind int

// The kinds of selectors.
const (
	SelectHead   SelectorKind = iota // HEAD, the upstream's default branch
	SelectBranch                     // a branch's short name
	SelectTag                        // a tag's short name
	SelectCommit                     // a commit id, or leading digits of one
	SelectName                       // a full reference name
	SelectSemver                     // a range of versions; see [Content.Resolve]
)

// Selector names a commit of a repository. The zero Selector is HEAD of a Git repository.
type Selector struct {
	Kind  SelectorKind
	Value string // empty for SelectHead
	// Within is the prefix of the refs that a selector of an artifact repository sees: [ChartPrefix]
	// in a Helm repository, and TagPrefix in an OCI repository. Empty: the repository is a Git
	// repository, and every ref counts.
	Within string
}

// ChartPrefix returns what the full names of a chart's versions begin with.
func ChartPrefix(chart string) string { return TagPrefix + chart + "/" }

// IsOfArtifacts reports whether the selector is of a Helm or OCI repository.
func (s Selector) IsOfArtifacts() bool { return s.Within != "" }

// short returns a ref's name within the selector's prefix.
func (s Selector) short(name string) string {
	return strings.TrimPrefix(name, cmp.Or(s.Within, TagPrefix))
}

// String names the selector in messages.
func (s Selector) String() string {
	switch s.Kind {
	case SelectBranch:
		return "branch " + s.Value
	case SelectTag:
		if chart := s.chart(); chart != "" {
			return "version " + s.Value + chart
		}
		return "tag " + s.Value
	case SelectCommit:
		if s.IsOfArtifacts() {
			return "digest " + s.Value + s.chart()
		}
		return "commit " + s.Value
	case SelectName:
		return s.Value
	case SelectSemver:
		if chart := s.chart(); chart != "" {
			return "version" + chart + " in the range " + s.Value
		}
		return "tag in the range " + s.Value
	default:
		if chart := s.chart(); chart != "" {
			return "stable version" + chart
		}
		return "HEAD"
	}
}

// chart names the chart of a selector, as " of chart NAME"; "" for other repositories.
func (s Selector) chart() string {
	name := strings.Trim(strings.TrimPrefix(s.Within, TagPrefix), "/")
	if name == "" {
		return ""
	}
	return " of chart " + name
}

// Selected is the result of a selector.
type Selected struct {
	// Commit is the commit's id or, in an artifact repository, a digest.
	Commit string
	// Version is the short name of the tag that was selected: a chart's version without the chart's
	// name, or the tag of an OCI registry or of Git as it is written there. Empty: no tag was.
	Version string
}

// Resolve returns the commit that s selects; see Select.
func (c Content) Resolve(s Selector) (string, error) {
	selected, err := c.Select(s)
	return selected.Commit, err
}

// Select returns the selection of s, from memory. The error is a *RefError where there is none, and
// a *RejectedError where the repository's verification holds it back. A commit id is returned as it
// is: only the mirror's objects show whether it exists, and their verification whether it is
// delivered. A range selects the highest version among the tags within it; of several tags for one
// version it selects the last by name.
//
// In an artifact repository the commit is a digest. HEAD is the highest version that is not a
// pre-release or, in an OCI repository without such, the tag latest. There are no branches. A tag
// of an OCI registry has "_" where the version has "+"; both are found. A ref that the upstream has to
// be asked about is an *UnpinnedError.
func (c Content) Select(s Selector) (Selected, error) {
	if s.IsOfArtifacts() {
		return c.resolveArtifact(s)
	}
	name := s.Value
	switch s.Kind {
	case SelectCommit:
		return Selected{Commit: s.Value}, nil
	case SelectSemver:
		return c.resolveRange(s)
	case SelectBranch:
		name = BranchPrefix + s.Value
	case SelectTag:
		name = TagPrefix + s.Value
	case SelectName:
	default:
		name = "HEAD"
	}
	if name == "HEAD" {
		return c.resolveHead(s)
	}
	ref, ok := c.Refs.Get(name)
	if !ok {
		return Selected{}, &RefError{Selector: s, Close: c.Refs.closeTo(name)}
	}
	return ref.deliver(s)
}

// Changed returns the names of the refs that deliver something else in newer, sorted. "HEAD" is one
// of them where it leads to another commit.
func (c Content) Changed(newer Content) []string {
	changed := c.Refs.Changed(newer.Refs)
	before, _ := c.Resolve(Selector{}) // none is a value too
	after, _ := newer.Resolve(Selector{})
	if before != after {
		changed = slices.Insert(changed, 0, "HEAD")
	}
	return changed
}

func (c Content) resolveHead(s Selector) (Selected, error) {
	if ref, ok := c.Refs.Get(c.DefaultBranch); ok {
		return ref.deliver(s)
	}
	if c.Head == "" {
		return Selected{}, &RefError{Selector: s, Close: c.Refs.Below(BranchPrefix, "", maxClose).Names(maxClose)}
	}
	if c.Policy != "" && !c.Refs.Delivers(c.Head) {
		return Selected{}, &RejectedError{Selector: s, Ref: "HEAD", Commit: c.Head, Why: "no ref leads to that is let through"}
	}
	return Selected{Commit: c.Head}, nil
}

// deliver returns what a selector gets from a ref.
func (r Ref) deliver(s Selector) (Selected, error) {
	commit := r.Delivered()
	switch {
	case r.IsUnpinned():
		return Selected{}, &UnpinnedError{Names: []string{r.Name}}
	case commit != "":
		return Selected{Commit: commit, Version: s.version(r)}, nil
	case r.Held != "":
		return Selected{}, &RejectedError{Selector: s, Ref: r.Name, Commit: r.Commit, Why: r.Held, Excluded: r.Held == ExcludedBranch}
	default:
		return Selected{}, &RefError{Selector: s, NoCommit: true}
	}
}

// maxVersion bounds the name of a tag that is shown as a version. Tags of releases are shorter.
const maxVersion = 256

// version returns the version that a ref is, within the selector's prefix. A ref that is not a tag
// has none: "".
func (s Selector) version(r Ref) string {
	name, isTag := strings.CutPrefix(r.Name, cmp.Or(s.Within, TagPrefix))
	if !isTag || len(name) > maxVersion || !utf8.ValidString(name) {
		return ""
	}
	return name
}

// CheckRange returns an error unless text is a range of versions.
func CheckRange(text string) error {
	if strings.TrimSpace(text) == "" {
		return errors.New("parse range: it is empty")
	}
	if _, err := semver.NewConstraint(text); err != nil {
		return fmt.Errorf("parse range: %w", err)
	}
	return nil
}

// release is a tag that is a version.
type release struct {
	ref     Ref
	version *semver.Version
}

func compareReleases(a, b release) int { return a.version.Compare(b.version) }

// parseRelease accepts tags with three numbers only. A looser rule would take dates and build
// numbers for the highest version of all.
func parseRelease(s Selector, ref Ref) (release, bool) {
	text := strings.TrimPrefix(s.short(ref.Name), "v")
	if s.IsOfArtifacts() {
		text = strings.Replace(text, tagPlus, "+", 1)
	}
	version, err := semver.StrictNewVersion(text)
	return release{ref: ref, version: version}, err == nil && (ref.Commit != "" || ref.IsUnpinned())
}

// releases returns the tags that are versions within the selector's prefix, by name.
func (c Content) releases(s Selector) []release {
	var found []release
	for _, ref := range c.Refs.Below(cmp.Or(s.Within, TagPrefix), "", len(c.Refs)) {
		if v, ok := parseRelease(s, ref); ok {
			found = append(found, v)
		}
	}
	return found
}

func (c Content) resolveRange(s Selector) (Selected, error) {
	within, err := semver.NewConstraint(s.Value)
	if err != nil {
		return Selected{}, fmt.Errorf("parse range %q: %w", s.Value, err)
	}
	all := c.releases(s)
	if best, ok := bestOf(all, within.Check); ok {
		return best.deliver(s)
	}
	return Selected{}, &RefError{Selector: s, Close: highest(all)}
}

// bestOf returns the ref of the highest version that a check accepts: the highest that delivers
// something, if any does.
func bestOf(all []release, accepts func(*semver.Version) bool) (Ref, bool) {
	var best, held release // held is the best among the refs that deliver nothing
	for _, v := range all {
		most := &best
		if v.ref.Delivered() == "" && !v.ref.IsUnpinned() {
			most = &held
		}
		if accepts(v.version) && (most.version == nil || compareReleases(v, *most) >= 0) {
			*most = v
		}
	}
	if best.version == nil {
		best = held
	}
	return best.ref, best.version != nil
}

// highest returns the names of the highest versions, the highest first.
func highest(all []release) []string {
	slices.SortStableFunc(all, func(a, b release) int { return compareReleases(b, a) })
	var refs Refs
	for _, v := range all {
		refs = append(refs, v.ref)
	}
	return refs.Names(maxClose)
}

// RefError means that a selector selects nothing. It matches [ErrRefNotFound].
type RefError struct {
	Selector Selector
	// Close are full names of refs that may have been meant, the likeliest first; at most three.
	Close []string
	// NoCommit: the ref exists, but leads to something else than a commit.
	NoCommit bool
	// NoBranches: a branch was selected of an artifact repository, which has none.
	NoBranches bool
	// Ambiguous: several digests begin with the digits that were given.
	Ambiguous bool
}

// Error implements error.
func (e *RefError) Error() string { return fmt.Sprintf("%v: %s", ErrRefNotFound, e.Selector) }

// Is makes errors.Is(err, ErrRefNotFound) true.
func (e *RefError) Is(target error) bool { return target == ErrRefNotFound }

// RejectedError means that a selector selects a commit which is mirrored, but held back by the
// repository's verification.
type RejectedError struct {
	Selector Selector
	Ref      string // full name; empty for a commit that was named by its id
	Commit   string
	Why      string // a phrase that follows the commit
	// Excluded: the policy accepts no ref of this kind.
	Excluded bool
}

// Error implements error.
func (e *RejectedError) Error() string {
	return fmt.Sprintf("%s leads to %s, which %s", e.Selector, e.Commit, e.Why)
}
