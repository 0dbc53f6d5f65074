// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"slices"
	"strings"

	"github.com/leatdev/leat/internal/syncpolicy"
)

// Wish is what an object's annotations say about its deletion.
type Wish int

// The wishes.
const (
	NoWish Wish = iota
	// Keep means that the object is never to be deleted.
	Keep
	// Permit means that it may be deleted although its kind is protected.
	Permit
)

// The annotations that say whether an object may be deleted: Leat's own, "disabled" or "enabled", and in the manner of Argo CD;
// and those by which other tools are told to keep it.
const (
	leatPrune   = "leat.dev/prune"
	leatOptions = "leat.dev/sync-options"
	helmPolicy  = "helm.sh/resource-policy"
	argoOptions = "argocd.argoproj.io/sync-options"
	fluxPrune   = "kustomize.toolkit.fluxcd.io/prune"
)

// WishOf reads the wish from annotations. One that wants the object kept outweighs one that does not.
func WishOf(annotations map[string]string) Wish {
	switch {
	case says(annotations[leatPrune], "disabled"), says(annotations[fluxPrune], "disabled"), says(annotations[helmPolicy], "keep"),
		slices.ContainsFunc(strings.Split(annotations[argoOptions]+","+annotations[leatOptions], ","), keeps):
		return Keep
	case says(annotations[leatPrune], "enabled"):
		return Permit
	default:
		return NoWish
	}
}

// And is the wish of two that speak for the same object.
func (w Wish) And(other Wish) Wish {
	switch {
	case w == Keep || other == Keep:
		return Keep
	default:
		return max(w, other)
	}
}

func says(value, word string) bool {
	return strings.EqualFold(strings.TrimSpace(value), word)
}

// keeps tells options that keep an object from being deleted. Nobody is asked about a single object, so one that wants a
// confirmation stays.
func keeps(option string) bool {
	name, value, _ := strings.Cut(option, "=")
	return (says(name, "Prune") || says(name, "Delete")) && (says(value, "false") || says(value, "confirm"))
}

// Deletable tells whether an object may be deleted, given the wish of its annotations and what its service's owner allows.
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

// The kinds whose deletion takes away more than the object: a Namespace takes everything in it, a CustomResourceDefinition
// all its objects, a PersistentVolumeClaim its data. They are deleted only where somebody has allowed it.
var (
	namespaceKind  = Key{Kind: "Namespace"}
	definitionKind = Key{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}
	claimKind      = Key{Kind: "PersistentVolumeClaim"}
)

// Precious tells kinds whose deletion takes away more than the object.
func Precious(k Key) bool {
	return k.Contains() || Key{Group: k.Group, Kind: k.Kind} == claimKind
}

// Contains tells kinds whose objects hold others, which would go with them.
func (k Key) Contains() bool {
	kind := Key{Group: k.Group, Kind: k.Kind}
	return kind == namespaceKind || kind == definitionKind
}
