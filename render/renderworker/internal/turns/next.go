// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package turns

// holder describes a render that holds a turn, for next.
type holder struct {
	isSlow    bool
	wasSlow   bool // it was slow when it began
	isStopped bool // it was told to end, and has not ended yet
}

// action is the next action of a Queue.
type action int

const (
	rest  action = iota // nothing
	begin               // the render at a place among the waiting ones
	stop                // the render at a place among the ones with a turn
)

// next returns what to do now, and with which render. Holders are in the order in which they began.
// The others wait, in the order in which they asked: isSlow reports whether each is slow.
//
// A turn that is free goes to the first that may have it: a slow render only if a turn is left
// without it, or if there is only one turn. If slow renders hold all turns while another render
// waits, the one that began last is stopped. Renders that were slow at their beginning are left
// alone: others have become slow beside them, so a render is stopped at most once.
func next(turns int, holders []holder, isSlow []bool) (action, int) {
	mostSlow := max(turns-1, 1)
	holding, staying, last := 0, 0, -1
	for i, h := range holders {
		if !h.isSlow {
			continue
		}
		holding++
		if !h.isStopped {
			staying++
		}
		if !h.isStopped && !h.wasSlow {
			last = i
		}
	}
	for i, slow := range isSlow {
		switch {
		case len(holders) < turns && (!slow || holding < mostSlow):
			return begin, i
		case len(holders) == turns && !slow && staying > mostSlow && last >= 0:
			return stop, last
		}
	}
	return rest, -1
}
