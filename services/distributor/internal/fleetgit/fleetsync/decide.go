// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleetsync

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// digestDigits is how much of a SHA-256 identifies removals, in hexadecimal digits.
const digestDigits = 16

// removals are the objects that a source manages and whose documents are gone, judged.
type removals struct {
	// due are removed, in this order.
	due []catalog.Key
	// held wait, and kept stay, for the reasons beside them.
	held, kept       []catalog.Key
	heldWhy, keptWhy string
	// digest identifies what a person may confirm; empty: nothing.
	digest string
}

// judge decides about the objects that a source manages and desired does not hold. isPartial means
// that documents of the commit cannot be read.
func judge(source *catalog.FleetSource, managed []catalog.Key, desired map[catalog.Key]struct{}, isPartial bool, confirmed string) removals {
	r := removals{keptWhy: "a fleet source never removes itself, its repository and the project default"}
	standing := []catalog.Key{source.Key(), {Kind: catalog.KindRepository, Name: source.Spec.Source.Repository}, catalog.DefaultProject().Key()}
	var gone []catalog.Key
	removable := 0
	for _, key := range managed {
		isStanding := slices.Contains(standing, key)
		if !isStanding {
			removable++
		}
		if _, ok := desired[key]; ok {
			continue
		}
		if isStanding {
			r.kept = append(r.kept, key)
			continue
		}
		gone = append(gone, key)
	}
	gone = inOrder(gone)
	slices.Reverse(gone)
	if source.Spec.KeepsRemoved {
		r.kept, r.keptWhy = append(r.kept, gone...), "the fleet source does not prune"
		return r
	}
	if isPartial && len(gone) > 0 {
		r.held, r.heldWhy = gone, "the document is gone, or in a file that cannot be read; nothing is removed until all can be read"
		return r
	}
	if digest := digestOf(gone); isTooMany(len(gone), removable, source.Spec.MostRemovals()) && digest != confirmed {
		r.held, r.digest = gone, digest
		r.heldWhy = fmt.Sprintf("the commit removes %d of %d objects, which needs a confirmation", len(gone), removable)
		return r
	}
	r.due = gone
	return r
}

// isTooMany reports whether removals need a confirmation: more than the limit, or more than half of what
// can be removed.
func isTooMany(gone, removable, limit int) bool { return gone > limit || 2*gone > removable }

// digestOf identifies removals.
func digestOf(keys []catalog.Key) string {
	if len(keys) == 0 {
		return ""
	}
	hash := sha256.New()
	for _, key := range keys {
		_, _ = fmt.Fprintf(hash, "%s %s\n", key.Kind, key.Name) // never fails
	}
	return hex.EncodeToString(hash.Sum(nil))[:digestDigits]
}

// inOrder returns keys in an order in which an object follows the ones that it names.
func inOrder(keys []catalog.Key) []catalog.Key {
	sorted := slices.Clone(keys)
	slices.SortStableFunc(sorted, func(a, b catalog.Key) int { return cmp.Or(rank(a.Kind)-rank(b.Kind), cmp.Compare(a.Name, b.Name)) })
	return sorted
}

func rank(kind catalog.Kind) int { return slices.Index(catalog.Kinds(), kind) }
