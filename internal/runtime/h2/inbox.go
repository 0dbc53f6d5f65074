// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2

import "sync"

// inbox holds the received and unread bytes of a stream, in chunks from pools. The connection's
// lock guards it. The reader of the connection fills it, and one goroutine of the stream empties
// it. Each does so in two steps (reserve and commit, front and consume), and copies bytes between
// them without the lock. Between the steps the first goroutine owns the free part of the last
// chunk, and the second the unread part of the chunks that front has returned. So neither step
// frees a chunk that the other goroutine uses.
type inbox struct {
	chunks    []*chunk
	size      int
	isFilling bool // the last chunk is reserved
}

// chunk is a piece of memory of which buf[r:w] is unread.
type chunk struct {
	r, w int
	buf  []byte
}

// bulk is how much data is handled at once. With the heads of one frame or two it fills records of
// TLS, which have 16 KiB. Pieces of another size would leave remainders, each of which then travels
// as a frame of its own.
const bulk = 2 * (32<<10 - frameHeadLen)

// chunkSizes are the sizes of chunks: for events and small answers, for larger ones, and for frames
// in bulk.
var chunkSizes = [...]int{2 << 10, 16 << 10, bulk}

// leastRoom is the free room for which a chunk takes the beginning of a frame that does not fit.
const leastRoom = 4 << 10

var chunkPools [len(chunkSizes)]sync.Pool

// newChunk returns a chunk with room for so many bytes, or of the largest size.
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

// free gives a chunk back to its pool. No goroutine may still use its bytes.
func (c *chunk) free() {
	c.r, c.w = 0, 0
	for class, size := range chunkSizes {
		if len(c.buf) == size {
			chunkPools[class].Put(c)
		}
	}
}

// reserve returns room for some of so many bytes, which the caller owns until commit.
func (b *inbox) reserve(bytes int) (*chunk, []byte) {
	b.isFilling = true
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

// commit adds bytes that the caller has put into the reserved room.
func (b *inbox) commit(c *chunk, bytes int) {
	b.isFilling = false
	c.w += bytes
	b.size += bytes
}

// front returns the oldest unread bytes, at most so many, and in at most as many pieces as to has
// capacity for. They stay in the inbox until consume.
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

// consume removes bytes that were copied from the front.
func (b *inbox) consume(bytes int) {
	b.size -= bytes
	for len(b.chunks) > 0 {
		first := b.chunks[0]
		n := min(bytes, first.w-first.r)
		first.r, bytes = first.r+n, bytes-n
		if first.r < first.w || len(b.chunks) == 1 && b.isFilling {
			return
		}
		b.chunks = b.chunks[1:]
		first.free()
	}
}

// drop forgets everything, and returns how much that was. Another goroutine may use a chunk just
// now, so that they do not return to their pools.
func (b *inbox) drop() int {
	size := b.size
	*b = inbox{}
	return size
}
