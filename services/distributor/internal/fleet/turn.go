// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"sync"
	"time"

	"github.com/leatdev/leat/internal/kit/waiting"
)

// turn is a lock that reports how long its holders waited for it and held it. It is safe for
// concurrent use.
type turn struct {
	mu sync.Mutex
	// line has the callers that wait for their turn.
	line *waiting.Line
	// ended is called after each turn. Nil is not called.
	ended func(took time.Duration)
}

// take blocks until it is the caller's turn. The caller calls done at the end.
func (t *turn) take() (done func()) {
	began, leave := time.Now(), t.line.Join()
	t.mu.Lock()
	leave()
	return func() {
		t.mu.Unlock()
		if t.ended != nil {
			t.ended(time.Since(began))
		}
	}
}
