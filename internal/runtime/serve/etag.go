// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import "strings"

// NamesTag reports whether a list of entity tags, which may be spread over the lines of a header, or
// a star names the tag. A weak comparison (RFC 9110) ignores the mark W/ of the list's tags; the tag
// itself is given without it.
func NamesTag(lines []string, tag string, weak bool) bool {
	for _, line := range lines {
		for candidate := range strings.SplitSeq(line, ",") {
			candidate = strings.TrimSpace(candidate)
			if weak {
				candidate = strings.TrimPrefix(candidate, "W/")
			}
			if candidate == "*" || candidate == tag {
				return true
			}
		}
	}
	return false
}
