// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"sync"
	"time"
)

// turn is a lock that reports how long its holders waited for it and held it. It is safe for
// concurrent use.
type turn struct {
	mu sync.Mutex
	// ended is called after each turn. Nil is not called.
	ended func(took time.Duration)
}

// take blocks until it is the caller's turn. The caller calls done at the end.
func (t *turn) take() (done func()) {
	began := time.Now()
	t.mu.Lock()
	return func() {
		t.mu.Unlock()
		if t.ended != nil {
			t.ended(time.Since(began))
		}
	}
}
