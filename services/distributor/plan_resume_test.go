// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/gen/go/leat/distributor/v1/distributorv1connect"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/plandelta"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/internal/testkit/await"
)

// follower is an agent that knows how to follow its plan, and no more.
type follower struct {
	client distributorv1connect.DistributorServiceClient
	plan   *distributorv1.Plan
	// deltas and wholes count what came.
	deltas, wholes int
}

// follow holds streams, and cuts them after a few messages each, until the plan is the one that the
// hub has.
func (f *follower) follow(t *testing.T, random *rand.Rand) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
	defer cancel()
	for {
		current, err := f.client.GetPlan(ctx, &distributorv1.GetPlanRequest{KnownVersion: f.plan.GetVersion()})
		if err != nil {
			t.Fatal(err)
		}
		if current.GetUnchanged() {
			return
		}
		f.hold(ctx, t, 1+random.IntN(2))
	}
}

// hold takes so many messages of one stream.
func (f *follower) hold(ctx context.Context, t *testing.T, messages int) {
	t.Helper()
	ctx, cut := context.WithCancel(ctx)
	defer cut()
	stream, err := f.client.WatchPlan(ctx, &distributorv1.WatchPlanRequest{KnownVersion: f.plan.GetVersion(), AcceptDelta: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	for range messages {
		current, err := f.client.GetPlan(ctx, &distributorv1.GetPlanRequest{KnownVersion: f.plan.GetVersion()})
		if err != nil || current.GetUnchanged() || !stream.Receive() {
			return
		}
		if plan := stream.Msg().GetPlan(); plan != nil {
			f.plan = plan
			f.wholes++
		}
		if delta := stream.Msg().GetDelta(); delta != nil {
			if f.plan, err = plandelta.Apply(f.plan, delta); err != nil {
				t.Fatal(err)
			}
			f.deltas++
		}
	}
}

// editor changes the services of cluster one at random.
type editor struct {
	h      *hub
	random *rand.Rand
	there  map[string]bool
}

func (e *editor) edit(t *testing.T) {
	t.Helper()
	name := fmt.Sprint("s", e.random.IntN(12))
	if e.there[name] && e.random.IntN(3) == 0 {
		if err := fleetcalls.Delete[*fleetv1.Service](t.Context(), e.h.fleet(t, adminToken), name); err != nil {
			t.Fatal(err)
		}
		delete(e.there, name)
		if e.random.IntN(2) == 0 {
			return // otherwise it is created again at once, under another uid
		}
	}
	document := serviceDocument(name, "one", "demo", []string{"app", "lib"}[e.random.IntN(2)])
	document.GetService().Spec.Paused = e.random.IntN(2) == 0
	e.h.apply(t, document)
	e.there[name] = true
}

// TestFollowerEndsWithTheHubsPlan makes 200 random edits and some commits, while streams are cut
// and taken up again: the plan that comes of whole ones and deltas is the hub's in the end, each
// time.
func TestFollowerEndsWithTheHubsPlan(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	h := startHub(t)
	h.git.set("demo", "lib", newFolder(t, "c1", "lib"))
	h.demo(t, newFolder(t, "c1", "one"))
	e := &editor{h: h, random: random, there: map[string]bool{}}
	f := &follower{client: h.agents(t, h.enrol(t, "one").token)}
	for round := range 50 {
		for range 1 + random.IntN(7) {
			e.edit(t)
		}
		if round%10 == 0 {
			h.git.set("demo", "lib", newFolder(t, fmt.Sprint("c", round), fmt.Sprint("lib", round)))
			h.git.announce("demo", "", "refs/heads/main")
		}
		f.follow(t, random)
	}
	whole, err := f.client.GetPlan(t.Context(), &distributorv1.GetPlanRequest{})
	for err == nil && whole.GetPlan().GetVersion() != f.plan.GetVersion() { // a commit came just now
		f.follow(t, random)
		whole, err = f.client.GetPlan(t.Context(), &distributorv1.GetPlanRequest{})
	}
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(whole.GetPlan(), f.plan, protocmp.Transform(), seenAlone); diff != "" {
		t.Errorf("plan (-hub +follower):\n%s", diff)
	}
	if f.deltas == 0 || f.wholes == 0 {
		t.Errorf("got %d deltas and %d whole plans, want both", f.deltas, f.wholes)
	}
}

// seenAlone leaves out what takes no part in a version.
var seenAlone = cmp.Options{
	protocmp.IgnoreFields(&distributorv1.PlanBundle{}, "commit"), protocmp.IgnoreFields(&distributorv1.PlanService{}, "traceparent"),
	protocmp.IgnoreFields(&distributorv1.Plan{}, "time"),
}
