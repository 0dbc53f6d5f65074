// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package memory admits work that needs much memory, such as the first fetch of a large repository,
// under a bound: each caller declares its cost beforehand, and waits until that much is free.
package memory

import (
	"context"
	"fmt"

	"golang.org/x/sync/semaphore"

	"github.com/leatdev/leat/internal/runtime/memlimit"
)

const (
	// fallback is the bound if it is unknown how much memory the process may use.
	fallback = 1 << 30
	// least is enough for a repository with some hundred thousand objects.
	least = 128 << 20
)

// Budget bounds the sum of the admitted costs. Its methods may be called concurrently.
type Budget struct {
	limit int64
	used  *semaphore.Weighted
}

// NewBudget returns a budget of that many bytes. Zero: [Default].
func NewBudget(limit int64) *Budget {
	if limit <= 0 {
		limit = Default(memlimit.Root)
	}
	return &Budget{limit: limit, used: semaphore.NewWeighted(limit)}
}

// TooLargeError reports that something needs more than may ever be used.
type TooLargeError struct{ Need, Limit int64 }

// Error implements error.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("%d bytes of memory are needed, %d may be used", e.Need, e.Limit)
}

// Limit is the bound in bytes.
func (b *Budget) Limit() int64 { return b.limit }

// Acquire waits until that many bytes are free. Callers are served in the order in which they wait,
// however much they need: small callers cannot keep a large one waiting for ever. The error is the
// context's cause, or a *TooLargeError.
func (b *Budget) Acquire(ctx context.Context, bytes int64) (release func(), err error) {
	if bytes > b.limit {
		return nil, &TooLargeError{Need: bytes, Limit: b.limit}
	}
	if err := b.used.Acquire(ctx, bytes); err != nil {
		return nil, context.Cause(ctx)
	}
	return func() { b.used.Release(bytes) }, nil
}

// TryAcquire is Acquire without waiting; false: not that many are free, or others wait.
func (b *Budget) TryAcquire(bytes int64) (release func(), ok bool) {
	if bytes > b.limit || !b.used.TryAcquire(bytes) {
		return nil, false
	}
	return func() { b.used.Release(bytes) }, true
}

// Default returns half of the memory that the process may use, and at least 128 MiB. It uses the
// lesser limit of GOMEMLIMIT and of the control group mounted at root. If neither sets a limit, it
// returns 1 GiB.
func Default(root string) int64 {
	return memlimit.Share{Root: root, Divisor: 2, Least: least, Fallback: fallback}.Bytes()
}
