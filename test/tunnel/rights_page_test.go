// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"os"
	"strings"
	"testing"
)

// rightsRow is a row of a table of docs/reference/rights.md.
type rightsRow struct {
	// name is the call or the request.
	name string
	// cells are the answers to people, by the name of their column.
	cells map[string]string
}

// rightsTable returns the rows below a heading of docs/reference/rights.md, which a test of the
// distributor generates from the options of the calls and from the built-in roles. The tests here
// hold the page against a running hub: people's answers must match it.
func rightsTable(t *testing.T, heading string) []rightsRow {
	t.Helper()
	page, err := os.ReadFile("../../docs/reference/rights.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(page), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("docs/reference/rights.md has no section %q", heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var columns []string
	var rows []rightsRow
	for line := range strings.Lines(section) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|---") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.Trim(strings.TrimSpace(cells[i]), "`")
		}
		if columns == nil {
			columns = cells
			continue
		}
		row := rightsRow{name: cells[0], cells: map[string]string{}}
		for i, cell := range cells {
			row.cells[columns[i]] = cell
		}
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		t.Fatalf("docs/reference/rights.md has no row below %q", heading)
	}
	return rows
}
