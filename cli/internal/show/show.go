// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package show prints objects of the fleet for people, as tables, and for programs, as JSON or
// YAML.
package show

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/leatdev/leat/cli/internal/terminal"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/document"
	"github.com/leatdev/leat/internal/objectname"
)

// Format is an output format.
type Format string

// The formats.
const (
	Table Format = "table"
	JSON  Format = "json"
	YAML  Format = "yaml"
)

// Formats returns all formats, for messages.
func Formats() []string { return []string{string(Table), string(JSON), string(YAML)} }

// String, Set and Type make a Format a flag.
func (f *Format) String() string { return string(*f) }

// Set implements pflag.Value.
func (f *Format) Set(text string) error {
	switch Format(text) {
	case Table, JSON, YAML:
		*f = Format(text)
		return nil
	default:
		return fmt.Errorf("want one of %s%s", strings.Join(Formats(), ", "), document.Suggest(text, Formats()))
	}
}

// Type implements pflag.Value.
func (f *Format) Type() string { return strings.Join(Formats(), "|") }

// Style describes the capabilities of the terminal.
type Style struct{ Color bool }

// Objects prints objects of one kind in the given format, with times relative to now.
func Objects(w io.Writer, format Format, style Style, now time.Time, kind string, objects []*fleetv1.Document) error {
	switch format {
	case JSON:
		return document.WriteJSONList(w, objects)
	case YAML:
		return document.WriteYAML(w, objects...)
	default:
		return NewTable(style, kind).Print(w, now, objects)
	}
}

// Object prints one object.
func Object(w io.Writer, format Format, style Style, now time.Time, object *fleetv1.Document) error {
	switch format {
	case JSON:
		return document.WriteJSON(w, object)
	case YAML:
		return document.WriteYAML(w, object)
	default:
		kind, _ := document.Identify(object)
		text := NewTable(style, kind).render([][]cell{cellsOf(object, now)})
		if kind == "Cluster" {
			text += cluster(style, now, object.GetCluster())
		}
		text += notices(style, object.GetRepository().GetStatus())
		report := object.GetService().GetStatus().GetReport()
		_, err := io.WriteString(w, text+drift(style, report.GetDrift())+tests(style, report.GetTests())+dryRun(style, report.GetDryRun())+
			renderWarnings(report.GetWarnings())+author(now, object))
		return err
	}
}

// items prints messages that are not documents: as JSON or YAML, or as rows.
func items[M proto.Message](w io.Writer, format Format, rows *Rows, messages []M, cells func(M) []cell) error {
	switch format {
	case JSON:
		return document.WriteJSONItems(w, messages)
	case YAML:
		return document.WriteYAMLItems(w, messages)
	default:
	}
	table := make([][]cell, len(messages))
	for i, message := range messages {
		table[i] = cells(message)
	}
	return rows.write(w, table)
}

// cell is one field of a table.
type cell struct {
	text  string
	color string // ANSI colour, or empty
}

const (
	red    = terminal.Red
	green  = terminal.Green
	yellow = terminal.Yellow
	faint  = terminal.Faint
)

func plain(text string) cell {
	return cell{text: cmp.Or(text, "-")}
}

// paint colours text if the style allows it.
func (s Style) paint(text, color string) string {
	if !s.Color || color == "" {
		return text
	}
	return terminal.Paint(text, color)
}

// Good is the style of a good state.
func (s Style) Good(text string) string { return s.paint(text, green) }

// Bad is the style of a state that needs attention.
func (s Style) Bad(text string) string { return s.paint(text, red) }

// Warn is the style of a state in transition.
func (s Style) Warn(text string) string { return s.paint(text, yellow) }

// Faint is the style of less important text.
func (s Style) Faint(text string) string { return s.paint(text, faint) }

// Rows is a table of one kind. It remembers column widths, so that rows printed later are aligned.
type Rows struct {
	style   Style
	columns []string // titles
	widths  []int
	headed  bool
	// hasProject means that the first column is the object's project.
	hasProject bool
	// followed holds what Follow wrote last of each object, formatted at the zero time, so that
	// ages do not matter.
	followed map[string]string
}

// NewTable returns an empty table for a kind.
func NewTable(style Style, kind string) *Rows {
	return newRows(style, columnsOf(kind)...)
}

// NewProjectsTable returns an empty table for a kind whose objects belong to several projects.
func NewProjectsTable(style Style, kind string) *Rows {
	rows := newRows(style, append([]string{"PROJECT"}, columnsOf(kind)...)...)
	rows.hasProject = true
	return rows
}

func newRows(style Style, columns ...string) *Rows {
	widths := make([]int, len(columns))
	for i, title := range columns {
		widths[i] = len(title)
	}
	return &Rows{style: style, columns: columns, widths: widths, followed: map[string]string{}}
}

// Print writes objects as rows, below a header the first time.
func (r *Rows) Print(w io.Writer, now time.Time, objects []*fleetv1.Document) error {
	rows := make([][]cell, len(objects))
	for i, object := range objects {
		rows[i] = r.cells(object, now)
	}
	return r.write(w, rows)
}

func (r *Rows) cells(object *fleetv1.Document, now time.Time) []cell {
	cells := cellsOf(object, now)
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

func (r *Rows) write(w io.Writer, rows [][]cell) error {
	_, err := io.WriteString(w, r.render(rows))
	return err
}

// render returns the rows as text, below a header the first time.
func (r *Rows) render(rows [][]cell) string {
	for _, row := range rows {
		for j := range row {
			row[j].text = oneLine(row[j].text) // much of the text comes from clusters
			r.widths[j] = max(r.widths[j], utf8.RuneCountInString(row[j].text))
		}
	}
	var out strings.Builder
	if !r.headed {
		r.headed = true
		header := make([]cell, len(r.columns))
		for i, title := range r.columns {
			header[i] = cell{text: title, color: faint}
		}
		r.row(&out, header)
	}
	for _, row := range rows {
		r.row(&out, row)
	}
	return out.String()
}

func (r *Rows) row(out *strings.Builder, cells []cell) {
	const gap = 3
	for len(cells) > 1 && cells[len(cells)-1].text == "" {
		cells = cells[:len(cells)-1] // no blanks at the end of a line
	}
	for i, c := range cells {
		out.WriteString(r.style.paint(c.text, c.color))
		if i < len(cells)-1 {
			out.WriteString(strings.Repeat(" ", r.widths[i]-utf8.RuneCountInString(c.text)+gap))
		}
	}
	out.WriteByte('\n')
}
