// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/leatdev/leat/cli/internal/explain"
)

// maxDefault bounds a default in a table, in characters.
const maxDefault = 40

// Settings prints a report as tables.
func Settings(w io.Writer, style Style, report explain.Report) error {
	text := ""
	if len(report.Parameters) > 0 {
		text = newRows(style, "PARAMETER", "TYPE", "DEFAULT", "WHERE").render(settingCells(report.Parameters))
	}
	for _, chart := range slices.Sorted(maps.Keys(report.Values)) {
		if text != "" {
			text += "\n"
		}
		text += newRows(style, "VALUE OF "+oneLine(chart), "TYPE", "DEFAULT", "WHERE").render(settingCells(report.Values[chart]))
	}
	_, err := io.WriteString(w, text)
	return err
}

func settingCells(settings []explain.Setting) [][]cell {
	rows := make([][]cell, len(settings))
	for i, s := range settings {
		rows[i] = []cell{plain(s.Name), plain(s.Type), defaultCell(s), plain(places(s.Where))}
	}
	return rows
}

// defaultCell shows a default, or that somebody has to set the value.
func defaultCell(s explain.Setting) cell {
	switch {
	case s.Default == nil && s.IsRequired:
		return cell{"required", yellow}
	case s.Default == nil:
		return plain("")
	case *s.Default == "":
		return cell{text: `""`}
	}
	text := oneLine(*s.Default)
	if utf8.RuneCountInString(text) > maxDefault {
		text = string([]rune(text)[:maxDefault-1]) + "…"
	}
	return cell{text: text}
}

// places shows the first place, and how many more there are.
func places(all []string) string {
	switch len(all) {
	case 0:
		return ""
	case 1:
		return all[0]
	default:
		return fmt.Sprintf("%s and %d more", all[0], len(all)-1)
	}
}
