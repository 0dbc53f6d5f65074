// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// maxNamedRefs bounds the refs that the message of a problem describes.
const maxNamedRefs = 3

// The advice of problems, which follows the name of the held ref.
const (
	adviceGit       = " Sign and push, or add the signer's key to the repository's verification."
	adviceArtifacts = " Sign it (cosign sign --key, or helm package --sign for a chart), or add the signer's key to the repository's verification."
	adviceImmutable = " Publish the content as another version, or set the repository's immutable to false to follow."
)

// Problem returns the problem that a mirror has because refs of it are held back, and the names of
// those refs. Both are nil where no ref is. An existing problem keeps its beginning. Branches are
// no problem where the policy is for tags alone, nor are artifacts that were not resolved yet.
// Where all refs that are held back are so because the repository is immutable, that is the
// problem.
func (v *Verifier) Problem(c mirror.Content, before *mirror.Problem, now time.Time) (*mirror.Problem, []string) {
	var held, unsigned mirror.Refs
	for _, ref := range c.Refs {
		if ref.Held == "" || ref.Held == mirror.ExcludedBranch || ref.Held == mirror.NotVerified {
			continue
		}
		held = append(held, ref)
		if ref.Held != mirror.Republished {
			unsigned = append(unsigned, ref)
		}
	}
	if len(held) == 0 {
		return nil, nil
	}
	p := &mirror.Problem{Reason: reason.UpstreamSignatureRejected, Since: now}
	switch {
	case len(unsigned) == 0:
		p.Reason, p.Message = reason.UpstreamRepublished, message(c, held)+adviceImmutable
	case v.isArtifacts:
		p.Message = message(c, unsigned) + adviceArtifacts
	default:
		p.Message = message(c, unsigned) + adviceGit
	}
	if before != nil && before.Reason == p.Reason {
		p.Since = before.Since
	}
	slices.SortStableFunc(held, func(a, b mirror.Ref) int { return cmp.Compare(urgency(c, a), urgency(c, b)) })
	return p, held.Names(mirror.MaxChangedRefs)
}

// urgency orders refs that are held back: the default branch, refs that delivered something before,
// the others.
func urgency(c mirror.Content, ref mirror.Ref) int {
	switch {
	case ref.Name == c.DefaultBranch:
		return 0
	case ref.GoodCommit != "":
		return 1
	default:
		return 2
	}
}

// message describes the most urgent of the refs, at least one.
func message(c mirror.Content, held mirror.Refs) string {
	held = slices.Clone(held)
	slices.SortStableFunc(held, func(a, b mirror.Ref) int { return cmp.Compare(urgency(c, a), urgency(c, b)) })
	var described []string
	for _, ref := range held[:min(len(held), maxNamedRefs)] {
		instead := "nothing is delivered"
		if ref.GoodCommit != "" {
			instead = ref.GoodCommit + " is delivered instead"
		}
		described = append(described, fmt.Sprintf("%s leads to %s, which %s; %s", ref.Name, ref.Commit, ref.Held, instead))
	}
	count := "1 ref is held back"
	if len(held) > 1 {
		count = fmt.Sprintf("%d refs are held back", len(held))
	}
	return fmt.Sprintf("%s: %s.", count, strings.Join(described, "; "))
}
