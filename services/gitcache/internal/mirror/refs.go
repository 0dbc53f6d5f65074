// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"slices"
	"strings"
	"time"
)

// Prefixes of full reference names.
const (
	BranchPrefix = "refs/heads/"
	TagPrefix    = "refs/tags/"
)

// Ref is a named commit.
type Ref struct {
	// Name is the full name, such as "refs/heads/main".
	Name string `json:"name"`
	// Object is what the upstream advertises for the name: the commit, or an annotated tag's own object.
	Object string `json:"object"`
	// Commit is what Object leads to once tags are peeled; empty for a tag of something that is no commit.
	Commit string `json:"commit"`

	// Held is why the repository's policy does not let Object through, a phrase that follows the commit. Empty: it does.
	Held string `json:"held,omitempty"`
	// GoodObject and GoodCommit are what is delivered instead: the last that was let through. Empty: nothing was.
	GoodObject string `json:"good_object,omitempty"`
	GoodCommit string `json:"good_commit,omitempty"`
}

// Refs is a list of refs that rises strictly by name. It is never changed once made.
type Refs []Ref

// NewRefs sorts refs; of several with one name the last counts.
func NewRefs(refs []Ref) Refs {
	sorted := slices.Clone(refs)
	slices.SortStableFunc(sorted, func(a, b Ref) int { return strings.Compare(a.Name, b.Name) })
	kept := sorted[:0]
	for _, ref := range sorted {
		if n := len(kept); n > 0 && kept[n-1].Name == ref.Name {
			kept[n-1] = ref
			continue
		}
		kept = append(kept, ref)
	}
	return kept
}

// Get returns the ref of that full name.
func (r Refs) Get(name string) (Ref, bool) {
	i, found := slices.BinarySearchFunc(r, name, func(ref Ref, name string) int { return strings.Compare(ref.Name, name) })
	if !found {
		return Ref{}, false
	}
	return r[i], true
}

// Below returns at most limit refs whose names begin with prefix and come after the name after.
func (r Refs) Below(prefix, after string, limit int) Refs {
	start, found := slices.BinarySearchFunc(r, max(prefix, after), func(ref Ref, name string) int {
		return strings.Compare(ref.Name, name)
	})
	if found && after != "" && r[start].Name == after {
		start++
	}
	end := start
	for end < len(r) && end-start < limit && strings.HasPrefix(r[end].Name, prefix) {
		end++
	}
	return r[start:end:end]
}

// Changed returns the names of the refs that differ between two lists, in what they deliver: moved, appeared or vanished;
// sorted.
func (r Refs) Changed(newer Refs) []string {
	var names []string
	i, j := 0, 0
	for i < len(r) || j < len(newer) {
		switch {
		case j == len(newer) || (i < len(r) && r[i].Name < newer[j].Name):
			names = append(names, r[i].Name)
			i++
		case i == len(r) || r[i].Name > newer[j].Name:
			names = append(names, newer[j].Name)
			j++
		default:
			if r[i].shown() != newer[j].shown() {
				names = append(names, r[i].Name)
			}
			i++
			j++
		}
	}
	return names
}

// Content is what a mirror holds as of its last complete fetch. The zero Content means that there is no mirror.
type Content struct {
	Refs Refs
	// Head is the commit of the upstream's HEAD; empty when it has none.
	Head string
	// DefaultBranch is the full name of the branch that HEAD points to; empty when the upstream does not tell.
	DefaultBranch string
	// FreshAt is when the mirror was last known to equal the upstream. Zero: there is no mirror.
	FreshAt time.Time
	// ChangedAt is when refs last moved.
	ChangedAt time.Time
	// Epoch is that of the lease under which the content was fetched.
	Epoch uint64
	// DiskBytes is the size of the mirror on disk, Packs the number of packs that it consists of.
	DiskBytes int64
	Packs     int
	// Partial: the mirror lacks the content of files that nobody needed yet.
	Partial bool
	// FilledAt is when content was last added to a partial mirror. Zero: it never was.
	FilledAt time.Time
	// Policy is the fingerprint of the verification by which the refs were judged. Empty: they were not, since there was none.
	Policy string
}

// Exists tells whether there is a mirror at all.
func (c Content) Exists() bool { return !c.FreshAt.IsZero() }

// SelectorKind tells how a [Selector] names a commit.
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

// Resolve returns the commit that s selects, from memory. The error is a *RefError where there is none, and a *RejectedError
// where there is one that nobody may have. A commit id is returned as it is: only the mirror's objects can tell whether it
// exists, and [Repository.CheckCommit] whether it is delivered. A range selects the highest version among the
// tags within it; of tags that say the same version the last by name.
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

// Changed returns the names of the refs that differ between two contents, sorted; "HEAD" is one of them when it leads to
// another commit.
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
		return "", &RefError{Selector: s, Close: c.Refs.first(BranchPrefix)}
	}
	if c.Policy != "" && !c.Refs.Delivers(c.Head) {
		return "", &RejectedError{Selector: s, Ref: "HEAD", Commit: c.Head, Why: "no ref leads to that is let through"}
	}
	return c.Head, nil
}

// newer tells whether c was seen at the upstream after other, or has had content added since.
func (c Content) Newer(other Content) bool {
	if c.Epoch != other.Epoch {
		return c.Epoch > other.Epoch
	}
	if !c.FreshAt.Equal(other.FreshAt) {
		return c.FreshAt.After(other.FreshAt)
	}
	return c.Filled() > other.Filled()
}

// filled is FilledAt as a number; zero: never.
func (c Content) Filled() int64 {
	if c.FilledAt.IsZero() {
		return 0
	}
	return c.FilledAt.UnixNano()
}
