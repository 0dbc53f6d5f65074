// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package runs_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/test/runs"
)

// TestRecord adds a run to a record: a pass is dated, a failure and a skipped test keep their row.
func TestRecord(t *testing.T) {
	t.Parallel()
	const (
		head = "text before\n\n|---|---|---|\n"
		rows = "| a TestFails | 2026-01-01 | 1111111 |\n| a TestPasses | 2026-01-01 | 1111111 |\n| a TestSkipped | 2026-01-02 | 2222222 |\n"
		run  = `
{"Action":"pass","Package":"m/a","Test":"TestPasses/one"}
{"Action":"pass","Package":"m/a","Test":"TestPasses"}
{"Action":"fail","Package":"m/a","Test":"TestFails"}
{"Action":"fail","Package":"m/b","Test":"TestFailsAtFirst"}
{"Action":"pass","Package":"m/b","Test":"TestFailsAtFirst"}
{"Action":"fail","Package":"m/b","Test":"TestNeverPassed"}
{"Action":"skip","Package":"m/a","Test":"TestSkipped"}
{"Action":"pass","Package":"m/a"}
`
	)
	record, err := runs.ParseRecord(head + rows)
	if err != nil {
		t.Fatal(err)
	}
	report, err := runs.Read(strings.NewReader(run))
	if err != nil {
		t.Fatal(err)
	}
	record.Add(report, "m", "2026-03-03", "3333333")
	_, got, _ := strings.Cut(record.String(), "|---|---|---|\n")
	const want = `| a TestFails | 2026-01-01 | 1111111 |
| a TestPasses | 2026-03-03 | 3333333 |
| a TestSkipped | 2026-01-02 | 2222222 |
| b TestFailsAtFirst | 2026-03-03 | 3333333 |
| b TestNeverPassed | not recorded | not recorded |
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	again, err := runs.ParseRecord(record.String())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(record, again); diff != "" {
		t.Errorf("the page read again (-want +got):\n%s", diff)
	}
}

func TestRecordRefusesOtherPages(t *testing.T) {
	t.Parallel()
	if got, err := runs.ParseRecord("|---|---|---|\n| a TestOne | yesterday |\n"); err == nil {
		t.Errorf("got %v, want an error", got)
	}
	if got, err := runs.ParseRecord(""); err != nil || len(got) != 0 {
		t.Errorf("an empty page: got %v and %v, want an empty record", got, err)
	}
}
