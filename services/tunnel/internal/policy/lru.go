// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"container/list"
	"slices"
	"strconv"
)

// lru keeps the most recently used answers. It is not safe for concurrent use.
type lru struct {
	size    int
	order   *list.List // of *entry, most recently used first
	entries map[string]*list.Element
}

type entry struct {
	key    string
	answer answer
}

func newLRU(size int) *lru {
	return &lru{size: size, order: list.New(), entries: map[string]*list.Element{}}
}

func (l *lru) get(key string) (answer, bool) {
	element, ok := l.entries[key]
	if !ok {
		return answer{}, false
	}
	l.order.MoveToFront(element)
	e, ok := element.Value.(*entry)
	if !ok {
		return answer{}, false
	}
	return e.answer, true
}

func (l *lru) put(key string, a answer) {
	if element, ok := l.entries[key]; ok {
		element.Value = &entry{key: key, answer: a}
		l.order.MoveToFront(element)
		return
	}
	l.entries[key] = l.order.PushFront(&entry{key: key, answer: a})
	if l.order.Len() > l.size {
		oldest := l.order.Back()
		l.order.Remove(oldest)
		if e, ok := oldest.Value.(*entry); ok {
			delete(l.entries, e.key)
		}
	}
}

func (l *lru) remove(key string) {
	if element, ok := l.entries[key]; ok {
		l.order.Remove(element)
		delete(l.entries, key)
	}
}

// key is different for different questions: every part is preceded by its length. Groups are a set,
// so their order does not count.
func (q Question) key() string {
	var room [256]byte // enough for most
	key := room[:0]
	for _, part := range [...]string{q.Subject, q.SubjectUID, q.Credential, q.Cluster} {
		key = appendPart(key, part)
	}
	groups := q.Groups
	if !slices.IsSorted(groups) {
		groups = slices.Sorted(slices.Values(groups))
	}
	for i, group := range groups {
		if i == 0 || group != groups[i-1] {
			key = appendPart(key, group)
		}
	}
	return string(key)
}

func appendPart(key []byte, part string) []byte {
	key = strconv.AppendInt(key, int64(len(part)), 10)
	key = append(key, ':')
	return append(key, part...)
}
