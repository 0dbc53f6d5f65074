// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package pack

import (
	"context"
	"io"
	"strings"
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

// Verify reads a pack and its index whole and makes sure that both match their checksums and one
// another.
func Verify(ctx context.Context, path string) error {
	index, err := ReadIndex(strings.TrimSuffix(path, ".pack") + ".idx")
	if err != nil {
		return err
	}
	return verifySum(ctx, path, index.data[len(index.data)-2*sumSize:len(index.data)-sumSize])
}
