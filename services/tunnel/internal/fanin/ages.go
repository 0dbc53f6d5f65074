// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fanin

import (
	"container/heap"
	"math"
)

// ages orders feeds by their oldest event that may go.
type ages []aged

type aged struct {
	feed *feed
	age  int64
}

// newAges leaves out feeds of which nothing may go.
func newAges(feeds []*feed, needed bool) *ages {
	a := make(ages, 0, len(feeds))
	for _, f := range feeds {
		if age := f.oldest(needed); age < math.MaxInt64 {
			a = append(a, aged{feed: f, age: age})
		}
	}
	heap.Init(&a)
	return &a
}

// oldest takes out the feed with the oldest event, and says up to which age its events are older than all others.
func (a *ages) oldest() (f *feed, until int64, ok bool) {
	if len(*a) == 0 {
		return nil, 0, false
	}
	first, ok := heap.Pop(a).(aged)
	until = math.MaxInt64
	if len(*a) > 0 {
		until = (*a)[0].age
	}
	return first.feed, until, ok
}

// put brings a feed back, unless nothing of it may go any more.
func (a *ages) put(f *feed, age int64) {
	if age < math.MaxInt64 {
		heap.Push(a, aged{feed: f, age: age})
	}
}

// Len implements heap.Interface.
func (a ages) Len() int { return len(a) }

// Less implements heap.Interface.
func (a ages) Less(i, j int) bool { return a[i].age < a[j].age }

// Swap implements heap.Interface.
func (a ages) Swap(i, j int) { a[i], a[j] = a[j], a[i] }

// Push implements heap.Interface.
func (a *ages) Push(x any) {
	if entry, ok := x.(aged); ok {
		*a = append(*a, entry)
	}
}

// Pop implements heap.Interface.
func (a *ages) Pop() any {
	last := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return last
}
