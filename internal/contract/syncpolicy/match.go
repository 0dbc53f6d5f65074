// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package syncpolicy

import (
	"cmp"
	"strings"
)

// Match reports whether all of text matches a pattern of a policy, in which * stands for any text and
// ? for any byte. It never takes longer than the product of the two lengths.
func Match(pattern, text string) bool {
	p, t, star, mark := 0, 0, -1, 0
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, t
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == text[t]):
			p++
			t++
		case star >= 0:
			mark++
			p, t = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// MatchGroup reports whether an API group matches a pattern of a policy. The empty pattern matches
// every group, and "core" is the group without a name.
func MatchGroup(pattern, group string) bool {
	return pattern == "" || Match(pattern, cmp.Or(group, "core"))
}
