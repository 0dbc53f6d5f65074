// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"slices"
	"strings"
)

// Prefixes of full reference names.
const (
	BranchPrefix = "refs/heads/"
	TagPrefix    = "refs/tags/"
	// DigestPrefix begins refs which an OCI repository has for digests that callers named, because no
	// tag leads to them: the result of a signature of the digest is known by such a ref. There are
	// none where no signature is required.
	DigestPrefix = "refs/digests/"
)

// Ref is a named commit.
type Ref struct {
	// Name is the full name, such as "refs/heads/main".
	Name string `json:"name"`
	// Object is the id that the upstream advertises for the name: the commit, or an annotated tag's
	// own object.
	Object string `json:"object"`
	// Commit is the commit that Object leads to once tags are peeled; empty for a tag of something
	// that is not a commit.
	Commit string `json:"commit"`

	// Held is why the repository's policy rejects Object, as a phrase that follows the commit.
	// Empty: it accepts it.
	Held string `json:"held,omitempty"`
	// GoodObject and GoodCommit are delivered instead: the last that the policy accepted. Empty: it
	// accepted none.
	GoodObject string `json:"good_object,omitempty"`
	GoodCommit string `json:"good_commit,omitempty"`
}

// Refs is a list of refs in strictly rising order of their names. It is never changed once made.
type Refs []Ref

// NewRefs returns refs in order; of several with one name the last counts.
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

// Get returns the ref of that full name, or false where there is none.
func (r Refs) Get(name string) (Ref, bool) {
	i, found := r.search(name)
	if !found {
		return Ref{}, false
	}
	return r[i], true
}

// search returns where the ref of that full name is, or would be.
func (r Refs) search(name string) (int, bool) {
	return slices.BinarySearchFunc(r, name, func(ref Ref, name string) int { return strings.Compare(ref.Name, name) })
}

// Names returns the names of the refs, the first of them alone where there are more than limit.
func (r Refs) Names(limit int) []string {
	var names []string
	for _, ref := range r[:min(len(r), limit)] {
		names = append(names, ref.Name)
	}
	return names
}

// Below returns at most limit refs whose names begin with prefix and come after the name after.
func (r Refs) Below(prefix, after string, limit int) Refs {
	start, found := r.search(max(prefix, after))
	if found && after != "" && r[start].Name == after {
		start++
	}
	end := start
	for end < len(r) && end-start < limit && strings.HasPrefix(r[end].Name, prefix) {
		end++
	}
	return r[start:end:end]
}

// Changed returns the names of the refs that deliver something else in newer, sorted: they moved,
// appeared or vanished.
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

// ExcludedBranch is why a branch is held back permanently where only tags are delivered. Nothing is
// wrong with it.
const ExcludedBranch = "belongs to a branch, while only signed tags are delivered"

const (
	// NotVerified is why an artifact is held back as long as the upstream was not asked for its
	// signature, which happens when it is first resolved. Nothing is wrong with it.
	NotVerified = "has not been verified yet"
	// Republished is why an immutable repository holds back a version or tag.
	Republished = "was published again with other content, while the repository is immutable"
)

// IsUnpinned reports whether the upstream has to be asked before the ref delivers anything: it is
// known by name alone, or its signature was not checked.
func (r Ref) IsUnpinned() bool {
	if r.Held == "" {
		return r.Object == "" && r.Commit == ""
	}
	return r.Held == NotVerified && r.GoodCommit == ""
}

// Delivered returns the commit that the ref delivers: its own, or the last one that the policy
// accepted. Empty: none.
func (r Ref) Delivered() string {
	if r.Held != "" {
		return r.GoodCommit
	}
	return r.Commit
}

// shown returns the ref as its readers see it.
func (r Ref) shown() Ref {
	if r.Held == "" || r.GoodCommit == "" {
		return r
	}
	return Ref{Name: r.Name, Object: r.GoodObject, Commit: r.GoodCommit}
}

// Delivers reports whether any ref delivers the commit.
func (r Refs) Delivers(commit string) bool {
	return slices.ContainsFunc(r, func(ref Ref) bool { return ref.Delivered() == commit })
}
