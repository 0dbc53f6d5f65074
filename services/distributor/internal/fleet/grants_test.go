// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// TestGrantsEnd goes to the last moment of a grant, and beyond it, renews it, and gives the
// cluster's name to another one.
func TestGrantsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v, l, _ := newView(t)
		d := digest.FromBytes([]byte("preview"))
		grant := func(cluster string) {
			l.add(catalog.Changes{Grants: []catalog.Grant{{
				ClusterUID: "uid-" + cluster, Digest: d, Source: app, Commit: "c2", Subpath: "x", ExpiresAt: time.Now().Add(catalog.GrantLife),
			}}})
			if err := v.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		want := func(when string, one, two bool) {
			t.Helper()
			for cluster, want := range map[string]bool{"one": one, "two": two, "none": false} {
				bundle, got := v.Bundle(cluster, d)
				if got != want || got && (bundle.Digest != d || bundle.Source != app || bundle.Commit != "c2" || bundle.Subpath != "x") {
					t.Errorf("%s, cluster %s: got %+v, %v, want %v", when, cluster, bundle, got, want)
				}
			}
		}
		want("before", false, false)
		grant("one")
		want("granted", true, false)
		<-time.After(catalog.GrantLife - time.Millisecond)
		want("at the end", true, false)
		<-time.After(time.Millisecond)
		want("after the end", false, false)
		grant("one")
		want("granted again", true, false)
		<-time.After(catalog.GrantLife / 2)
		grant("two")
		want("both", true, true)
		<-time.After(catalog.GrantLife / 2)
		want("the second is younger", false, true)

		another := cluster("two")
		another.UID = "another"
		l.add(catalog.Changes{
			Deleted:  []catalog.Tombstone{{Key: another.Key(), UID: "uid-two"}},
			Clusters: []*catalog.Cluster{another},
		})
		if err := v.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		want("a new cluster of the name", false, false)
		if v.Pinned(d) {
			t.Error("a granted bundle is pinned, want it to be evictable")
		}
	})
}
