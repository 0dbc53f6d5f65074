// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"slices"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/distributor/internal/delivery/plan"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// TestWithheldServicesStayInThePlan has an agent that cannot render a service: the entry stays, so
// that nothing is removed from the cluster, and has nothing that could be rendered otherwise. When
// the agent can, the entry has another digest, so that a delta names it.
func TestWithheldServicesStayInThePlan(t *testing.T) {
	t.Parallel()
	service := &catalog.Service{Metadata: catalog.Metadata{Name: "a", UID: "u"}, ConfigDigest: "hmac-sha256:00", Spec: catalog.ServiceSpec{
		Sources: []catalog.Source{{Repository: "r", Path: "x", Mount: "chart"}},
		Options: &syncpolicy.Options{Render: []renderstep.Step{{Renderer: renderstep.Helm}}},
	}}
	input := plan.Input{Service: service, Snapshots: []*catalog.Snapshot{{Digest: digest.FromBytes([]byte("x")), Commit: "c"}}}
	given := plan.Compute("one", plan.ClusterPart{}, []plan.Input{input}, plan.Cause{Time: time.Unix(1, 0)})
	input.IsWithheld = true
	withheld := plan.Compute("one", plan.ClusterPart{}, []plan.Input{input}, plan.Cause{Time: time.Unix(2, 0)})
	before, after := *withheld.Entries[0], *given.Entries[0]
	if len(before.Bundles) != 0 || before.UID.String() != "u" || before.SpecDigest != after.SpecDigest || before.ConfigDigest != after.ConfigDigest {
		t.Errorf("got %+v, want the same entry without bundles", before)
	}
	if want := []string{"render:helm", "render:steps"}; !slices.Equal(before.Requires, want) || !slices.Equal(after.Requires, want) {
		t.Errorf("got %v and %v, want %v", before.Requires, after.Requires, want)
	}
	want := plan.Bundle{Digest: digest.FromBytes([]byte("x")), Commit: "c", Source: catalog.Source{Repository: "r", Path: "x"}, Mount: "chart"}
	if len(after.Bundles) != 1 || after.Bundles[0] != want {
		t.Errorf("got %+v, want %+v", after.Bundles, want)
	}
	for _, way := range [][2]*plan.Plan{{withheld, given}, {given, withheld}} {
		if delta := plan.Diff(way[0], way[1]); way[0].Version == way[1].Version || len(delta.Changed) != 1 || delta.Removed != nil {
			t.Errorf("got %+v, want the entry", delta)
		}
	}
}
