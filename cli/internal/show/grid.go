// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"cmp"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// cell is one field of a table.
type cell struct {
	text  string
	color string // ANSI colour, or empty
}

// plain is a cell without a colour, or "-" for an empty text.
func plain(text string) cell {
	return cell{text: cmp.Or(text, "-")}
}

// grid is a table as text. It remembers column widths, so that rows written later are aligned.
type grid struct {
	style   Style
	columns []string // titles
	widths  []int
	headed  bool
}

func newGrid(style Style, columns ...string) *grid {
	widths := make([]int, len(columns))
	for i, title := range columns {
		widths[i] = len(title)
	}
	return &grid{style: style, columns: columns, widths: widths}
}

func (g *grid) write(w io.Writer, rows [][]cell) error {
	_, err := io.WriteString(w, g.render(rows))
	return err
}

// render returns the rows as text, below a header the first time.
func (g *grid) render(rows [][]cell) string {
	for _, row := range rows {
		for j := range row {
			row[j].text = oneLine(row[j].text) // much of the text comes from clusters
			g.widths[j] = max(g.widths[j], utf8.RuneCountInString(row[j].text))
		}
	}
	var out strings.Builder
	if !g.headed {
		g.headed = true
		header := make([]cell, len(g.columns))
		for i, title := range g.columns {
			header[i] = cell{text: title, color: faint}
		}
		g.row(&out, header)
	}
	for _, row := range rows {
		g.row(&out, row)
	}
	return out.String()
}

func (g *grid) row(out *strings.Builder, cells []cell) {
	const gap = 3
	for len(cells) > 1 && cells[len(cells)-1].text == "" {
		cells = cells[:len(cells)-1] // no blanks at the end of a line
	}
	for i, c := range cells {
		out.WriteString(g.style.paint(c.text, c.color))
		if i < len(cells)-1 {
			out.WriteString(strings.Repeat(" ", g.widths[i]-utf8.RuneCountInString(c.text)+gap))
		}
	}
	out.WriteByte('\n')
}

// oneLine returns a text on one line, without control characters.
func oneLine(text string) string { return strings.Join(strings.Fields(printable(text)), " ") }

// printable returns a text without control characters.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, text)
}
