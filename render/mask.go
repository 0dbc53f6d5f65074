// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"slices"
	"strings"
)

// masked replaces a secret.
const masked = "(masked)"

// shortLine is the length up to which a single line of a multi-line secret is not masked: it might
// be just a bracket.
const shortLine = 8

// Mask replaces the secrets in a text from another source. Of a multi-line secret it also replaces
// each single line, because the text may begin in the middle of the secret. A nil Substitution has
// no secrets.
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
	// The longest come first, so that nothing is left of a secret that contains another one.
	slices.SortFunc(all, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	for _, secret := range all {
		text = strings.ReplaceAll(text, secret, masked)
	}
	return text
}
