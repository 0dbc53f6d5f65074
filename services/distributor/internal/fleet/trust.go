// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"slices"
	"strings"

	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/services/distributor/internal/access/authz"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// TrustRules is the view for the desk that lets workloads in. It is safe for concurrent use.
type TrustRules struct{ View *View }

// TrustRule returns a trust rule by its name.
func (r TrustRules) TrustRule(name string) (*catalog.TrustRule, bool) {
	return named(r.View.Catalog, r.View.Catalog.contents.rules, name)
}

// TrustRules returns the rules that trust an issuer, by name, and no more than limit of them.
func (r TrustRules) TrustRules(issuer string, limit int) []*catalog.TrustRule {
	c := r.View.Catalog
	c.mu.RLock()
	defer c.mu.RUnlock()
	var rules []*catalog.TrustRule
	for _, rule := range c.contents.rules.all() {
		if rule.Spec.Issuer == issuer && len(rules) < limit {
			rules = append(rules, rule)
		}
	}
	return rules
}

// Look refreshes the view.
func (r TrustRules) Look(ctx context.Context) { r.View.Look(ctx) }

// RightsByRule returns what all users of a trust rule have together: what bindings give to their
// names, and to the rule's groups.
func (r TrustRules) RightsByRule(rule *catalog.TrustRule) *authz.Rights {
	c, prefix := r.View.Catalog, rule.UserPrefix()
	c.mu.RLock()
	bindings := c.contents.bindings.of("", rule.Spec.Groups)
	users := map[string]bool{}
	for _, binding := range c.contents.accessBindings.objects {
		for _, user := range binding.Spec.Users {
			if strings.HasPrefix(user, prefix) {
				users[user] = true
				if !slices.Contains(bindings, binding) {
					bindings = append(bindings, binding)
				}
			}
		}
	}
	c.mu.RUnlock()
	return authz.NewRightsOfAll(c, func(user string) bool { return users[user] }, rule.Spec.Groups, bindings, catalog.Now())
}

// admit returns the user of a trust rule with the groups that the rule gives now. ok is false
// if the rule was deleted, or changed since it gave the token. It looks twice.
func (r TrustRules) admit(ctx context.Context, id identity.Identity) (current Person, ok bool, err error) {
	return LookTwice(ctx, r.View, func() (Person, bool) {
		name, isUser := catalog.RuleOfUser(id.Name)
		rule, ok := r.TrustRule(name)
		if !isUser || !ok || rule.Credential() != id.Credential || id.UID != "" {
			return Person{}, false
		}
		id.Groups = rule.Spec.Groups
		return Person{id: id}, true
	})
}
