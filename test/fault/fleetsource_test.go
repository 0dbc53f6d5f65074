// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fault_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/internal/testkit/await"
)

var beganLooking = regexp.MustCompile(`this replica looks at the fleet sources".*"term":[0-9]+`)

// terms returns how often a replica began to read the fleet sources.
func terms(t *testing.T, p *process) int {
	t.Helper()
	log, err := os.ReadFile(p.log)
	if err != nil {
		t.Fatal(err)
	}
	return len(beganLooking.FindAll(log, -1))
}

// awaitLooking waits until a replica has begun so many terms.
func awaitLooking(t *testing.T, p *process, n int) {
	t.Helper()
	await.Poll(t, p.name+" to look at the fleet sources", pause, func() (bool, string) {
		return terms(t, p) == n, ""
	})
}

// sites is the content of a commit that describes so many clusters.
func sites(n int) map[string]string {
	var documents strings.Builder
	for i := range n {
		fmt.Fprintf(&documents, "---\n{apiVersion: leat.dev/v1, kind: Cluster, metadata: {name: site-%02d}}\n", i)
	}
	return map[string]string{"fleet/clusters.yaml": documents.String()}
}

// TestFleetSourceThroughAKill kills the replica that reads the fleet sources, once while it has a
// commit to apply, and once while removals wait for a person, who then agrees at the other replica.
// Each commit is applied completely, and the confirmed objects are removed, once.
func TestFleetSourceThroughAKill(t *testing.T) {
	t.Parallel()
	h := newHub(t, scale{repositories: 1, lease: 2 * time.Second, poll: 5 * time.Second}, 2, 1, 5*time.Second)
	upstream := h.upstream.Repo(t, "documents")
	upstream.Commit(t, "main", sites(10))
	sources := func(at *process) fleetv1connect.FleetSourceServiceClient {
		c := h.to(t, slices.Index(h.distributors, at), adminToken)
		return fleetv1connect.NewFleetSourceServiceClient(c.HTTP, c.BaseURL, c.Options...)
	}
	first, second := h.distributors[0], h.distributors[1]
	status := func(at *process) *fleetv1.FleetSourceStatus {
		res, err := fleetcalls.Get[*fleetv1.FleetSource](t.Context(), h.admin(t, slices.Index(h.distributors, at)), "fleet")
		if err != nil {
			return nil
		}
		return res.GetStatus()
	}
	managed := func(at *process, n, held int32) {
		t.Helper()
		await.Poll(t, fmt.Sprintf("%d managed clusters, %d held", n, held), pause, func() (bool, string) {
			s := status(at)
			return s.GetManaged() == n && s.GetHeld() == held && (s.GetProblem() == nil) == (held == 0), s.String()
		})
	}
	h.apply(t,
		fleetdoc.Of(&fleetv1.Repository{
			Metadata: &typev1.Metadata{Name: "documents"},
			Spec:     &fleetv1.RepositorySpec{Url: "http://" + upstreamHost + "/documents.git", PollInterval: durationpb.New(h.scale.poll)},
		}),
		fleetdoc.Of(&fleetv1.FleetSource{
			Metadata: &typev1.Metadata{Name: "fleet"},
			Spec: &fleetv1.FleetSourceSpec{
				Source: &typev1.Source{Repository: "documents", Path: "fleet", Ref: &typev1.GitRef{Selector: &typev1.GitRef_Branch{Branch: "main"}}},
				Role:   typev1.AccessRole_ACCESS_ROLE_ADMIN, Hub: true, PruneLimit: 2,
			},
		}),
	)
	managed(first, 10, 0)
	if terms(t, second) > 0 {
		first, second = second, first
	}
	if terms(t, first) != 1 || terms(t, second) != 0 {
		t.Fatalf("%d and %d terms have begun, want one", terms(t, first), terms(t, second))
	}

	upstream.Commit(t, "main", sites(40))
	if _, err := sources(second).SyncFleetSource(t.Context(), &fleetv1.SyncFleetSourceRequest{Name: "fleet"}); err != nil {
		t.Fatal(err)
	}
	first.kill(t)
	awaitLooking(t, second, 1)
	managed(second, 40, 0)
	first.start(t)
	upstream.Commit(t, "main", sites(30))
	managed(first, 40, 10)
	if terms(t, first) != 1 || terms(t, second) != 1 {
		t.Errorf("%d and %d terms have begun, want one each: nobody may lead beside a leader", terms(t, first), terms(t, second))
	}

	digest := status(first).GetHeldDigest()
	second.kill(t)
	if _, err := sources(first).ConfirmFleetSource(t.Context(), &fleetv1.ConfirmFleetSourceRequest{Name: "fleet", Digest: digest}); err != nil {
		t.Fatal(err)
	}
	awaitLooking(t, first, 2)
	managed(first, 30, 0)
	second.start(t)
	for i := range 40 {
		_, err := fleetcalls.Get[*fleetv1.Cluster](t.Context(), h.admin(t, 1), fmt.Sprintf("site-%02d", i))
		if isThere := err == nil; isThere != (i < 30) {
			t.Errorf("cluster site-%02d: got %v, want those of the last commit and no others", i, err)
		}
	}
	res, err := h.admin(t, 0).ListAuditRecords(t.Context(), &fleetv1.ListAuditRecordsRequest{Kind: "Cluster", Verb: "delete", PageSize: 1000})
	if err != nil {
		t.Fatal(err)
	}
	removed := map[string]int{}
	for _, record := range res.GetRecords() {
		removed[record.GetName()]++
	}
	if len(removed) != 10 {
		t.Errorf("got the removals %v, want ten", removed)
	}
	for name, n := range removed {
		if n != 1 {
			t.Errorf("%s was removed %d times", name, n)
		}
	}
}
