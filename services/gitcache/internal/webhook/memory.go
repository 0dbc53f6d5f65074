// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"sync"
	"time"
)

const (
	// maxRemembered bounds the deliveries that are remembered; beyond it the oldest are forgotten.
	maxRemembered = 20_000
	// remembered is how long a delivery is remembered. It exceeds the time for which a generic one is
	// valid. It is not endless, because a branch that moves to and fro can cause two deliveries with
	// the same bytes.
	remembered = time.Hour
)

// memory keeps the deliveries seen lately.
type memory struct {
	mu    sync.Mutex
	seen  map[deliveryID]time.Time
	order []arrival // oldest first; may name deliveries that were forgotten
}

type arrival struct {
	id deliveryID
	at time.Time
}

func newMemory() *memory { return &memory{seen: map[deliveryID]time.Time{}} }

// remember reports whether the delivery is new, and remembers it.
func (m *memory) remember(id deliveryID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	m.drop(now)
	if _, again := m.seen[id]; again {
		return false
	}
	m.seen[id] = now
	m.order = append(m.order, arrival{id, now})
	return true
}

// forget makes a delivery count as new again, because nothing came of it.
func (m *memory) forget(id deliveryID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.seen, id)
}

// drop forgets deliveries that are too old, and the oldest ones while there are too many.
func (m *memory) drop(now time.Time) {
	for len(m.order) > 0 {
		oldest := m.order[0]
		if len(m.order) < maxRemembered && now.Sub(oldest.at) < remembered {
			return
		}
		if m.seen[oldest.id].Equal(oldest.at) { // not forgotten and seen again
			delete(m.seen, oldest.id)
		}
		m.order = m.order[1:]
	}
}
