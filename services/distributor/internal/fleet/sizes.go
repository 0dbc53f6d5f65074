// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"maps"
	"sync"
	"time"

	"github.com/leatdev/leat/services/distributor/internal/rollout"
)

// countAgainAfter is how long a count of services under policies is good enough: it looks at every service.
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
// a minute, and only where there are so many services.
func (s *Sizes) TooLarge() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); now.Sub(s.countedAt) >= countAgainAfter {
		s.countedAt, s.tooLarge = now, s.count()
	}
	return s.tooLarge
}

func (s *Sizes) count() map[string]int {
	if s.view.Totals().Services <= s.most {
		return nil
	}
	covered, _ := Rollouts{s.view}.Count()
	maps.DeleteFunc(covered, func(_ string, services int) bool { return services <= s.most })
	return covered
}
