// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/services/agent/internal/report"
)

// TestWarnings bounds what renderers warn of.
func TestWarnings(t *testing.T) {
	t.Parallel()
	var seven []string
	for i := range 7 {
		seven = append(seven, fmt.Sprint("warning ", i))
	}
	for name, test := range map[string]struct{ all, want []string }{
		"none":        {},
		"twice":       {[]string{"a", "b", "a"}, []string{"a", "b"}},
		"empty":       {[]string{"", " \n"}, nil},
		"in one line": {[]string{"a\n  b\tc\x1b[31md\x00"}, []string{"a b c [31md"}},
		"five":        {seven[:5], seven[:5]},
		"seven":       {seven, append(seven[:4:4], "3 more warnings stand in the agent's log")},
	} {
		if diff := cmp.Diff(test.want, report.Warnings(test.all)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	long := report.Warnings([]string{strings.Repeat("ü", 150)})[0]
	if len(long) > report.MaxWarning || !utf8.ValidString(long) || !strings.HasSuffix(long, "…") {
		t.Errorf("a long warning: got %d bytes, %q", len(long), long)
	}
}
