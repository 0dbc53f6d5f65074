// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package document

import (
	"maps"
	"slices"
	"strings"

	"github.com/leatdev/leat/internal/contract/fleetdoc"
)

func kindNames() []string { return slices.Sorted(maps.Keys(fleetdoc.Kinds())) }

// Kind returns the kind for a user's word: "service", "services" and "Service" are the same. ok is
// false if there is no such kind.
func Kind(word string) (kind string, ok bool) {
	for _, name := range kindNames() {
		lower := strings.ToLower(name)
		if word = strings.ToLower(word); word == lower || word == plural(lower) {
			return name, true
		}
	}
	return "", false
}

// Kinds returns the words for all kinds, as users type them: "clusters", "repositories",
// "services".
func Kinds() []string {
	words := kindNames()
	for i, name := range words {
		words[i] = plural(strings.ToLower(name))
	}
	return words
}

func plural(word string) string {
	if stem, ok := strings.CutSuffix(word, "y"); ok {
		return stem + "ies"
	}
	return word + "s"
}
