// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirror_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

func TestRefs(t *testing.T) {
	refs := func(pairs ...string) mirror.Refs {
		var list []mirror.Ref
		for i := 0; i < len(pairs); i += 2 {
			list = append(list, mirror.Ref{Name: pairs[i], Object: pairs[i+1], Commit: pairs[i+1]})
		}
		return mirror.NewRefs(list)
	}
	old := refs("refs/heads/b", "1", "refs/heads/a", "1", "refs/tags/v", "1")
	young := refs("refs/heads/a", "1", "refs/heads/b", "2", "refs/heads/c", "3")
	if diff := cmp.Diff([]string{"refs/heads/b", "refs/heads/c", "refs/tags/v"}, old.Changed(young)); diff != "" {
		t.Errorf("changed (-want +got):\n%s", diff)
	}
	if got := old.Below("refs/heads/", "refs/heads/a", 10); len(got) != 1 || got[0].Name != "refs/heads/b" {
		t.Errorf("got %v after a, want b only", got)
	}
	onB, onC := mirror.Content{Refs: old, DefaultBranch: "refs/heads/b"}, mirror.Content{Refs: young, DefaultBranch: "refs/heads/c"}
	if diff := cmp.Diff([]string{"HEAD", "refs/heads/b", "refs/heads/c", "refs/tags/v"}, onB.Changed(onC)); diff != "" {
		t.Errorf("changed with HEAD (-want +got):\n%s", diff)
	}
	content := mirror.Content{Refs: young, DefaultBranch: "refs/heads/gone", Head: "9"}
	for selector, want := range map[mirror.Selector]string{
		{}:                                      "9",
		{Kind: mirror.SelectBranch, Value: "c"}: "3",
		{Kind: mirror.SelectName, Value: "refs/heads/a"}:   "1",
		{Kind: mirror.SelectName, Value: "HEAD"}:           "9",
		{Kind: mirror.SelectCommit, Value: "abc"}:          "abc",
		{Kind: mirror.SelectTag, Value: "v"}:               "",
		{Kind: mirror.SelectBranch, Value: "refs/heads/a"}: "",
	} {
		got, err := content.Resolve(selector)
		if got != want || (want == "") != errors.Is(err, mirror.ErrRefNotFound) {
			t.Errorf("%s: got %q (%v), want %q", selector, got, err, want)
		}
	}
}

// TestNoticesAreBounded keeps a state small and on the wire, whatever an upstream puts into it.
func TestNoticesAreBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", mirror.MaxNoticeBytes)
	got := mirror.BoundNotices(append(slices.Repeat([]string{long}, 50), "end"))
	if len(got) != mirror.MaxNotices {
		t.Errorf("got %d notices, want %d", len(got), mirror.MaxNotices)
	}
	for _, notice := range got {
		if len(notice) > mirror.MaxNoticeBytes || !utf8.ValidString(notice) || !strings.HasSuffix(notice, "…") {
			t.Errorf("got %d bytes, ending in %q", len(notice), notice[len(notice)-6:])
		}
	}
	if got := mirror.BoundNotices([]string{"a\xffb"}); !slices.Equal(got, []string{"ab"}) {
		t.Errorf("got %q", got)
	}
}
