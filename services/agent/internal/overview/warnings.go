// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxKept is the number of warnings that are kept as replacements for the latest: the warnings of a
// namespace go together with it. If more than that go at once, an overview has fewer than MaxLatest
// until new ones come.
const maxKept = 128

// warnings are the newest warnings by key.
type warnings map[string]Warning

func (w warnings) put(key string, warning Warning) (changed bool) {
	before, had := w[key]
	if had && before.equal(warning) {
		return false
	}
	w[key] = warning
	if len(w) > 2*maxKept { // sorting only then spreads its cost over maxKept changes
		for _, old := range w.newest()[maxKept:] {
			delete(w, old)
		}
	}
	return true
}

func (w warnings) drop(key string) (changed bool) {
	_, had := w[key]
	delete(w, key)
	return had
}

// newest returns the keys from the newest warning to the oldest.
func (w warnings) newest() []string {
	return slices.SortedFunc(maps.Keys(w), func(a, b string) int {
		return cmp.Or(w[b].LastSeen.Compare(w[a].LastSeen), cmp.Compare(a, b))
	})
}

func (w warnings) latest() []Warning {
	keys := w.newest()
	latest := make([]Warning, 0, min(len(keys), MaxLatest))
	for _, key := range keys[:min(len(keys), MaxLatest)] {
		latest = append(latest, w[key])
	}
	return latest
}

// bounded returns the warning with its texts cut to their bounds.
func (w Warning) bounded() Warning {
	for _, word := range []*string{&w.Reason, &w.Kind, &w.Namespace, &w.Name} {
		*word = truncate(*word, maxWord)
	}
	w.Message = truncate(w.Message, MaxMessage)
	return w
}

// truncate cuts a text between two characters, and does not keep the rest of it in memory.
func truncate(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return strings.Clone(text[:most])
}
