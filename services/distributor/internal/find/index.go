// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package find

import (
	"sync"

	"github.com/tidwall/btree"

	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/fanout"
)

// Fleet is where an Index reads. It is safe for concurrent use, and what it returns is not changed any
// more.
type Fleet interface {
	// Keys returns the keys of all objects.
	Keys() []catalog.Key
	// Describe returns the description of an object, or nil if it does not exist.
	Describe(key catalog.Key) *Row
	// Watch returns a watcher of all objects, which is notified after what Describe returns has changed.
	Watch() *fanout.Watcher[catalog.Key]
}

// Index keeps one row of each object. The first question fills it. It is safe for concurrent use.
type Index struct {
	fleet Fleet

	mu      sync.Mutex
	watcher *fanout.Watcher[catalog.Key] // nil before the first question
	rows    map[catalog.Kind]*rowSet
	// generation grows with every change.
	generation uint64
}

// rowSet holds rows by name.
type rowSet = btree.Map[string, *Row]

// NewIndex returns an empty Index.
func NewIndex(fleet Fleet) *Index { return &Index{fleet: fleet, rows: map[catalog.Kind]*rowSet{}} }

// Snapshot holds the rows of one kind as of one moment. It is for one goroutine.
type Snapshot struct {
	// Generation tells moments apart: two snapshots of a kind with the same are equal.
	Generation uint64
	rows       *rowSet
}

// Snapshot returns the rows of a kind, as they are now.
func (x *Index) Snapshot(kind catalog.Kind) Snapshot {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.refreshLocked()
	rows := x.rows[kind]
	if rows == nil {
		rows = &rowSet{}
	}
	return Snapshot{Generation: x.generation, rows: rows.Copy()}
}

// Objects returns the objects of the rows, by name.
func (s Snapshot) Objects() []catalog.Object {
	objects := make([]catalog.Object, 0, s.rows.Len())
	s.rows.Scan(func(_ string, row *Row) bool {
		objects = append(objects, row.Object)
		return true
	})
	return objects
}

// WithProblems returns the rows with problems that the fleet does not know, by the names of their objects. The
// first one of each is the row's.
func (s Snapshot) WithProblems(of map[string][]*catalog.Problem) Snapshot {
	rows := s.rows.Copy()
	for name, problems := range of {
		known, ok := rows.Get(name)
		if !ok || len(problems) == 0 {
			continue
		}
		row := *known
		row.Problem, row.Others, row.Since = problems[0], problems[1:], problems[0].Since
		rows.Set(name, &row)
	}
	return Snapshot{Generation: s.Generation, rows: rows}
}

// Generation returns the generation of a snapshot that were taken now.
func (x *Index) Generation() uint64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.refreshLocked()
	return x.generation
}

// refreshLocked reads what changed since the last time. After too many changes it reads everything.
func (x *Index) refreshLocked() {
	isFirst := x.watcher == nil
	if isFirst {
		// The watcher comes first, so that no change falls between the current objects and later changes.
		x.watcher = x.fleet.Watch()
	}
	changed, hasLagged := x.watcher.Take()
	switch {
	case isFirst || hasLagged:
		x.rows = map[catalog.Kind]*rowSet{}
		changed = x.fleet.Keys()
	case len(changed) == 0:
		return
	}
	x.generation++
	for _, key := range changed {
		rows := x.rows[key.Kind]
		if rows == nil {
			rows = &rowSet{}
			x.rows[key.Kind] = rows
		}
		if row := x.fleet.Describe(key); row != nil {
			rows.Set(key.Name, row)
		} else {
			rows.Delete(key.Name)
		}
	}
}
