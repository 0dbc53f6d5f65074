// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"maps"
	"slices"

	"github.com/leatdev/leat/internal/contract/accessrule"
)

// extraBindings is the attribute with the bindings that allowed a request.
const extraBindings = "leat.dev/bindings"

// Grant counts for requests that one of its rules chooses, in addition to what counts for all.
type Grant struct {
	// Binding names where it comes from.
	Binding string
	Groups  []string
	Rules   []accessrule.Rule
}

// For returns what counts for one request: as whom the cluster is to see it. ok is false when the
// request is not let through. Groups of a grant count for what its rules choose and for nothing
// else, however many other grants there are.
func (d Decision) For(q accessrule.Request) (effective Decision, ok bool) {
	if !d.Allowed {
		return Decision{}, false
	}
	effective = d
	effective.Grants, effective.Narrowed = nil, false
	chosen := slices.DeleteFunc(slices.Clone(d.Grants), func(g Grant) bool { return !accessrule.Choose(g.Rules, q) })
	if len(chosen) == 0 {
		return effective, !d.Narrowed || q.Open()
	}
	groups, bindings := slices.Clone(d.Groups), slices.Clone(d.Extra[extraBindings])
	for _, g := range chosen {
		groups = append(groups, g.Groups...)
		bindings = append(bindings, g.Binding)
	}
	effective.Groups = set(groups)
	effective.Extra = maps.Clone(d.Extra)
	if effective.Extra == nil {
		effective.Extra = map[string][]string{}
	}
	effective.Extra[extraBindings] = set(bindings)
	return effective, true
}

// Permission is a verb on a resource of the API group leat.dev.
type Permission struct{ Verb, Resource string }

// Has reports whether the person has a permission of the hub's own.
func (d Decision) Has(p Permission) bool { return d.Allowed && slices.Contains(d.Permissions, p) }

// ForCall returns the identity for a call that the permission allows: as whom the agent is to see
// the person. Their groups are the ones that count for all requests: rules have already counted
// where the permission was decided.
func (d Decision) ForCall(p Permission) (effective Decision, ok bool) {
	effective = d
	effective.Grants, effective.Narrowed = nil, false
	return effective, d.Has(p)
}

// Covers reports whether everything that the other decision gives is given by this one, too; both
// are for one request. Rights that were added since take nothing from a request that is running.
func (d Decision) Covers(other Decision) bool {
	if !d.Allowed || d.User != other.User || d.UID != other.UID || d.ClusterUID != other.ClusterUID || !within(other.Groups, d.Groups) {
		return false
	}
	for key, values := range other.Extra {
		if !within(values, d.Extra[key]) {
			return false
		}
	}
	return true
}

func within(some, all []string) bool {
	return !slices.ContainsFunc(some, func(s string) bool { return !slices.Contains(all, s) })
}

func set(items []string) []string { return slices.Compact(slices.Sorted(slices.Values(items))) }
