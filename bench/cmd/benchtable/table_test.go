// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTable(t *testing.T) {
	t.Parallel()
	const printed = `goos: linux
BenchmarkBuild/files=100/leat-2          20   2000000 ns/op  10 B/op
BenchmarkBuild/files=100/peer=git-2      20   1000000 ns/op
BenchmarkBuild/files=100/leat-2          20   4000000 ns/op  30 B/op
BenchmarkBuild/files=100/leat-2          20   3000000 ns/op  20 B/op
BenchmarkTurns/leat-2                     1   100 ns/op
BenchmarkTurns/peer=other-2               1   200 ns/op
BenchmarkTurns/leat#01-2                  1   300 ns/op
BenchmarkTurns/peer=other#01-2            1   400 ns/op
BenchmarkCall                            20   1500 ns/op  2.5 p99-µs
PASS
`
	const want = `
## Build

| | | per operation | ratio to the peer | |
|---|---|---|---|---|
| files=100 | leat | 3.0 ms | 3.00 | 20 B/op |
| files=100 | peer=git | 1.0 ms |  |  |

## Turns

| | | per operation | ratio to the peer | |
|---|---|---|---|---|
|  | leat | 0.2 µs | 0.67 |  |
|  | peer=other | 0.3 µs |  |  |

## Call

| | | per operation | ratio to the peer | |
|---|---|---|---|---|
|  |  | 1.5 µs |  | 2.5 p99-µs |
`
	var got strings.Builder
	if err := run(strings.NewReader(printed), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

func TestNoTableOfAFailure(t *testing.T) {
	t.Parallel()
	for _, printed := range []string{"", "BenchmarkA 1 5 ns/op\n--- FAIL: BenchmarkB\nFAIL\n", "BenchmarkA 1 5\n"} {
		if err := run(strings.NewReader(printed), new(strings.Builder)); err == nil {
			t.Errorf("%q: got no error, want one", printed)
		}
	}
}
