// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package waiting measures queues: how many callers wait, and for how long the first of them has. It does not make
// anybody wait.
package waiting

import (
	"container/list"
	"sync"
	"time"
)

// Line is what one queue is measured by. Its zero value is ready. It is safe for concurrent use.
type Line struct {
	mu    sync.Mutex
	since list.List // the times at which callers joined, the oldest first
}

// Join records that the caller begins to wait. It calls leave when it no longer does; further calls do nothing.
func (l *Line) Join() (leave func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	place := l.since.PushBack(time.Now())
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.since.Remove(place) // nothing, if it was removed before
	}
}

// Len returns how many callers wait.
func (l *Line) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.since.Len()
}

// Age returns for how long the caller has waited that joined first, or zero if nobody waits.
func (l *Line) Age() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := l.since.Front()
	if first == nil {
		return 0
	}
	joined, _ := first.Value.(time.Time) // as Join has put it in
	return time.Since(joined)
}
