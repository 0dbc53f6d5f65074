// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"encoding/json"

	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// maxShared bounds the remembered values of each kind. Beyond it everything is forgotten, which
// costs memory for the values that are in use and are shared no longer.
const maxShared = 1 << 16

// maxSharedBytes bounds the size of a remembered value. Agents choose texts, and many of them do
// not report the same one if it is longer than a few digests.
const maxSharedBytes = 1024

// interned holds one of equal values, by what makes them equal.
type interned[K comparable, V any] map[K]V

// share returns the value that was shared before under the key, or else the given one.
func (m interned[K, V]) share(key K, value V) V {
	if known, ok := m[key]; ok {
		return known
	}
	if len(m) >= maxShared {
		clear(m)
	}
	m[key] = value
	return value
}

// sharing lets objects that were read from the store share equal values: most services of a fleet
// name the same few sources, and most reports the same few digests. It is not safe for concurrent
// use.
type sharing struct {
	texts interned[string, string]
	// lists and sources are lists of one item, which most services have.
	lists   interned[string, []string]
	sources interned[catalog.Source, []catalog.Source]
	// options are by their JSON. A fleet has few of them, and they may be large.
	options interned[string, *syncpolicy.Options]
}

func newSharing() *sharing {
	return &sharing{
		texts: interned[string, string]{}, lists: interned[string, []string]{},
		sources: interned[catalog.Source, []catalog.Source]{}, options: interned[string, *syncpolicy.Options]{},
	}
}

func (s *sharing) text(text string) string {
	if len(text) > maxSharedBytes {
		return text
	}
	return s.texts.share(text, text)
}

func (s *sharing) list(texts []string) []string {
	if len(texts) != 1 || len(texts[0]) > maxSharedBytes {
		return texts
	}
	return s.lists.share(texts[0], texts)
}

// service returns a service that equals the given one.
func (s *sharing) service(given *catalog.Service) *catalog.Service {
	next := *given
	next.Spec.Cluster = s.text(given.Spec.Cluster)
	if sources := given.Spec.Sources; len(sources) == 1 {
		next.Spec.Sources = s.sources.share(sources[0], sources)
	}
	next.Spec.ConfigSets = s.list(given.Spec.ConfigSets)
	if key, err := json.Marshal(given.Spec.Options); err == nil {
		next.Spec.Options = s.options.share(string(key), given.Spec.Options)
	}
	return &next
}

// report returns a report of the service that equals the given one.
func (s *sharing) report(of *catalog.Service, given catalog.StoredReport) catalog.StoredReport {
	given.Service, given.ServiceUID, given.Entry = of.Name, of.UID, s.text(given.Entry)
	if given.Report == nil {
		return given
	}
	next := *given.Report
	next.Phase = catalog.Phase(s.text(string(next.Phase)))
	next.ObservedSpecDigest = s.text(next.ObservedSpecDigest)
	next.AppliedConfigDigest, next.ObservedConfigDigest = s.text(next.AppliedConfigDigest), s.text(next.ObservedConfigDigest)
	next.AppliedDigests, next.AppliedCommits = s.list(next.AppliedDigests), s.list(next.AppliedCommits)
	next.ObservedDigests, next.ObservedCommits = s.list(next.ObservedDigests), s.list(next.ObservedCommits)
	next.AppliedVersions, next.ObservedVersions = s.list(next.AppliedVersions), s.list(next.ObservedVersions)
	given.Report = &next
	return given
}
