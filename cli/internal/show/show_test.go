// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package show_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/leatdev/leat/cli/internal/show"
	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/fleetdoc"
)

// TestFollowWritesWhatShows changes a cluster every second, mostly in fields that the table omits.
func TestFollowWritesWhatShows(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	rows, now := show.NewTable(show.Style{}, "Cluster"), time.Unix(1700000000, 0)
	change := func(name string, ready, pods int32) {
		t.Helper()
		now = now.Add(time.Second)
		err := rows.Follow(&out, now, fleetdoc.Of(&fleetv1.Cluster{
			Metadata: &typev1.Metadata{Name: name},
			Status: &fleetv1.ClusterStatus{
				Connected: true, LastSeenAt: timestamppb.New(now.Add(-time.Duration(pods) * time.Second)),
				Report: &distributorv1.ClusterReport{Overview: &distributorv1.ClusterOverview{
					Nodes: &distributorv1.NodesOverview{Ready: ready, Count: 3}, Pods: &distributorv1.PodsOverview{Running: pods},
				}},
			},
		}))
		if err != nil {
			t.Fatal(err)
		}
	}
	change("one", 3, 1)
	change("one", 3, 2)
	change("two", 3, 3)
	change("one", 3, 4)
	change("one", 2, 5)
	change("one", 2, 6)
	change("one", 3, 7)
	rows.Forget("one")
	change("one", 3, 8)
	change("two", 3, 9)
	want := `NAME   AGENT       VERSION   KUBERNETES   NODES   SERVICES   LAST SEEN
one    connected   -         -            3/3     -          1s ago
two    connected   -         -            3/3     -          3s ago
one    connected   -         -            2/3     -          5s ago
one    connected   -         -            3/3     -          7s ago
one    connected   -         -            3/3     -          8s ago
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("rows differ (-want +got):\n%s", diff)
	}
}
