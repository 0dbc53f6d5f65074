// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// notShown marks a row whose case has no test yet.
const notShown = "not shown yet"

// failureCases is the number of cases in docs/design/tunnel-failures.md.
const failureCases = 48

// TestTunnelFailures compares the table of the tunnel's failure cases with the tests that it names:
// each case has one row, and each row names existing tests, or states that there is none.
func TestTunnelFailures(t *testing.T) {
	t.Parallel()
	top := root(t)
	table, err := os.ReadFile(filepath.Join(top, "docs", "design", "tunnel-failures.md"))
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile(`(?m)^\| (F\d\d) \|.*\|$`)
	named := regexp.MustCompile("`(Test\\w+)` in `([^`]+)`")
	rows := make(map[string]int)
	for _, match := range row.FindAllStringSubmatch(string(table), -1) {
		line, number := match[0], match[1]
		rows[number]++
		tests := named.FindAllStringSubmatch(line, -1)
		if shown := !strings.Contains(line, notShown); shown != (len(tests) > 0) {
			t.Errorf("%s: names %d tests and %q is there: %t; want the one or the other", number, len(tests), notShown, !shown)
		}
		for _, test := range tests {
			if !strings.HasPrefix(test[1], "Test"+number) {
				t.Errorf("%s: names %s, want a test of its own number", number, test[1])
			}
			if !definesTest(t, filepath.Join(top, test[2]), test[1]) {
				t.Errorf("%s: there is no %s in %s", number, test[1], test[2])
			}
		}
	}
	for i := 1; i <= failureCases; i++ {
		if number := fmt.Sprintf("F%02d", i); rows[number] != 1 {
			t.Errorf("%s: got %d rows, want 1", number, rows[number])
		}
	}
}

// definesTest reports whether a test file of the folder defines the test.
func definesTest(t *testing.T, folder, test string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(content), "\nfunc "+test+"(t *testing.T) {") {
			return true
		}
	}
	return false
}
