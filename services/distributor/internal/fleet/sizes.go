// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"maps"
	"sync"
	"time"

	"github.com/leatdev/leat/services/distributor/internal/rollout"
)

// countAgainAfter is how long a count of services under policies is good enough: it visits every
// service.
const countAgainAfter = time.Minute

// Sizes knows which rollout policies cover more services than a rollout can have. It is safe for concurrent use.
type Sizes struct {
	view *View
	// most is rollout.MaxMembers, but in tests.
	most int

	mu        sync.Mutex
	countedAt time.Time
	tooLarge  map[string]int
}

// NewSizes returns the Sizes of a view.
func NewSizes(v *View) *Sizes { return &Sizes{view: v, most: rollout.MaxMembers} }

// TooLarge returns how many services the policies cover that cover too many, by the policy's uid. It counts at most once
// a minute, and only where there are so many services. Callers that come while it counts have the last result.
func (s *Sizes) TooLarge() map[string]int {
	known, isDue := s.known()
	if !isDue {
		return known
	}
	counted := s.count()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tooLarge = counted
	return counted
}

// known returns the last result, and whether the caller is to count again.
func (s *Sizes) known() (tooLarge map[string]int, isDue bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if isDue = now.Sub(s.countedAt) >= countAgainAfter; isDue {
		s.countedAt = now
	}
	return s.tooLarge, isDue
}

func (s *Sizes) count() map[string]int {
	if s.view.Catalog.Totals().Services <= s.most {
		return nil
	}
	covered, _ := Rollouts{s.view}.Count()
	maps.DeleteFunc(covered, func(_ string, services int) bool { return services <= s.most })
	return covered
}
