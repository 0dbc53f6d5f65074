// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"fmt"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"

	"github.com/leatdev/leat/internal/contract/reason"
)

const (
	// tagPlus is used in the tags of OCI registries for the "+" of a version, which they do not allow.
	tagPlus = "_"
	// latestTag is HEAD of an OCI repository without versions.
	latestTag = TagPrefix + "latest"
	// digestDigits are the digits of a SHA-256 digest.
	digestDigits = 64
)

// UnpinnedError means that a selector selects refs that the upstream has to be asked about first: for
// the digest, for a signature, or for both. See [Pinner].
type UnpinnedError struct {
	Names []string // full names, at least one; with [DigestPrefix] a digest that no ref leads to
}

// Error implements error.
func (e *UnpinnedError) Error() string {
	return fmt.Sprintf("%s has to be looked up first", strings.Join(e.Names, ", "))
}

// ArtifactError means that one artifact cannot be delivered. It is not a failure of the upstream,
// and does not concern other artifacts.
type ArtifactError struct {
	// Reason is ContentUnsupported, BundleTooLarge or RefNotFound.
	Reason reason.Reason
	// Message is a sentence for a person with advice.
	Message string
	// Path is the path of the entry at fault; empty if no single one is.
	Path string
}

// Error implements error.
func (e *ArtifactError) Error() string { return fmt.Sprintf("%s: %s", e.Reason, e.Message) }

// Unpinned returns the ones among the names that the upstream has to be asked about: refs that are
// unpinned and, where signatures are required, digests that no ref leads to yet.
func (c Content) Unpinned(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		ref, ok := c.Refs.Get(name)
		if ok {
			return !ref.IsUnpinned()
		}
		digest, isDigest := strings.CutPrefix(name, DigestPrefix)
		return !isDigest || c.Policy == "" || !isWholeDigest(digest)
	})
}

// isWholeDigest reports whether text has the digits of a SHA-256 digest.
func isWholeDigest(text string) bool {
	return len(text) == digestDigits && strings.Trim(text, "0123456789abcdef") == ""
}

// resolveArtifact is Resolve for Helm and OCI repositories.
func (c Content) resolveArtifact(s Selector) (Selected, error) {
	switch s.Kind {
	case SelectCommit:
		return c.resolveDigest(s)
	case SelectSemver:
		return c.resolveRange(s)
	case SelectHead:
		return c.resolveHighest(s)
	case SelectBranch:
		return Selected{}, &RefError{Selector: s, NoBranches: true}
	case SelectName:
		if s.Value == "HEAD" {
			return c.resolveHighest(s)
		}
		if !strings.HasPrefix(s.Value, s.Within) {
			return Selected{}, &RefError{Selector: s, Close: c.closeVersions(s)}
		}
	case SelectTag:
	}
	name := s.Within + s.short(s.Value)
	ref, ok := c.Refs.Get(name)
	if !ok {
		ref, ok = c.Refs.Get(strings.ReplaceAll(name, "+", tagPlus))
	}
	if !ok {
		return Selected{}, &RefError{Selector: s, Close: c.closeVersions(s)}
	}
	return ref.deliver(s)
}

// resolveDigest returns a digest as it is in an OCI repository: only the registry shows whether it
// exists. In a Helm repository a version of the chart has to have it. Leading digits have to belong
// to one digest that a ref delivers. Where signatures are required, a ref has to deliver the digest;
// one that no ref leads to is an *UnpinnedError.
func (c Content) resolveDigest(s Selector) (Selected, error) {
	isWholeArtifact := s.Within == TagPrefix && len(s.Value) == digestDigits
	if isWholeArtifact && c.Policy == "" {
		return Selected{Commit: s.Value}, nil
	}
	refs := c.Refs.Below(s.Within, "", len(c.Refs))
	if s.Within == TagPrefix {
		refs = slices.Concat(refs, c.Refs.Below(DigestPrefix, "", len(c.Refs)))
	}
	var at Ref
	found := ""
	for _, ref := range refs {
		for _, id := range ref.digests(c.Policy != "") {
			switch {
			case id == "" || !strings.HasPrefix(id, s.Value):
				continue
			case found != "" && found != id:
				return Selected{}, &RefError{Selector: s, Close: nil, Ambiguous: true}
			case found == "", ref.Delivered() == id, ref.IsUnpinned() && at.Delivered() != id:
				at = ref
			}
			found = id
		}
	}
	switch {
	case found == "" && isWholeArtifact:
		return Selected{}, &UnpinnedError{Names: []string{DigestPrefix + s.Value}}
	case found == "":
		return Selected{}, &RefError{Selector: s}
	case at.Delivered() == found:
		return Selected{Commit: found}, nil
	case at.Held == NotVerified:
		return Selected{}, &UnpinnedError{Names: []string{at.Name}}
	default:
		return Selected{}, &RejectedError{Selector: s, Commit: found, Why: at.Held}
	}
}

// digests returns the digests that a ref can be named by: what it delivers and, if asked for, what
// it leads to and is held back.
func (r Ref) digests(withHeld bool) []string {
	if withHeld && r.Held != "" {
		return []string{r.GoodCommit, r.Commit}
	}
	return []string{r.Delivered()}
}

// resolveHighest returns what HEAD is in an artifact repository.
func (c Content) resolveHighest(s Selector) (Selected, error) {
	all := c.releases(s)
	best, ok := bestOf(all, func(v *semver.Version) bool { return v.Prerelease() == "" })
	if ok {
		return best.deliver(s)
	}
	if latest, ok := c.Refs.Get(latestTag); ok && s.Within == TagPrefix {
		return latest.deliver(s)
	}
	return Selected{}, &RefError{Selector: s, Close: c.closeVersions(s)}
}

// closeVersions returns full names that may have been meant: misspelled ones, else the highest
// versions, else charts with a similar name.
func (c Content) closeVersions(s Selector) []string {
	own := c.Refs.Below(s.Within, "", maxCompared)
	if s.Value != "" && len(own) > 0 {
		if names := own.closeTo(s.Within + s.short(s.Value)); len(names) > 0 {
			return names
		}
	}
	if names := highest(c.releases(s)); len(names) > 0 {
		return names
	}
	if s.Within == TagPrefix {
		return own.Names(maxClose)
	}
	return c.closeCharts(strings.Trim(strings.TrimPrefix(s.Within, TagPrefix), "/"))
}

// closeCharts returns the highest versions of charts whose names are like name, one of each.
func (c Content) closeCharts(name string) []string {
	allowed := min(maxTypos, max(1, len(name)/lettersPerTypo))
	var names []string
	last, compared := "", 0
	for i := range c.Refs {
		chart, _, _ := strings.Cut(strings.TrimPrefix(c.Refs[i].Name, TagPrefix), "/")
		if chart == last {
			continue
		}
		last = chart
		if compared++; compared > maxCompared || len(names) == maxClose {
			break
		}
		isLike := max(len(chart), len(name))-min(len(chart), len(name)) <= allowed && distance(name, chart) <= allowed
		if !isLike && !strings.EqualFold(chart, name) {
			continue
		}
		if best := highest(c.releases(Selector{Within: ChartPrefix(chart)})); len(best) > 0 {
			names = append(names, best[0])
		}
	}
	return names
}
