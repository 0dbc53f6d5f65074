// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import "sync"

// Seats bounds how many of something everybody may hold at once, so that one who takes more and
// more takes nothing from the others. It is safe for concurrent use.
type Seats struct {
	each int

	mu    sync.Mutex
	taken map[string]int
}

// NewSeats returns Seats of which everybody may hold so many.
func NewSeats(each int) *Seats { return &Seats{each: each, taken: map[string]int{}} }

// Take takes one for the holder, who calls leave once when it is no longer needed; false: it holds
// all it may.
func (s *Seats) Take(holder string) (leave func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken[holder] >= s.each {
		return nil, false
	}
	s.taken[holder]++
	return func() { s.leave(holder) }, true
}

func (s *Seats) leave(holder string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken[holder]--; s.taken[holder] <= 0 {
		delete(s.taken, holder)
	}
}
