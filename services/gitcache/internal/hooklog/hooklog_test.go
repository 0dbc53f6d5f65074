// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package hooklog_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/services/gitcache/internal/hooklog"
)

func TestRefsAreBounded(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff([]string{"main", "a", "b", "c"}, hooklog.Refs([]string{"main", "", "main", "a", "b", "c", "d"})); diff != "" {
		t.Errorf("refs (-want +got):\n%s", diff)
	}
	long := hooklog.Refs([]string{strings.Repeat("ä", 1000), "\xff"})
	if len(long[0]) != 200 || !utf8.ValidString(long[0]) || !utf8.ValidString(long[1]) {
		t.Errorf("got %d bytes and %q, want 200 bytes of UTF-8, and UTF-8", len(long[0]), long[1])
	}
}

func TestMergeHasTheNewestFirst(t *testing.T) {
	t.Parallel()
	at := func(second int64, outcome hooklog.Outcome) hooklog.Record {
		return hooklog.Record{Time: time.Unix(second, 0).UTC(), Provider: "github", Outcome: outcome}
	}
	got := hooklog.Merge(
		[]hooklog.Record{at(5, hooklog.Accepted), at(1, hooklog.Accepted)},
		[]hooklog.Record{at(9, hooklog.Ping), at(3, hooklog.WrongKey)},
	)
	want := []hooklog.Record{at(9, hooklog.Ping), at(5, hooklog.Accepted), at(3, hooklog.WrongKey), at(1, hooklog.Accepted)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}
