// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package authz

import (
	"fmt"
	"slices"
	"strings"

	"github.com/leatdev/leat/internal/contract/accessrule"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// EscalationError means that a person would give rights that they do not hold.
type EscalationError struct {
	// Missing lists the rights that they do not hold, and where.
	Missing string
	// Limit describes the limit of the token that they use; empty: it has none.
	Limit string
}

// Error implements error.
func (e *EscalationError) Error() string {
	return "nobody may give what they do not hold themselves: you lack " + e.Missing + hintOf(e.Limit)
}

// MayGive returns an *EscalationError unless the person holds everything that a binding would give,
// in all of its scope, at least as little narrowed, and at least as long.
func (r *Rights) MayGive(spec catalog.AccessBindingSpec, role catalog.RoleSpec) error {
	for _, part := range partsOf(spec) {
		holders := slices.DeleteFunc(slices.Clone(r.grants), func(g Grant) bool { return !g.outdoes(r.directory, part, spec) })
		if missing := lacking(holders, part, spec, role); missing != "" {
			return &EscalationError{Missing: fmt.Sprintf("%s for %s", missing, part), Limit: r.LimitText()}
		}
	}
	return nil
}

// MayDefine returns an *EscalationError unless the person holds everything in the role in the whole
// hub: a role counts wherever a binding names it.
func (r *Rights) MayDefine(role catalog.RoleSpec) error {
	return r.MayGive(catalog.AccessBindingSpec{Hub: true}, role)
}

// MayBecome returns an *EscalationError unless the person holds everything that another one has.
func (r *Rights) MayBecome(other *Rights) error {
	for _, g := range other.grants {
		spec := catalog.AccessBindingSpec{Hub: true}
		if g.Binding != nil {
			spec = g.Binding.Spec
		}
		if err := r.MayGive(spec, g.role); err != nil {
			return err
		}
	}
	return nil
}

// outdoes reports whether a binding with that spec gives no more of the part than the grant, except
// for the role.
func (g Grant) outdoes(directory Directory, part scopePart, spec catalog.AccessBindingSpec) bool {
	if g.limit != nil && !g.limit.outdoes(directory, part, spec) {
		return false
	}
	if g.Binding == nil {
		return true
	}
	return part.isIn(directory, &g.Binding.Spec) && outlives(g.Ends(), spec.ExpiresAt) && isWithin(spec.Rules, g.Rules())
}

// isWithin reports whether the rules select nothing that the others do not select, as far as single
// rules show it. No rules select everything.
func isWithin(rules, others []accessrule.Rule) bool {
	if len(others) == 0 {
		return true
	}
	return len(rules) > 0 && !slices.ContainsFunc(rules, func(rule accessrule.Rule) bool {
		return !slices.ContainsFunc(others, func(other accessrule.Rule) bool { return rule.IsWithin(other) })
	})
}

// lacking returns what a binding would give and none of the grants gives; "" for nothing.
func lacking(holders []Grant, part scopePart, spec catalog.AccessBindingSpec, role catalog.RoleSpec) string {
	if len(holders) == 0 {
		return "any binding"
	}
	for _, p := range catalog.Permissions() {
		if role.Holds(p) && !slices.ContainsFunc(holders, func(g Grant) bool { return g.holds(p) }) {
			return fmt.Sprintf("the permission %q", p)
		}
	}
	if !part.givesClusters() {
		return ""
	}
	given := Grant{Binding: &catalog.AccessBinding{Spec: spec}, role: role}.Groups()
	var missing []string
	for _, group := range given {
		if !slices.ContainsFunc(holders, func(g Grant) bool { return g.hasGroup(group) }) {
			missing = append(missing, group)
		}
	}
	if len(missing) > 0 {
		return "the group " + strings.Join(missing, ", ")
	}
	return ""
}

// hasGroup reports whether the grant gives a group in clusters, or one that includes it.
func (g Grant) hasGroup(group string) bool { return includesGroup(g.Groups(), group) }
