// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uplink

import "sync"

// copyBuffer is how much is copied at once. Every running request holds one such buffer, watches for hours, and upgraded
// connections hold two.
const copyBuffer = 32 << 10

// buffers lends the buffers for copying.
type buffers struct {
	pool sync.Pool // of *[copyBuffer]byte
}

// Get implements httputil.BufferPool.
func (b *buffers) Get() []byte {
	if buffer, ok := b.pool.Get().(*[copyBuffer]byte); ok {
		return buffer[:]
	}
	return make([]byte, copyBuffer)
}

// Put implements httputil.BufferPool.
func (b *buffers) Put(buffer []byte) {
	if len(buffer) == copyBuffer {
		b.pool.Put((*[copyBuffer]byte)(buffer))
	}
}
