// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package helmrepo_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/testkit/charttest"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// TestUnusableEntriesAreNoticed reports entries that are left out, with every poll, for as long as
// the index has them; usable ones are delivered.
func TestUnusableEntriesAreNoticed(t *testing.T) {
	t.Parallel()
	repo := charttest.New(t)
	f := newFixture(t, repo.URL(), false)
	const good = "  web:\n  - {version: 1.0.0, urls: [web-1.0.0.tgz], digest: " +
		"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef}\n"
	index := func(entries string) string { return "apiVersion: v1\nentries:\n" + good + entries }
	expect := func(want ...string) {
		t.Helper()
		for range 2 { // the second poll is answered with 304
			f.fetch(t)
			if len(f.have.Notices) != min(len(want), 1) {
				t.Fatalf("got the notices %q, want one with %q", f.have.Notices, want)
			}
			for _, part := range want {
				if !strings.Contains(f.have.Notices[0], part) {
					t.Errorf("got the notice %q, want %q in it", f.have.Notices[0], part)
				}
			}
		}
	}
	repo.SetIndex(t, index(""))
	expect()
	repo.SetIndex(t, index("  api:\n  - {version: 1.0.0, urls: ['oci://r/api:1.0.0']}\n"))
	expect("1 entry", "api: version 1.0.0 lies in an OCI registry")
	var many strings.Builder
	for i := range 500 {
		fmt.Fprintf(&many, "  c%d:\n  - {version: 1.0.0, urls: ['oci://r/%s']}\n", i, strings.Repeat("x", 50))
	}
	repo.SetIndex(t, index(many.String()))
	expect("500 entries", "such as", "c0: ")
	if got := mirror.BoundNotices(f.have.Notices); len(got) != 1 || len(got[0]) > mirror.MaxNoticeBytes {
		t.Errorf("got %d bytes", len(got[0]))
	}
	repo.SetIndex(t, index(""))
	expect()
}
