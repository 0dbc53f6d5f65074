// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"errors"
	"fmt"
	"slices"
	"strings"

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

// Selector names a commit of a repository. The zero Selector is HEAD.
type Selector struct {
	Kind  SelectorKind
	Value string // empty for SelectHead
}

// String names the selector in messages.
func (s Selector) String() string {
	switch s.Kind {
	case SelectBranch:
		return "branch " + s.Value
	case SelectTag:
		return "tag " + s.Value
	case SelectCommit:
		return "commit " + s.Value
	case SelectName:
		return s.Value
	case SelectSemver:
		return "tag in the range " + s.Value
	default:
		return "HEAD"
	}
}

// Resolve returns the commit that s selects, from memory. The error is a *RefError where there is
// none, and a *RejectedError where the repository's verification holds it back. A commit id is
// returned as it is: only the mirror's objects show whether it exists, and a look at them whether
// it is delivered. A range selects the highest version among the tags within it; of several tags
// for one version it selects the last by name.
func (c Content) Resolve(s Selector) (string, error) {
	name := s.Value
	switch s.Kind {
	case SelectCommit:
		return s.Value, nil
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
		return "", &RefError{Selector: s, Close: c.Refs.closeTo(name)}
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

func (c Content) resolveHead(s Selector) (string, error) {
	if ref, ok := c.Refs.Get(c.DefaultBranch); ok {
		return ref.deliver(s)
	}
	if c.Head == "" {
		return "", &RefError{Selector: s, Close: c.Refs.Below(BranchPrefix, "", maxClose).Names(maxClose)}
	}
	if c.Policy != "" && !c.Refs.Delivers(c.Head) {
		return "", &RejectedError{Selector: s, Ref: "HEAD", Commit: c.Head, Why: "no ref leads to that is let through"}
	}
	return c.Head, nil
}

// deliver returns the commit that a selector gets from a ref.
func (r Ref) deliver(s Selector) (string, error) {
	commit := r.Delivered()
	switch {
	case commit != "":
		return commit, nil
	case r.Held != "":
		return "", &RejectedError{Selector: s, Ref: r.Name, Commit: r.Commit, Why: r.Held, Excluded: r.Held == ExcludedBranch}
	default:
		return "", &RefError{Selector: s, NoCommit: true}
	}
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
func parseRelease(ref Ref) (release, bool) {
	text := strings.TrimPrefix(strings.TrimPrefix(ref.Name, TagPrefix), "v")
	version, err := semver.StrictNewVersion(text)
	return release{ref: ref, version: version}, err == nil && ref.Commit != ""
}

// releases returns the tags that are versions, by name.
func (r Refs) releases() []release {
	var found []release
	for _, ref := range r.Below(TagPrefix, "", len(r)) {
		if v, ok := parseRelease(ref); ok {
			found = append(found, v)
		}
	}
	return found
}

func (c Content) resolveRange(s Selector) (string, error) {
	within, err := semver.NewConstraint(s.Value)
	if err != nil {
		return "", fmt.Errorf("parse range %q: %w", s.Value, err)
	}
	all := c.Refs.releases()
	var best, held release // held is the best among those that deliver nothing
	for _, v := range all {
		most := &best
		if v.ref.Delivered() == "" {
			most = &held
		}
		if within.Check(v.version) && (most.version == nil || compareReleases(v, *most) >= 0) {
			*most = v
		}
	}
	switch {
	case best.version != nil:
		return best.ref.deliver(s)
	case held.version != nil:
		return held.ref.deliver(s)
	}
	return "", &RefError{Selector: s, Close: highest(all)}
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
