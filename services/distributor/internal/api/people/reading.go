// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"slices"

	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// reading follows which repositories a person may watch because services that they may watch are made
// of them, also services that a stream does not select. A change of a service costs as much as it has
// sources.
//
// It reports about the services as they were when they were set, not as they are: a stream
// therefore never shows a repository for a state of a service that it has not taken notice of, and
// which it would not notice the end of. It is for one goroutine.
type reading struct {
	// isWanted reports whether the stream selects a repository.
	isWanted func(repository string) bool
	// made holds the sources of services, by name, if a part of it is wanted.
	made map[string][]catalog.Source
	// readers counts the sources of these services in each repository that is wanted.
	readers map[string]int
}

func newReading(isWanted func(repository string) bool) *reading {
	return &reading{isWanted: isWanted, made: map[string][]catalog.Source{}, readers: map[string]int{}}
}

// has reports whether a service is made of the repository. A nil reading has none.
func (r *reading) has(repository string) bool { return r != nil && r.readers[repository] > 0 }

// set records what a service is made of; nil if there is no such service, or the person may not watch
// it. It returns the repositories that begin or cease to be read.
func (r *reading) set(service string, sources []catalog.Source) (turned []string) {
	last := r.made[service]
	if slices.Equal(last, sources) {
		return nil
	}
	was := map[string]bool{}
	count := func(sources []catalog.Source, n int) {
		for _, source := range sources {
			if !r.isWanted(source.Repository) {
				continue
			}
			if _, ok := was[source.Repository]; !ok {
				was[source.Repository] = r.has(source.Repository)
			}
			if r.readers[source.Repository] += n; r.readers[source.Repository] == 0 {
				delete(r.readers, source.Repository)
			}
		}
	}
	count(last, -1)
	count(sources, 1)
	delete(r.made, service)
	if slices.ContainsFunc(sources, func(s catalog.Source) bool { return r.isWanted(s.Repository) }) {
		r.made[service] = sources
	}
	for repository, had := range was {
		if r.has(repository) != had {
			turned = append(turned, repository)
		}
	}
	return turned
}
