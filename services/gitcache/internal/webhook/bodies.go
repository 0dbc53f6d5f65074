// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// A body is held in memory before its sender is authenticated, because the proof covers its bytes.
// So the memory for the bodies of all senders is bounded, and so is the share of each sender.
const (
	// bodiesAtOnce is how many bodies of the largest size are held at once. Most webhooks are a
	// hundredth of that size.
	bodiesAtOnce = 16
	// bodiesOfOne is how many of them may be held for one source.
	bodiesOfOne = 4
	// bodyPatience is how long a delivery waits for others to finish.
	bodyPatience = 2 * time.Second
)

// bodies admits bodies by their size in bytes. It may be used concurrently.
type bodies struct {
	largest int64
	all     *semaphore.Weighted

	mu       sync.Mutex
	bySource map[string]int64 // bytes held or waited for; entries are never zero
}

func newBodies(largest int64) *bodies {
	return &bodies{
		largest: largest, all: semaphore.NewWeighted(bodiesAtOnce * (largest + 1)), bySource: map[string]int64{},
	}
}

// enter blocks until a body may be read, and returns a function that the caller calls once it no
// longer needs the body. size is the announced length; negative means that it is unknown. enter
// returns false if there is not enough room.
func (b *bodies) enter(ctx context.Context, source string, size int64) (release func(), ok bool) {
	if size < 0 || size > b.largest {
		size = b.largest
	}
	size++ // an empty body also reserves a byte
	if !b.reserve(source, size) {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(ctx, bodyPatience)
	defer cancel()
	if b.all.Acquire(ctx, size) != nil {
		b.giveBack(source, size)
		return nil, false
	}
	return func() {
		b.all.Release(size)
		b.giveBack(source, size)
	}, true
}

func (b *bodies) reserve(source string, size int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.bySource[source]+size > bodiesOfOne*(b.largest+1) {
		return false
	}
	b.bySource[source] += size
	return true
}

func (b *bodies) giveBack(source string, size int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.bySource[source] -= size; b.bySource[source] == 0 {
		delete(b.bySource, source)
	}
}

// readBody reads a body of at most largest bytes. It returns an *http.MaxBytesError for a longer
// one. Its memory exceeds the announced length only by what a reader needs to see the end.
func readBody(r io.ReadCloser, announced, largest int64) ([]byte, error) {
	var body bytes.Buffer
	if announced > 0 {
		body.Grow(int(announced) + bytes.MinRead)
	}
	_, err := body.ReadFrom(http.MaxBytesReader(nil, r, largest))
	return body.Bytes(), err
}
