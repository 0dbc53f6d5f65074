// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"cmp"
	"fmt"
	"io"
	"time"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/document"
	"github.com/leatdev/leat/internal/contract/objectname"
)

// Rows is a table of one kind. It remembers column widths, so that rows printed later are aligned.
type Rows struct {
	kind kind
	grid *grid
	// hasProject means that the first column is the object's project.
	hasProject bool
	// followed holds what Follow wrote last of each object, formatted at the zero time, so that
	// ages do not matter.
	followed map[string]string
}

// NewTable returns an empty table for a kind.
func NewTable(style Style, kind string) *Rows {
	k := kindOf(kind)
	return &Rows{kind: k, grid: newGrid(style, k.columns...), followed: map[string]string{}}
}

// NewProjectsTable returns an empty table for a kind whose objects belong to several projects.
func NewProjectsTable(style Style, kind string) *Rows {
	k := kindOf(kind)
	columns := append([]string{"PROJECT"}, k.columns...)
	return &Rows{kind: k, grid: newGrid(style, columns...), hasProject: true, followed: map[string]string{}}
}

// Print writes objects as rows, below a header the first time.
func (r *Rows) Print(w io.Writer, now time.Time, objects []*fleetv1.Document) error {
	rows := make([][]cell, len(objects))
	for i, object := range objects {
		rows[i] = r.cells(object, now)
	}
	return r.grid.write(w, rows)
}

func (r *Rows) cells(object *fleetv1.Document, now time.Time) []cell {
	cells := r.kind.cells(object, now)
	if !r.hasProject {
		return cells
	}
	project := cmp.Or(document.Metadata(object).GetProject(), objectname.Default)
	return append([]cell{plain(project)}, cells...)
}

// Follow writes an object that changed as a row, unless the change does not show in any column, or
// only in an age: clusters change every second in fields that the table omits.
func (r *Rows) Follow(w io.Writer, now time.Time, object *fleetv1.Document) error {
	_, name := document.Identify(object)
	says := fmt.Sprint(r.cells(object, time.Time{}))
	if r.followed[name] == says {
		return nil
	}
	r.followed[name] = says
	return r.Print(w, now, []*fleetv1.Document{object})
}

// Forget makes Follow write the object again, like a new one.
func (r *Rows) Forget(name string) { delete(r.followed, name) }
