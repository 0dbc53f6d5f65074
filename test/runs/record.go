// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package runs

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Entry says when a test passed, and at which commit. A test without a recorded pass has no Date.
type Entry struct {
	Date, Commit string
}

// Record holds the last pass of each test that few runs include. Its text is a page in Markdown.
type Record map[Test]Entry

// recordHead begins the page of a record. The rows of the table follow it.
const recordHead = `# Slow tests

` + "`make slow`" + ` runs the tests that need a real Vault, Gitea, Prometheus, sops, Traefik, Argo CD or Flux, or that take minutes, and writes this page.
A workflow does so every night.
A row says when the test passed for the last time, and at which commit.
A test that fails, or that lacks a program such as npm, keeps its row.
Commit the page after a run.

| test | passed on | at |
|---|---|---|
`

// never stands for the date and the commit of a test without a recorded pass.
const never = "not recorded"

// ParseRecord returns the record that String has written. An empty page is an empty record.
func ParseRecord(page string) (Record, error) {
	record := Record{}
	_, table, _ := strings.Cut(page, "|---|---|---|\n")
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 3 {
			return nil, fmt.Errorf("read record: %q is not a row of three cells", strings.TrimSpace(line))
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		path, name, _ := strings.Cut(cells[0], " ")
		entry := Entry{Date: cells[1], Commit: cells[2]}
		if entry.Date == never {
			entry = Entry{}
		}
		record[Test{Package: path, Name: name}] = entry
	}
	return record, nil
}

// Add writes the outcome of a run: the tests that passed get the date and the commit. A test that
// failed or was skipped keeps its entry. Subtests have no row of their own.
func (r Record) Add(report Report, prefix, date, commit string) {
	for test, passed := range report.roots {
		test.Package = strings.TrimPrefix(strings.TrimPrefix(test.Package, prefix), "/")
		if entry := r[test]; passed {
			r[test] = Entry{Date: date, Commit: commit}
		} else {
			r[test] = entry
		}
	}
}

// String returns the page, with a row for each test in the order of their names.
func (r Record) String() string {
	var page strings.Builder
	page.WriteString(recordHead)
	for _, test := range slices.SortedFunc(maps.Keys(r), func(a, b Test) int { return strings.Compare(a.String(), b.String()) }) {
		entry := r[test]
		if entry.Date == "" {
			entry = Entry{Date: never, Commit: never}
		}
		fmt.Fprintf(&page, "| %s | %s | %s |\n", test, entry.Date, entry.Commit)
	}
	return page.String()
}
