// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package instrument

import "sync"

// Cached holds what was made for each key, such as the options of a measurement, which cost more to
// make than the measurement itself. It forgets nothing, so there must be few keys. It is safe for
// concurrent use, and its zero value is ready.
type Cached[K comparable, V any] struct {
	mu     sync.RWMutex
	values map[K]V
}

// Get returns what produce has returned for a key that is equal. Concurrent first calls may each call
// produce.
func (c *Cached[K, V]) Get(key K, produce func(K) V) V {
	c.mu.RLock()
	value, isKnown := c.values[key]
	c.mu.RUnlock()
	if isKnown {
		return value
	}
	value = produce(key)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.values == nil {
		c.values = map[K]V{}
	}
	c.values[key] = value
	return value
}
