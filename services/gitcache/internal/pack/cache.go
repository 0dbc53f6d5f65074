// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package pack

// cache keeps what was read last in two slabs of memory. When the young one is full the old one is forgotten and takes its
// place; what is asked for in the old one moves to the young one. So nothing is allocated for an object, and what get and
// room returned last stays as it is while the next object is made of it. Slabs begin small: most readers read little.
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

func (c *cache) get(at place) (Object, bool) {
	if o, ok := c.young.objects[at]; ok {
		return o, true
	}
	o, ok := c.old.objects[at]
	if !ok {
		return Object{}, false
	}
	if !c.young.fits(len(o.Data)) { // it would be overwritten before it is copied
		return Object{kind: o.kind, Data: append([]byte(nil), o.Data...)}, true
	}
	copy(c.young.take(at, o.kind, len(o.Data)), o.Data)
	return c.young.objects[at], true
}

// room returns memory for an object that the caller fills at once, or drops. A large one is not kept: it would leave no
// place for others.
func (c *cache) room(at place, kind kind, size int64) []byte {
	if size > int64(c.limit)/4 {
		return make([]byte, size)
	}
	for !c.young.fits(int(size)) {
		c.turn()
	}
	return c.young.take(at, kind, int(size))
}

// turn makes room. While slabs are small nothing is forgotten but what the oldest, smallest one holds.
func (c *cache) turn() {
	size := min(2*len(c.young.memory), c.limit)
	c.young, c.old = c.old, c.young
	if len(c.young.memory) < size {
		c.young = newSlab(size)
		return
	}
	c.young.clear()
}

func (c *cache) drop(at place) { delete(c.young.objects, at) }

func (s *slab) fits(size int) bool { return s.used+size <= len(s.memory) }

func (s *slab) take(at place, kind kind, size int) []byte {
	data := s.memory[s.used : s.used+size : s.used+size]
	s.used += size
	s.objects[at] = Object{kind: kind, Data: data}
	return data
}

func (s *slab) clear() {
	s.used = 0
	clear(s.objects)
}
