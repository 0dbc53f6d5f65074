// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package rulewire converts access rules to and from their wire messages.
package rulewire

import (
	"fmt"

	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/accessrule"
	"github.com/leatdev/leat/internal/kit/fielderr"
)

// Rules returns the rules in the messages. A field that this version does not know is an error of
// type *fielderr.Error, because the field may narrow the rule.
func Rules(messages []*typev1.AccessRule) ([]accessrule.Rule, error) {
	var rules []accessrule.Rule
	for i, m := range messages {
		if len(m.ProtoReflect().GetUnknown()) > 0 {
			return nil, &fielderr.Error{Path: fmt.Sprintf("rules[%d]", i), Message: "has a field that this version of the hub does not know"}
		}
		rules = append(rules, accessrule.Rule{
			Verbs: m.GetVerbs(), APIGroups: m.GetApiGroups(), Resources: m.GetResources(), Namespaces: m.GetNamespaces(), Paths: m.GetNonResourcePaths(),
		})
	}
	return rules, nil
}

// Messages returns the messages of rules.
func Messages(rules []accessrule.Rule) []*typev1.AccessRule {
	var messages []*typev1.AccessRule
	for _, r := range rules {
		messages = append(messages, &typev1.AccessRule{
			Verbs: r.Verbs, ApiGroups: r.APIGroups, Resources: r.Resources, Namespaces: r.Namespaces, NonResourcePaths: r.Paths,
		})
	}
	return messages
}
