// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2

import "sync"

// inbox holds what a stream has received and nobody has read, in chunks that are lent from pools. One goroutine fills it and one
// empties it, each in two steps, so that bytes are copied without the connection's lock: between the steps a chunk belongs to
// the one that is at it.
type inbox struct {
	chunks  []*chunk
	size    int
	filling bool // the last chunk is being filled
}

// chunk is a piece of memory of which buf[r:w] is unread.
type chunk struct {
	r, w int
	buf  []byte
}

// bulk is how much data is handled at once. With the heads of one frame or two it fills records of TLS, which have 16 KiB. Who reads
// pieces of another size leaves crumbs, each of which then travels as a frame of its own.
const bulk = 2 * (32<<10 - frameHeadLen)

// chunkSizes are how large chunks are: for events and small answers, for larger ones, and for frames in bulk.
var chunkSizes = [...]int{2 << 10, 16 << 10, bulk}

// leastRoom is what is used of a chunk for the beginning of a frame that does not fit.
const leastRoom = 4 << 10

var chunkPools [len(chunkSizes)]sync.Pool

// newChunk returns a chunk that has room for so many bytes, or is of the largest size.
func newChunk(bytes int) *chunk {
	class := 0
	for class < len(chunkSizes)-1 && chunkSizes[class] < bytes {
		class++
	}
	if c, ok := chunkPools[class].Get().(*chunk); ok {
		return c
	}
	return &chunk{buf: make([]byte, chunkSizes[class])}
}

func (c *chunk) free() {
	c.r, c.w = 0, 0
	for class, size := range chunkSizes {
		if len(c.buf) == size {
			chunkPools[class].Put(c)
		}
	}
}

// reserve returns where to put some of so many bytes, until commit.
func (b *inbox) reserve(bytes int) (*chunk, []byte) {
	b.filling = true
	if n := len(b.chunks); n > 0 {
		last := b.chunks[n-1]
		if room := len(last.buf) - last.w; room >= bytes || room >= leastRoom {
			return last, last.buf[last.w:min(len(last.buf), last.w+bytes)]
		}
	}
	last := newChunk(bytes)
	b.chunks = append(b.chunks, last)
	return last, last.buf[:min(len(last.buf), bytes)]
}

// commit says that the reserved bytes are there.
func (b *inbox) commit(c *chunk, bytes int) {
	b.filling = false
	c.w += bytes
	b.size += bytes
}

// front returns what is there first, as much as there is room for in to. Only its capacity counts.
func (b *inbox) front(to [][]byte, bytes int) [][]byte {
	for _, c := range b.chunks {
		if n := min(c.w-c.r, bytes); n > 0 {
			to, bytes = append(to, c.buf[c.r:c.r+n]), bytes-n
		}
		if len(to) == cap(to) {
			break
		}
	}
	return to
}

// consume takes off what was copied from the front.
func (b *inbox) consume(bytes int) {
	b.size -= bytes
	for len(b.chunks) > 0 {
		first := b.chunks[0]
		n := min(bytes, first.w-first.r)
		first.r, bytes = first.r+n, bytes-n
		if first.r < first.w || len(b.chunks) == 1 && b.filling {
			return
		}
		b.chunks = b.chunks[1:]
		first.free()
	}
}

// drop forgets everything, and returns how much that was. Somebody may be at a chunk, so that they are not lent again.
func (b *inbox) drop() int {
	size := b.size
	*b = inbox{}
	return size
}
