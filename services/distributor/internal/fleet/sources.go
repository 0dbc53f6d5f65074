// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"maps"
	"slices"
	"sync"

	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/services/distributor/internal/delivery/plan"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/setmap"
)

// sourceStates is the state of the content of sources, and of the mirrors that they are read from.
// It is safe for concurrent use. Sources are given in their normal spelling.
type sourceStates struct {
	mu          sync.RWMutex
	resolutions map[catalog.Source]catalog.Resolution
	// holders are the sources whose snapshot has the digest.
	holders setmap.Map[digest.Digest, catalog.Source]
	// mirrors are by repository.
	mirrors map[string]catalog.Mirror
}

func newSourceStates() *sourceStates {
	return &sourceStates{
		resolutions: map[catalog.Source]catalog.Resolution{}, holders: setmap.Map[digest.Digest, catalog.Source]{},
		mirrors: map[string]catalog.Mirror{},
	}
}

// resolution returns the state of a source.
func (s *sourceStates) resolution(source catalog.Source) catalog.Resolution {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.resolutions[source]
}

// put replaces the state of a source and returns it, unless next is of an earlier state of the
// upstream.
func (s *sourceStates) put(source catalog.Source, next catalog.Resolution) (last catalog.Resolution, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last = s.resolutions[source]
	if isEarlier(next, last) {
		return last, false
	}
	s.releaseLocked(source)
	s.resolutions[source] = next
	if next.Snapshot != nil {
		s.holders.Add(next.Snapshot.Digest, source)
	}
	return last, true
}

// releaseLocked removes the source from the holders of its digest.
func (s *sourceStates) releaseLocked(source catalog.Source) {
	if last := s.resolutions[source].Snapshot; last != nil {
		s.holders.Remove(last.Digest, source)
	}
}

// drop drops the state of a source.
func (s *sourceStates) drop(source catalog.Source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.releaseLocked(source)
	delete(s.resolutions, source)
}

// forget drops the state of a repository, and returns its sources with their content.
func (s *sourceStates) forget(repository string) map[catalog.Source]*catalog.Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mirrors, repository)
	forgotten := map[catalog.Source]*catalog.Snapshot{}
	for source, last := range s.resolutions {
		if source.Repository == repository {
			s.releaseLocked(source)
			delete(s.resolutions, source)
			forgotten[source] = last.Snapshot
		}
	}
	return forgotten
}

// holding returns the sources whose snapshot has the digest.
func (s *sourceStates) holding(d digest.Digest) []catalog.Source {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Collect(maps.Keys(s.holders[d]))
}

// putMirror replaces the state of a repository's mirror, unless an owner with a later epoch has
// spoken; nil means that the mirror is gone. It reports whether other refs are held back now.
func (s *sourceStates) putMirror(repository string, mirror *catalog.Mirror) (hasOtherRefs bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last, ok := s.mirrors[repository]
	switch {
	case mirror == nil:
		delete(s.mirrors, repository)
	case !ok || last.Epoch <= mirror.Epoch:
		s.mirrors[repository] = *mirror
	}
	return !slices.Equal(last.HeldRefs, s.mirrors[repository].HeldRefs)
}

// mirror returns the state of a repository's mirror.
func (s *sourceStates) mirror(repository string) (catalog.Mirror, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	mirror, ok := s.mirrors[repository]
	return mirror, ok
}

// inputs returns the services with what their sources hold, all at one moment.
func (s *sourceStates) inputs(services ...*catalog.Service) []plan.Input {
	s.mu.RLock()
	defer s.mu.RUnlock()
	inputs := make([]plan.Input, len(services))
	for i, service := range services {
		inputs[i] = plan.Input{Service: service, Snapshots: make([]*catalog.Snapshot, len(service.Spec.Sources))}
		for j, source := range service.Spec.Sources {
			inputs[i].Snapshots[j] = s.resolutions[source.Normal()].Snapshot
		}
	}
	return inputs
}

// of returns the states of a service's sources and of their mirrors, in the order of the spec.
func (s *sourceStates) of(service *catalog.Service) ([]catalog.Resolution, []catalog.Mirror) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	resolutions := make([]catalog.Resolution, len(service.Spec.Sources))
	mirrors := make([]catalog.Mirror, len(service.Spec.Sources))
	for i, source := range service.Spec.Sources {
		resolutions[i], mirrors[i] = s.resolutions[source.Normal()], s.mirrors[source.Repository]
	}
	return resolutions, mirrors
}

// latest returns the plan with the commits and versions at which its sources were last seen with
// its content. A source that has moved on to other content leaves them as they are.
func (s *sourceStates) latest(p *plan.Plan) *plan.Plan {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return p.At(func(b plan.Bundle) (commit, version string) {
		if latest := s.resolutions[b.Source].Snapshot; latest != nil && latest.Digest == b.Digest {
			return latest.Commit, latest.Version
		}
		return b.Commit, b.Version
	})
}

// isEarlier reports whether next is of an earlier state of the upstream than last. The same content
// is never earlier, and an answer without a time counts as later than the one before it.
func isEarlier(next, last catalog.Resolution) bool {
	return last.Snapshot != nil && next.Snapshot != nil && !next.FreshAt.IsZero() &&
		next.FreshAt.Before(last.FreshAt) && !equal(last.Snapshot, next.Snapshot)
}

// hasSameContent reports whether two snapshots differ at most in the commit and the version.
func hasSameContent(a, b *catalog.Snapshot) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Digest == b.Digest
}

// equal reports whether both are nil, or point to equal values.
func equal[T comparable](a, b *T) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}
