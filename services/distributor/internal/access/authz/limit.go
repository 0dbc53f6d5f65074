// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package authz

import (
	"slices"
	"time"

	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Limit is the most that a credential gives, whatever its owner may do. It intersects with the owner's grants: what
// the owner's bindings give counts only as far as the limit would give it, too.
//
// A limit whose role does not exist, or no longer, gives nothing.
type Limit struct {
	spec  catalog.TokenLimit
	grant Grant
}

// NewLimit returns the limit of a token, which ends with it.
func NewLimit(directory Directory, spec catalog.TokenLimit, ends time.Time) Limit {
	return Limit{spec: spec, grant: NewGrant(directory, &catalog.AccessBinding{Spec: spec.Binding(ends)}, nil)}
}

// Within returns the part of the rights that a limit leaves. Of rights with a limit already both count.
func (r *Rights) Within(limit Limit) *Rights {
	ceiling := limit.grant
	ceiling.limit = r.limit
	within := &Rights{directory: r.directory, grants: slices.Clone(r.grants), limit: &ceiling}
	for i := range within.grants {
		within.grants[i].limit = &ceiling
	}
	return within
}

// LimitText describes the limit for people; empty: the rights have none.
func (r *Rights) LimitText() string {
	if r.limit == nil {
		return ""
	}
	spec := r.limit.Binding.Spec
	return catalog.TokenLimit{
		Role: spec.Role, Hub: spec.Hub, Projects: spec.Projects, Clusters: spec.Clusters, Services: spec.Services, Repositories: spec.Repositories,
	}.String()
}

// IsLimited reports whether a limit narrows what the person's bindings give.
func (r *Rights) IsLimited() bool { return r.limit != nil }

// LimitAllows reports whether the limit of the person's token includes a permission about an object.
// It is for permissions that a person has without a binding, such as those about their own tokens.
// A token without a limit includes every permission.
func (r *Rights) LimitAllows(p catalog.Permission, o Object) bool {
	return r.limit == nil || r.limit.Allows(p, o)
}

// LimitHolds reports whether the limit leaves a permission anywhere. Without a limit it does.
func (r *Rights) LimitHolds(p catalog.Permission) bool { return r.limit == nil || r.limit.holds(p) }

// Denied returns the error that the person lacks a permission. The key is zero where there is no
// object.
func (r *Rights) Denied(p catalog.Permission, key catalog.Key) error {
	return &DeniedError{Permission: p, Key: key, Limit: r.LimitText()}
}

// MayIssue returns an *EscalationError unless a token of an owner gives no more than the person
// holds, and for no longer. limit is the token's; nil: it has none. isOwn is true if the owner is the
// person: the bindings are the same then on both sides, and the limits decide.
func (r *Rights) MayIssue(owner *Rights, limit *Limit, isOwn bool) error {
	switch {
	case isOwn && r.limit == nil:
		return nil
	case isOwn && limit == nil:
		return &EscalationError{Missing: "a token without a limit, which one with a limit cannot make", Limit: r.LimitText()}
	case isOwn:
		held := &Rights{directory: r.directory, grants: []Grant{*r.limit}, limit: r.limit}
		return held.MayGive(limit.grant.Binding.Spec, limit.grant.role)
	}
	err := r.MayBecome(owner)
	if err == nil || limit == nil {
		return err
	}
	return r.MayGive(limit.grant.Binding.Spec, limit.grant.role)
}

// namedServices returns the services that the grant, or its limit, names.
func (g Grant) namedServices() []string {
	var names []string
	if g.Binding != nil {
		names = slices.Clone(g.Binding.Spec.Services)
	}
	if g.limit != nil {
		names = append(names, g.limit.namedServices()...)
	}
	return names
}
