// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package accessrule

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/leatdev/leat/internal/kit/fielderr"
)

// Bounds on the lists of one rule.
const (
	maxVerbs      = 32
	maxGroups     = 64
	maxResources  = 128
	maxNamespaces = 128
	maxPaths      = 32
	maxPathBytes  = 1024
)

var (
	word      = regexp.MustCompile(`^[a-z]{1,63}$`)
	dnsDomain = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	resource  = regexp.MustCompile(`^(\*|[a-z0-9]([-a-z0-9.]*[a-z0-9])?)(/(\*|[a-z0-9]([-a-z0-9]*[a-z0-9])?))?$`)
	dnsLabel  = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
)

// Validate checks the rule. The error is a *fielderr.Error.
func (r Rule) Validate() error {
	for _, list := range []struct {
		name  string
		items []string
		limit int
		ok    func(string) bool
		want  string
	}{
		{"verbs", r.Verbs, maxVerbs, func(s string) bool { return s == All || word.MatchString(s) }, "a verb such as get, list or patch, or *"},
		{"api_groups", r.APIGroups, maxGroups, isGroup, `an API group such as apps, "core" for the one without a name, or *`},
		{"resources", r.Resources, maxResources, func(s string) bool { return len(s) <= 253 && resource.MatchString(s) }, "a resource such as pods, pods/log, pods/*, */scale or *"},
		{"namespaces", r.Namespaces, maxNamespaces, dnsLabel.MatchString, "the name of a namespace; leave the list out for all"},
		{"non_resource_paths", r.Paths, maxPaths, isPath, "a path such as /metrics or /logs/*"},
	} {
		if len(list.items) > list.limit {
			return fielderr.New(list.name, "has %d items; at most %d are allowed", len(list.items), list.limit)
		}
		for i, item := range list.items {
			if !list.ok(item) {
				return fielderr.New(fmt.Sprintf("%s[%d]", list.name, i), "%.80q is not %s", item, list.want)
			}
		}
	}
	if len(r.Paths) > 0 && len(r.Resources) == 0 && len(r.APIGroups)+len(r.Namespaces) > 0 {
		return fielderr.New("resources", "is required: a rule with paths chooses no resources unless it names some")
	}
	return nil
}

func isGroup(s string) bool {
	return s == "" || s == All || len(s) <= 253 && dnsDomain.MatchString(s)
}

// isPath reports whether s is a path. A star is allowed only at its end.
func isPath(s string) bool {
	return len(s) <= maxPathBytes && (s == All || strings.HasPrefix(s, "/") && !strings.Contains(strings.TrimSuffix(s, All), All)) &&
		!strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c == 0x7f })
}
