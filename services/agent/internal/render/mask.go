// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"slices"
	"strings"
)

// masked stands in the place of a secret.
const masked = "(masked)"

// shortLine is the length up to which a line of a secret of several lines is not looked for by itself: it might be a bracket.
const shortLine = 8

// Mask replaces the secrets in a text that somebody else has written, and of secrets of several lines each line: the text may
// begin in the middle of one. A nil Substitution has none.
func (s *Substitution) Mask(text string) string {
	if s == nil {
		return text
	}
	var all []string
	for _, secret := range s.variables.Secrets {
		if secret != "" {
			all = append(all, secret)
		}
		for line := range strings.Lines(secret) {
			if line = strings.TrimSpace(line); len(line) > shortLine {
				all = append(all, line)
			}
		}
	}
	// The longest first, so that of a secret that holds another nothing is left.
	slices.SortFunc(all, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	for _, secret := range all {
		text = strings.ReplaceAll(text, secret, masked)
	}
	return text
}
