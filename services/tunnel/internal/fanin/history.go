// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fanin

import (
	"slices"
	"sort"

	"github.com/leatdev/leat/internal/kit/wake"
)

// entryOverhead is the cost of an entry in addition to its bytes.
const entryOverhead = 96

// entry is one frame of a feed, or a piece of one.
type entry struct {
	data      []byte
	age       int64 // orders entries over all feeds
	offset    int64 // where it begins in the feed
	isFiller  bool  // nothing but white space
	isPiece   bool  // part of a frame that is too long to be kept whole
	continues bool  // the frame continues in the next entry

	isParsed bool // event and hasEvent are set
	event    event
	hasEvent bool // the frame is an event whose version can be compared
}

func (e *entry) cost() int { return len(e.data) + entryOverhead }

// end is where the next entry begins in the feed.
func (e *entry) end() int64 { return e.offset + int64(len(e.data)) }

// parse returns the event, which it reads once. ok is false if it has no comparable version.
func (e *entry) parse() (event, bool) {
	if !e.isParsed {
		e.isParsed = true
		if !e.isPiece {
			e.event, e.hasEvent = readEvent(e.data)
		}
	}
	return e.event, e.hasEvent
}

// cursor is one viewer's place in a history.
type cursor struct {
	next  int64       // number of the entry that it reads next
	after uint64      // skips events up to this version, until the first later one; zero skips none
	wake  wake.Signal // holds a token when there is something to read
}

func newCursor() *cursor { return &cursor{wake: wake.NewSignal()} }

// skips reports whether the viewer had seen the entry before it began.
func (c *cursor) skips(e *entry) bool {
	if c.after == 0 {
		return false
	}
	if e.isFiller {
		return true
	}
	event, ok := e.parse()
	if !ok || event.kind == kindError {
		return false
	}
	if event.version > c.after {
		c.after = 0 // versions grow: everything that follows is later, too
		return false
	}
	return true
}

// history holds the entries that a feed has sent, without the entries that were trimmed, and how
// far its viewers have read. Entries are numbered from zero over the feed's life. The feed's lock
// guards it.
type history struct {
	began    uint64 // the version after which the feed began; zero if it began with the state
	isJSON   bool   // only events in JSON have versions that can be compared
	entries  []entry
	first    int64 // number of entries[0]
	trimmed  entry // the last trimmed one that is not filler
	bytes    int   // cost of the entries
	appended int64 // bytes that the feed has sent
	reached  int64 // how many of them the fastest viewer has read
	cursors  map[*cursor]struct{}
}

// end is the number of the entry that comes next.
func (h *history) end() int64 { return h.first + int64(len(h.entries)) }

func (h *history) append(e entry) {
	e.offset = h.appended
	h.appended += int64(len(e.data))
	h.bytes += e.cost()
	h.entries = append(h.entries, e)
}

// isBehind reports whether the cursor has lost entries that it had not read.
func (h *history) isBehind(c *cursor) bool { return c.next < h.first }

// read returns the next entry that the cursor shows, or nil at the end of the history. The cursor
// must not be behind.
func (h *history) read(c *cursor) *entry {
	for c.next < h.end() {
		e := &h.entries[c.next-h.first]
		c.next++
		h.reached = max(h.reached, e.end())
		if !c.skips(e) {
			return e
		}
	}
	return nil
}

// droppable returns the entries that may go, oldest first: the entries that all viewers have read
// or, if unread ones may go as well, that at least one viewer has. The fastest viewer never loses
// anything, since a feed is not read so far ahead of it.
func (h *history) droppable(unread bool) []entry {
	n := sort.Search(len(h.entries), func(i int) bool { return h.entries[i].end() > h.reached })
	if unread {
		return h.entries[:n]
	}
	slowest := h.end()
	for c := range h.cursors {
		slowest = min(slowest, max(c.next, h.first))
	}
	return h.entries[:min(n, int(slowest-h.first))]
}

// drop forgets the n oldest entries.
func (h *history) drop(n int) {
	for i := range n {
		h.bytes -= h.entries[i].cost()
		if !h.entries[i].isFiller {
			h.trimmed = h.entries[i]
		}
	}
	h.entries = slices.Delete(h.entries, 0, n) // moves the rest to the front and clears the tail
	h.first += int64(n)
}

// trim brings a history that exceeds its own bounds an eighth below them, so that it is not due
// again at once.
func (h *history) trim(maxBytes, maxEvents int) {
	if h.bytes <= maxBytes && len(h.entries) <= maxEvents {
		return
	}
	entries, n, cost := h.droppable(true), 0, h.bytes
	for n < len(entries) && (cost > maxBytes-maxBytes/8 || len(h.entries)-n > maxEvents-maxEvents/8) {
		cost -= entries[n].cost()
		n++
	}
	h.drop(n)
}

// dropUntil drops the entries that may go and are not younger than age.
func (h *history) dropUntil(age int64, unread bool) {
	entries := h.droppable(unread)
	h.drop(sort.Search(len(entries), func(i int) bool { return entries[i].age > age }))
}

// place sets the cursor to where a viewer of a version begins, or leaves it as it is. The history
// serves a viewer of the feed's own version as long as nothing was trimmed, and others as seek
// does.
func (h *history) place(c *cursor, isSameVersion bool, after uint64) (ok bool) {
	if isSameVersion && h.first == 0 {
		c.next, c.after = 0, 0
		return true
	}
	next, ok := h.seek(after)
	if !ok {
		return false
	}
	if c.next, c.after = next, after; next == h.end() {
		h.reached = h.appended // a viewer that needs nothing of this is the fastest one
	}
	return true
}

// seek returns the number of the first entry that a watch from a version shows. ok is false if the
// history cannot tell: it begins later, or its versions cannot be compared or do not grow. Entries
// that are still to come may have to be skipped, as long as their version is not a later one.
func (h *history) seek(after uint64) (number int64, ok bool) {
	if !h.isJSON || after == 0 {
		return 0, false
	}
	// The state with which a feed begins comes in no order. The order begins with the first event
	// that is not part of it.
	last, ordered := h.began, h.began > 0
	if h.first > 0 {
		e, known := h.trimmed.parse()
		if !known || h.trimmed.isPiece {
			return 0, false
		}
		last, ordered = e.version, ordered || e.kind != kindAdded
	}
	if ordered && after < last {
		return 0, false
	}
	number = -1
	for i := range h.entries {
		if h.entries[i].isFiller {
			continue
		}
		e, known := h.entries[i].parse()
		switch {
		case !known:
			return 0, false
		case e.kind == kindError:
			continue // the last one, whatever its content
		case !ordered && e.kind == kindAdded:
			continue
		case !ordered && after < e.version:
			return 0, false
		case ordered && (e.version < last || e.version == last && e.kind != kindBookmark):
			return 0, false
		}
		last, ordered = e.version, true
		if number < 0 && e.version > after {
			number = h.first + int64(i)
		}
	}
	if number < 0 {
		number = h.end()
	}
	return number, ordered
}
