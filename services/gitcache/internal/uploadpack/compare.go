// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uploadpack

import (
	"context"
	"fmt"

	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// maxHaves bounds the commits that a request names as known.
const maxHaves = 2048

// Objects is the port of a comparison to a mirror. A reader of package history implements it.
type Objects interface {
	// Kind returns an object's kind, "commit" for one, and "" for an object that is not there.
	Kind(id string) (string, error)
	// Ancestors calls add with the commits and their history, newest first, until add returns false.
	// The implementation decides how much of the history. A commit that is not there is left out:
	// one have less costs bytes, not correctness.
	Ancestors(ctx context.Context, commits []string, add func(id string) bool) error
}

// Wants returns the offered objects that the mirror, whose refs these are, does not have.
func (o *Offer) Wants(have mirror.Refs, objects Objects) ([]string, error) {
	seen := map[string]bool{}
	for _, ref := range have {
		seen[ref.Object] = true
	}
	var wants []string
	for _, id := range o.objects() {
		if seen[id] {
			continue
		}
		seen[id] = true
		kind, err := objects.Kind(id)
		if err != nil {
			return nil, err
		}
		if kind == "" {
			wants = append(wants, id)
		}
	}
	return wants, nil
}

// Haves returns commits of the mirror that the upstream is likely to have too: first where moved
// refs were, with some history, then other tips. Their number is bounded by maxHaves: what both
// sides have is found near the tips, and a commit too few costs bytes only.
func (o *Offer) Haves(ctx context.Context, have mirror.Refs, objects Objects) ([]string, error) {
	seen := map[string]bool{}
	var haves []string
	add := func(id string) bool {
		if id != "" && !seen[id] && len(haves) < maxHaves {
			seen[id] = true
			haves = append(haves, id)
		}
		return len(haves) < maxHaves
	}
	var moved []string
	for _, name := range have.Changed(o.Refs) {
		if ref, ok := have.Get(name); ok && ref.Commit != "" {
			moved = append(moved, ref.Commit)
		}
	}
	if len(moved) > 0 {
		if err := objects.Ancestors(ctx, moved, add); err != nil {
			return nil, fmt.Errorf("find what both sides have: %w", err)
		}
	}
	for _, ref := range have {
		if !add(ref.Commit) {
			break
		}
	}
	return haves, nil
}

// Settle makes sure that every offered object has arrived. It empties the commit of a tag that
// leads to something else, such as a tree or a blob: that is valid, but there is nothing to deliver
// from it. Refs that did not move keep the answer of the fetch that brought them.
func (o *Offer) Settle(have mirror.Refs, objects Objects) error {
	kept := make([]mirror.Ref, 0, len(o.Refs))
	for _, ref := range o.Refs {
		if old, ok := have.Get(ref.Name); ok && old.Object == ref.Object {
			kept = append(kept, old)
			continue
		}
		object, err := objects.Kind(ref.Object)
		if err != nil {
			return err
		}
		if object == "" {
			return fmt.Errorf("%w: the pack lacks %s for %s", ErrBroken, ref.Object, ref.Name)
		}
		commit, err := objects.Kind(ref.Commit)
		if err != nil {
			return err
		}
		if commit != "commit" {
			ref.Commit = ""
		}
		kept = append(kept, ref)
	}
	o.Refs = kept
	return nil
}
