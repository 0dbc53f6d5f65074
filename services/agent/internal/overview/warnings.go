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

// maxKept is how many warnings are kept, so that others can take the place of the latest when those go: all of a namespace go
// with it. Where more go at once, fewer than MaxLatest are told until new ones come.
const maxKept = 128

// warnings are the newest ones by key.
type warnings map[string]Warning

func (w warnings) put(key string, warning Warning) (changed bool) {
	before, had := w[key]
	if had && before.equal(warning) {
		return false
	}
	w[key] = warning
	if len(w) > 2*maxKept { // so that the cost of sorting is shared by as many changes
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

// newest lists the keys from the newest warning to the oldest.
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

// bounded cuts what is too long.
func (w Warning) bounded() Warning {
	for _, word := range []*string{&w.Reason, &w.Kind, &w.Namespace, &w.Name} {
		*word = truncate(*word, maxWord)
	}
	w.Message = truncate(w.Message, MaxMessage)
	return w
}

// truncate cuts a text between two characters, and keeps nothing of what was cut off in memory.
func truncate(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return strings.Clone(text[:most])
}
