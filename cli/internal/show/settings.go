// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/leatdev/leat/cli/internal/explain"
)

// maxDefault bounds a default in a table, in characters.
const maxDefault = 40

// Settings prints a report as tables.
func Settings(w io.Writer, style Style, report explain.Report) error {
	text := ""
	if len(report.Parameters) > 0 {
		text = newGrid(style, "PARAMETER", "TYPE", "DEFAULT", "WHERE").render(settingCells(report.Parameters, used))
	}
	for _, chart := range slices.Sorted(maps.Keys(report.Values)) {
		if text != "" {
			text += "\n"
		}
		text += newGrid(style, "VALUE OF "+oneLine(chart), "TYPE", "DEFAULT", "WHERE").render(settingCells(report.Values[chart], set))
	}
	_, err := io.WriteString(w, text)
	return err
}

func settingCells(settings []explain.Setting, where func([]string) string) [][]cell {
	rows := make([][]cell, len(settings))
	for i, s := range settings {
		rows[i] = []cell{plain(s.Name), plain(s.Type), defaultCell(s), plain(where(s.Where))}
	}
	return rows
}

// defaultCell shows a default, or that the value is required.
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

// used shows the first place of a parameter, and how many more there are.
func used(places []string) string {
	if len(places) > 1 {
		return fmt.Sprintf("%s and %d more", places[0], len(places)-1)
	}
	return strings.Join(places, "")
}

// set shows the place of a value that overrides the others.
func set(places []string) string {
	if len(places) > 1 {
		return fmt.Sprintf("%s over %s", places[len(places)-1], places[0])
	}
	return strings.Join(places, "")
}
