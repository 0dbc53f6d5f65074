// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package pack

// cache keeps the latest reads in two slabs of memory. When the young one is full it becomes the
// old one, which is let go of; an object that is read from the old one moves to the young one.
// Memory is never used again, so that handed out objects stay as they are. Slabs begin small: most
// readers read little.
type cache struct {
	limit      int // bytes of each slab
	young, old slab
}

const firstSlab = 64 << 10

type slab struct {
	memory  []byte
	used    int
	objects map[place]Object
}

func newCache(size int) *cache {
	return &cache{limit: size / 2, young: newSlab(min(firstSlab, size/2))}
}

func newSlab(size int) slab {
	return slab{memory: make([]byte, size), objects: map[place]Object{}}
}

// get returns an object that was read before. Its data stays as it is for as long as the caller
// wants, because slabs are dropped and not used again.
func (c *cache) get(at place) (Object, bool) {
	if o, ok := c.young.objects[at]; ok {
		return o, true
	}
	o, ok := c.old.objects[at]
	if !ok {
		return Object{}, false
	}
	if c.young.fits(len(o.Data)) {
		copy(c.young.take(at, o.Kind, len(o.Data)), o.Data)
	}
	return o, true
}

// room returns memory for an object that the caller fills at once, or drops. A large one is not
// kept: it would leave no place for others.
func (c *cache) room(at place, kind string, size int64) []byte {
	if size > int64(c.limit)/4 {
		return make([]byte, size)
	}
	for !c.young.fits(int(size)) {
		c.turn()
	}
	return c.young.take(at, kind, int(size))
}

// turn makes room: the old slab is dropped, and a new one becomes the young one, of twice the size
// until the limit.
func (c *cache) turn() {
	c.old, c.young = c.young, newSlab(min(2*len(c.young.memory), c.limit))
}

// drop forgets an object whose memory was not filled.
func (c *cache) drop(at place) { delete(c.young.objects, at) }

func (s *slab) fits(size int) bool { return s.used+size <= len(s.memory) }

// take cuts memory for an object from the slab, which has room for it.
func (s *slab) take(at place, kind string, size int) []byte {
	data := s.memory[s.used : s.used+size : s.used+size]
	s.used += size
	s.objects[at] = Object{Kind: kind, Data: data}
	return data
}
