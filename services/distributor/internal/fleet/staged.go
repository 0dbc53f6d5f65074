// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"sync"

	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// stagedSpecs remembers the staged specs of services, because naming one encodes all of it. Services of a
// fleet have few different specs, and share equal parts of them. It is safe for concurrent use.
type stagedSpecs struct {
	mu sync.Mutex
	// byParts are by the parts that services share, which do not change.
	byParts interned[specParts, *catalog.StagedSpec]
	// byDigest holds one of equal specs.
	byDigest interned[string, *catalog.StagedSpec]
}

// specParts are the parts of a spec: pointers to what it shares with others.
type specParts struct {
	options *syncpolicy.Options
	sources *catalog.Source // the first
	count   int
}

func newStagedSpecs() *stagedSpecs {
	return &stagedSpecs{byParts: interned[specParts, *catalog.StagedSpec]{}, byDigest: interned[string, *catalog.StagedSpec]{}}
}

// of returns the staged part of a spec.
func (s *stagedSpecs) of(spec catalog.ServiceSpec) *catalog.StagedSpec {
	parts := specParts{options: spec.Options, count: len(spec.Sources)}
	if parts.count > 0 {
		parts.sources = &spec.Sources[0]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.byParts[parts]; ok {
		return known
	}
	staged := spec.Staged()
	return s.byParts.share(parts, s.byDigest.share(staged.Digest, staged))
}

// share returns the one of equal specs that the fleet shares.
func (s *stagedSpecs) share(spec *catalog.StagedSpec) *catalog.StagedSpec {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byDigest.share(spec.Digest, spec)
}
