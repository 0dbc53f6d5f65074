// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"slices"
	"strings"

	"github.com/leatdev/leat/internal/contract/syncpolicy"
)

// Wish is the request of an object's annotations about its deletion.
type Wish int

// The wishes.
const (
	NoWish Wish = iota
	// Keep means that the object must never be deleted.
	Keep
	// Permit means that the object may be deleted although its kind is protected.
	Permit
)

// The annotations that decide whether an object may be deleted: Leat's own, with the values
// "disabled" and "enabled" or with Argo CD's, and annotations that ask other tools to keep it.
const (
	leatPrune   = "leat.dev/prune"
	leatOptions = "leat.dev/sync-options"
	helmPolicy  = "helm.sh/resource-policy"
	argoOptions = "argocd.argoproj.io/sync-options"
	fluxPrune   = "kustomize.toolkit.fluxcd.io/prune"
)

// WishOf returns the wish of annotations. A wish to keep the object outweighs the others.
func WishOf(annotations map[string]string) Wish {
	switch {
	case isWord(annotations[leatPrune], "disabled"), isWord(annotations[fluxPrune], "disabled"), isWord(annotations[helmPolicy], "keep"),
		slices.ContainsFunc(strings.Split(annotations[argoOptions]+","+annotations[leatOptions], ","), isKeepOption):
		return Keep
	case isWord(annotations[leatPrune], "enabled"):
		return Permit
	default:
		return NoWish
	}
}

// And combines two wishes for the same object.
func (w Wish) And(other Wish) Wish {
	switch {
	case w == Keep || other == Keep:
		return Keep
	default:
		return max(w, other)
	}
}

func isWord(value, word string) bool {
	return strings.EqualFold(strings.TrimSpace(value), word)
}

// isKeepOption reports whether an option keeps an object from being deleted. People are not asked
// about single objects, so an option that demands a confirmation counts, too.
func isKeepOption(option string) bool {
	name, value, _ := strings.Cut(option, "=")
	return (isWord(name, "Prune") || isWord(name, "Delete")) && (isWord(value, "false") || isWord(value, "confirm"))
}

// Deletable reports whether an object may be deleted, given the wish of its annotations and what
// its service's policy allows.
func Deletable(k Key, wish Wish, allowed syncpolicy.Deletion) bool {
	if wish != NoWish {
		return wish == Permit
	}
	switch (Key{Group: k.Group, Kind: k.Kind}) {
	case namespaceKind:
		return allowed.Namespaces
	case definitionKind:
		return allowed.Definitions
	case claimKind:
		return allowed.VolumeClaims
	default:
		return true
	}
}

// The kinds whose deletion removes more than the object: a Namespace takes everything in it, a
// CustomResourceDefinition all its objects, a PersistentVolumeClaim its data. They are deleted only
// if the service's policy or an annotation allows it.
var (
	namespaceKind  = Key{Kind: "Namespace"}
	definitionKind = Key{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}
	claimKind      = Key{Kind: "PersistentVolumeClaim"}
)

// IsPrecious reports whether a deletion in the kind removes more than the object.
func IsPrecious(k Key) bool {
	return k.IsContainer() || Key{Group: k.Group, Kind: k.Kind} == claimKind
}

// IsContainer reports whether objects of the kind contain others, which would be deleted with them.
func (k Key) IsContainer() bool {
	kind := Key{Group: k.Group, Kind: k.Kind}
	return kind == namespaceKind || kind == definitionKind
}
