// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"encoding/json"
	"slices"

	"github.com/leatdev/leat/internal/syncpolicy"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
)

// maxShared bounds what a sharing remembers. Beyond it everything is forgotten, which costs memory for the values that are
// in use and are shared no longer.
const maxShared = 1 << 16

// sharing lets objects that were read from the store share equal values: most services of a fleet name the same few
// sources, and most reports the same few digests. It is not safe for concurrent use.
type sharing struct {
	texts map[string]string
	// lists are those of one text, by the text.
	lists   map[string][]string
	sources map[catalog.Source][]catalog.Source
	// policies are by their JSON.
	policies map[string]*syncpolicy.Policy
}

func newSharing() *sharing {
	return &sharing{
		texts: map[string]string{}, lists: map[string][]string{}, sources: map[catalog.Source][]catalog.Source{},
		policies: map[string]*syncpolicy.Policy{},
	}
}

func (s *sharing) text(text string) string {
	if known, ok := s.texts[text]; ok || text == "" {
		return known
	}
	if len(s.texts) >= maxShared {
		clear(s.texts)
	}
	s.texts[text] = text
	return text
}

// list shares a list of one text, which most services have, and the texts of a longer one.
func (s *sharing) list(texts []string) []string {
	if len(texts) == 1 {
		if known, ok := s.lists[texts[0]]; ok {
			return known
		}
	}
	var shared []string
	for _, text := range texts {
		shared = append(shared, s.text(text))
	}
	if len(shared) == 1 {
		if len(s.lists) >= maxShared {
			clear(s.lists)
		}
		s.lists[shared[0]] = slices.Clip(shared)
	}
	return shared
}

// services returns services that equal the given ones.
func (s *sharing) services(given []*catalog.Service) []*catalog.Service {
	shared := make([]*catalog.Service, len(given))
	for i, service := range given {
		shared[i] = s.service(service)
	}
	return shared
}

func (s *sharing) service(given *catalog.Service) *catalog.Service {
	next := *given
	next.Spec.Cluster = s.text(given.Spec.Cluster)
	next.Spec.Namespace = s.text(given.Spec.Namespace)
	if len(given.Spec.Sources) == 1 {
		next.Spec.Sources = s.source(given.Spec.Sources)
	}
	next.Spec.Policy = s.policy(given.Spec.Policy)
	return &next
}

// source shares a list of one source, which most services have.
func (s *sharing) source(list []catalog.Source) []catalog.Source {
	known, ok := s.sources[list[0]]
	if ok {
		return known
	}
	if len(s.sources) >= maxShared {
		clear(s.sources)
	}
	s.sources[list[0]] = list
	return list
}

// policy shares policies, because a fleet has few of them and they may be large.
func (s *sharing) policy(given *syncpolicy.Policy) *syncpolicy.Policy {
	if given.Zero() {
		return nil
	}
	key, err := json.Marshal(given)
	if err != nil {
		return given
	}
	if known, ok := s.policies[string(key)]; ok {
		return known
	}
	if len(s.policies) >= maxShared {
		clear(s.policies)
	}
	s.policies[string(key)] = given
	return given
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
	next.AppliedDigests, next.AppliedCommits = s.list(next.AppliedDigests), s.list(next.AppliedCommits)
	next.ObservedDigests, next.ObservedCommits = s.list(next.ObservedDigests), s.list(next.ObservedCommits)
	given.Report = &next
	return given
}
