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
	// remembered is how long a delivery is; it exceeds the time for which a generic one is valid.
	// Not for ever, because a branch that is moved to and fro may be told of in equal words.
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

// remember returns false where the delivery was seen before.
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

// forget lets a delivery count again, because nothing came of it.
func (m *memory) forget(id deliveryID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.seen, id)
}

// drop forgets what is old, and the oldest where there is too much.
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
