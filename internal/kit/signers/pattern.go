// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package signers

import "strings"

// matchList reports whether text matches a comma-separated list of OpenSSH patterns: at least one
// pattern matches, and no pattern that begins with an exclamation mark does.
func matchList(list, text string) bool {
	matched := false
	for pattern := range strings.SplitSeq(list, ",") {
		negated := strings.HasPrefix(pattern, "!")
		if !match(strings.TrimPrefix(pattern, "!"), text) {
			continue
		}
		if negated {
			return false
		}
		matched = true
	}
	return matched
}

// match reports whether text matches the pattern, in which "*" stands for any number of characters
// and "?" for one.
func match(pattern, text string) bool {
	star, rest := -1, 0
	p, t := 0, 0
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, rest = p, t
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == text[t]):
			p++
			t++
		case star >= 0: // let the last star match one more
			rest++
			p, t = star+1, rest
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}
