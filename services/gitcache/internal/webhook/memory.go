// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/leatdev/leat/services/gitcache/internal/webhook/provider"
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
	mu   sync.Mutex
	seen *lru.Cache[provider.DeliveryID, time.Time] // when each came
}

func newMemory() *memory {
	seen, _ := lru.New[provider.DeliveryID, time.Time](maxRemembered) // fails only for a limit that is not positive
	return &memory{seen: seen}
}

// remember reports whether the delivery is new, and remembers it.
func (m *memory) remember(id provider.DeliveryID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if at, ok := m.seen.Peek(id); ok && time.Since(at) < remembered {
		return false
	}
	m.seen.Add(id, time.Now())
	return true
}

// forget makes a delivery count as new again, because nothing came of it.
func (m *memory) forget(id provider.DeliveryID) { m.seen.Remove(id) }
