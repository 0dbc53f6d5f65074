// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package pack

import (
	"context"
	"io"
)

// The bounds are exported for tests that reach them.
const (
	MaxChain  = maxChain
	MaxParsed = maxParsed
	WorkBase  = workBase
)

// ReceiveWithin is [Receive] with another bound on the bytes that deltas produce: work, and one
// more for each byte of the pack.
func ReceiveWithin(ctx context.Context, dir string, r io.Reader, memory Memory, work int64) (Received, error) {
	l := defaultLimits
	l.base, l.perByteWork = work, 1
	return receive(ctx, dir, r, memory, l)
}
