// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uploadpack

import (
	"slices"
	"strings"

	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// Offer is the listing of an upstream: its branches, tags and HEAD. An empty repository is an offer
// without refs.
type Offer struct {
	Refs          mirror.Refs
	Head          string // the commit of HEAD; empty: there is none
	DefaultBranch string
	// Blobless reports whether a request can leave out the content of files. Only servers of version
	// 2 can.
	Blobless bool
}

// Request asks for a pack in one round.
type Request struct {
	// Wants are the objects to send, with all that they lead to.
	Wants []string
	// Haves are commits that need not be sent again.
	Haves []string
	// Thin allows deltas against objects that the pack does not hold. A pack on disk must not have
	// them.
	Thin bool
	// Blobless leaves out the content of files, except for the blobs that Wants name. Only an
	// [Offer] with Blobless allows it.
	Blobless bool
}

// isMirrored reports whether a ref is a branch or a tag with a name that cannot do harm. Names
// become lines of files and words of commands, so a name that Git itself would refuse (see
// git-check-ref-format), or that begins like an option, is not mirrored. It is called for every ref
// that an upstream lists.
func isMirrored(name string) bool {
	short, isBranch := strings.CutPrefix(name, mirror.BranchPrefix)
	if !isBranch {
		var isTag bool
		if short, isTag = strings.CutPrefix(name, mirror.TagPrefix); !isTag {
			return false
		}
	}
	if strings.HasPrefix(short, "-") || strings.HasSuffix(short, ".") || strings.Contains(short, "..") || strings.Contains(short, "@{") {
		return false
	}
	for i := range len(short) {
		switch c := short[i]; c {
		case '~', '^', ':', '?', '*', '[', '\\', 0x7f:
			return false
		default:
			if c <= ' ' {
				return false
			}
		}
	}
	for part := range strings.SplitSeq(short, "/") {
		if part == "" || part == "@" || part[0] == '.' || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	return true
}

// add adds a listed ref if mirrors hold its kind. Its order, and a name that comes twice, are
// settled by complete.
func (o *Offer) add(ref mirror.Ref) {
	switch {
	case ref.Name == "HEAD":
		o.Head = ref.Object
	case isMirrored(ref.Name):
		o.Refs = append(o.Refs, ref)
	}
}

// pointHead records the branch that the upstream names as HEAD's. The first one counts.
func (o *Offer) pointHead(branch string) {
	if o.DefaultBranch == "" && isMirrored(branch) {
		o.DefaultBranch = branch
	}
}

// complete ends the listing. Without a named default branch it guesses one.
func (o *Offer) complete() *Offer {
	o.Refs = mirror.NewRefs(o.Refs)
	switch {
	case o.Head == "":
		o.DefaultBranch = ""
	case o.DefaultBranch == "":
		o.DefaultBranch = o.guessDefaultBranch()
	}
	return o
}

// guessDefaultBranch returns a branch at the commit of HEAD, or "". Servers from before 2013 do not
// name it.
func (o *Offer) guessDefaultBranch() string {
	for _, name := range []string{"refs/heads/main", "refs/heads/master"} {
		if ref, ok := o.Refs.Get(name); ok && ref.Object == o.Head {
			return name
		}
	}
	i := slices.IndexFunc(o.Refs, func(ref mirror.Ref) bool {
		return ref.Object == o.Head && strings.HasPrefix(ref.Name, mirror.BranchPrefix)
	})
	if i < 0 {
		return ""
	}
	return o.Refs[i].Name
}

// Content returns the content of a mirror that holds the offer.
func (o *Offer) Content() mirror.Content {
	return mirror.Content{Refs: o.Refs, Head: o.Head, DefaultBranch: o.DefaultBranch}
}

// Equals reports whether a mirror holds exactly the offer. It does not compare commits: they follow
// from the objects.
func (o *Offer) Equals(have mirror.Content) bool {
	return o.Head == have.Head && o.DefaultBranch == have.DefaultBranch &&
		slices.EqualFunc(o.Refs, have.Refs, func(a, b mirror.Ref) bool { return a.Name == b.Name && a.Object == b.Object })
}

// objects returns the ids of all that is offered, repetitions included.
func (o *Offer) objects() []string {
	ids := make([]string, 0, len(o.Refs)+1)
	for _, ref := range o.Refs {
		ids = append(ids, ref.Object)
	}
	if o.Head != "" {
		ids = append(ids, o.Head)
	}
	return ids
}
