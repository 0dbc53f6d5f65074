// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// testGrants has grants come, be renewed, end and go with their cluster.
func testGrants(t *testing.T, s subject) {
	apply(t, s, cluster("one"))
	uid := changes(t, s, 0).Clusters[0].UID
	grant := func(content string, expires time.Time) catalog.Grant {
		return catalog.Grant{
			ClusterUID: uid, Digest: digest.FromBytes([]byte(content)), Commit: "c", Subpath: "a",
			Source: catalog.Source{Repository: "demo", Path: "x", Ref: catalog.Ref{Kind: catalog.RefBranch, Value: "next"}}, ExpiresAt: expires,
		}
	}
	store := func(grants ...catalog.Grant) {
		t.Helper()
		if err := s.Grant(t.Context(), grants); err != nil {
			t.Fatal(err)
		}
	}
	wantGrants := func(since int64, want ...catalog.Grant) int64 {
		t.Helper()
		got := changes(t, s, since)
		sort := cmpopts.SortSlices(func(a, b catalog.Grant) bool { return a.Digest.String() < b.Digest.String() })
		if diff := cmp.Diff(want, got.Grants, sort, cmpopts.EquateComparable(digest.Digest{}), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("grants since %d (-want +got):\n%s", since, diff)
		}
		return got.Revision
	}
	later := time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond)
	a, b, over := grant("a", later), grant("b", later), grant("over", later.Add(-2*time.Hour))
	store(a, b, over)
	first := wantGrants(0, a, b, over)
	a.ExpiresAt, a.Commit = later.Add(time.Hour), "c2"
	store(a)
	wantGrants(first, a)
	wantGrants(0, a, b) // ended grants were swept
	if _, err := catalog.NewEditor(s).Delete(t.Context(), catalog.Key{Kind: catalog.KindCluster, Name: "one"}); err != nil {
		t.Fatal(err)
	}
	wantGrants(0)
}
