// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package show_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/leatdev/leat/cli/internal/show"
	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
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
	want := `NAME   AGENT       VERSION   SKEW   KUBERNETES   NODES   SERVICES   LOCK   LAST SEEN
one    connected   -         -      -            3/3     -          -      1s ago
two    connected   -         -      -            3/3     -          -      3s ago
one    connected   -         -      -            2/3     -          -      5s ago
one    connected   -         -      -            3/3     -          -      7s ago
one    connected   -         -      -            3/3     -          -      8s ago
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("rows differ (-want +got):\n%s", diff)
	}
}

// TestEveryKindHasATable shows an object of each kind: an unknown kind shows only its name.
func TestEveryKindHasATable(t *testing.T) {
	t.Parallel()
	for kind := range fleetdoc.Kinds() {
		var out bytes.Buffer
		objects := []*fleetv1.Document{fleetdoc.Named(kind, &typev1.Metadata{Name: "one"})}
		if err := show.Objects(&out, show.Table, show.Style{}, time.Unix(1700000000, 0), kind, objects); err != nil {
			t.Fatal(err)
		}
		header, row, _ := strings.Cut(out.String(), "\n")
		if !strings.HasPrefix(header, "NAME  ") || !strings.HasPrefix(row, "one  ") {
			t.Errorf("%s: got %q, want a table with further columns", kind, out.String())
		}
	}
}

// TestNotices shows what a repository's owner noticed, below the repository and as a number in lists. A
// problem comes first, and no control character of an upstream reaches the terminal.
func TestNotices(t *testing.T) {
	t.Parallel()
	now := time.Unix(1700000000, 0)
	repository := &fleetv1.Repository{
		Metadata: &typev1.Metadata{Name: "charts"}, Spec: &fleetv1.RepositorySpec{Url: "https://charts.example"},
		Status: &gitcachev1.RepositoryState{
			Phase: gitcachev1.RepositoryPhase_REPOSITORY_PHASE_READY, RefCount: 7, FreshAt: timestamppb.New(now.Add(-time.Minute)),
			Notices: []string{"2 entries cannot be used: \x1b[31mweb\n1.0: no URL."},
		},
	}
	render := func(list bool) string {
		t.Helper()
		var out bytes.Buffer
		var err error
		if list {
			err = show.Objects(&out, show.Table, show.Style{}, now, "Repository", []*fleetv1.Document{fleetdoc.Of(repository)})
		} else {
			err = show.Object(&out, show.Table, show.Style{}, now, fleetdoc.Of(repository))
		}
		if err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	const row = "NAME     PHASE   REFS   CHECKED   URL                      MESSAGE\ncharts   Ready   7      60s ago   https://charts.example   "
	if diff := cmp.Diff(row+"1 notice\n\nNotice: 2 entries cannot be used: [31mweb 1.0: no URL.\n", render(false)); diff != "" {
		t.Errorf("one (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(row+"1 notice\n", render(true)); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
	repository.Status.Problem = &typev1.Problem{Message: "Down."}
	if got := render(true); !strings.Contains(got, "Down.") || strings.Contains(got, "notice") {
		t.Errorf("got %q, want the problem alone", got)
	}
}

// TestRunningTests shows which test a service waits for, unless there is a problem. Texts of the
// test's object do not reach the terminal's control.
func TestRunningTests(t *testing.T) {
	t.Parallel()
	now := time.Unix(1700000000, 0)
	shop := &fleetv1.Service{
		Metadata: &typev1.Metadata{Name: "shop"}, Spec: &fleetv1.ServiceSpec{Cluster: "demo"},
		Status: &fleetv1.ServiceStatus{Phase: typev1.ServicePhase_SERVICE_PHASE_PROGRESSING, Report: &distributorv1.ServiceReport{
			RunningTest: &distributorv1.TestReport{
				Ref:       &typev1.ObjectRef{Version: "v1", Kind: "Pod", Namespace: "shop", Name: "web-test-connection"},
				StartedAt: timestamppb.New(now.Add(-3 * time.Minute)), Message: "Pending: \x1b[31mno node\nhas room",
			},
		}},
	}
	render := func() string {
		t.Helper()
		var out bytes.Buffer
		if err := show.Objects(&out, show.Table, show.Style{}, now, "Service", []*fleetv1.Document{fleetdoc.Of(shop)}); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	const want = "waits for test Pod shop/web-test-connection, for 3m: Pending: [31mno node has room\n"
	if got := render(); !strings.HasSuffix(got, want) {
		t.Errorf("got %q, want it to end with %q", got, want)
	}
	shop.Status.Problem = &typev1.Problem{Message: "Down."}
	if got := render(); !strings.Contains(got, "Down.") || strings.Contains(got, "waits") {
		t.Errorf("got %q, want the problem alone", got)
	}
}
