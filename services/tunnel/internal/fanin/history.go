// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fanin

import "slices"

// entryOverhead is what an event costs beside its bytes.
const entryOverhead = 96

// entry is one frame of a feed.
type entry struct {
	data   []byte
	age    int64 // orders entries over all feeds
	offset int64 // where it begins in the feed
	filler bool  // nothing but white space
	piece  bool  // part of a frame that is too long to be kept whole
	more   bool  // the frame goes on in the next entry

	read    bool // event and ok are set
	event   event
	version bool
}

func (e *entry) cost() int { return len(e.data) + entryOverhead }

// parse reads the event once.
func (e *entry) parse() (event, bool) {
	if !e.read {
		e.read = true
		if !e.piece {
			e.event, e.version = readEvent(e.data)
		}
	}
	return e.event, e.version
}

// history is what a feed has sent, without what was trimmed. Its feed's lock protects it. Entries are numbered from zero
// over the feed's life.
type history struct {
	began    uint64 // the version behind which the feed began; zero when it began with the state
	json     bool
	entries  []entry
	first    int64 // number of entries[0]
	trimmed  entry // the last one that was trimmed and is no filler
	bytes    int   // cost of the entries
	appended int64 // bytes that the feed has sent
}

// next is the number of the entry that comes next.
func (h *history) next() int64 { return h.first + int64(len(h.entries)) }

// at returns an entry by its number.
func (h *history) at(number int64) *entry { return &h.entries[number-h.first] }

func (h *history) append(e entry) {
	e.offset = h.appended
	h.appended += int64(len(e.data))
	h.bytes += e.cost()
	h.entries = append(h.entries, e)
}

// drop forgets the n oldest entries and returns what they cost.
func (h *history) drop(n int) int {
	cost := 0
	for i := range n {
		cost += h.entries[i].cost()
		if !h.entries[i].filler {
			h.trimmed = h.entries[i]
		}
	}
	h.entries = slices.Delete(h.entries, 0, n) // moves the rest to the front and clears what was there
	h.first += int64(n)
	h.bytes -= cost
	return cost
}

// seek returns the number of the first entry that a watch from a version shows. ok is false when the history does not
// tell: it begins later, or its versions cannot be compared. Entries that come after may still have to be left out, as
// long as their version is not a later one.
func (h *history) seek(after uint64) (number int64, ok bool) {
	if !h.json || after == 0 {
		return 0, false
	}
	// A feed that began with the state sends it in no order; its order begins with the first other event.
	last, ordered := h.began, h.began > 0
	if h.first > 0 {
		e, known := h.trimmed.parse()
		if !known || h.trimmed.piece {
			return 0, false
		}
		last, ordered = e.version, ordered || e.kind != kindAdded
	}
	if ordered && after < last {
		return 0, false
	}
	number = -1
	for i := range h.entries {
		if h.entries[i].filler {
			continue
		}
		e, known := h.entries[i].parse()
		switch {
		case !known:
			return 0, false
		case e.kind == kindError:
			continue // the last one, whatever it says
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
		number = h.next()
	}
	return number, ordered
}
