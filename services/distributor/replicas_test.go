// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"bytes"
	"net/http"
	"testing"
	"time"

	"connectrpc.com/connect"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/postgrestest"
	"github.com/leatdev/leat/services/distributor"
)

// TestAReplicaThatLagsSendsNobodyBack has an agent go from a replica that knows of edits and
// commits to one that hears of neither: nothing but what the agent asks for makes that one look.
func TestAReplicaThatLagsSendsNobodyBack(t *testing.T) {
	t.Parallel()
	database := postgrestest.New(t)
	url := database.Database(t)
	ahead := startHub(t, func(c *distributor.Config) { c.DatabaseURL = url })
	behind := startHub(t, func(c *distributor.Config) {
		c.DatabaseURL, c.Intervals.CatalogPoll, c.Intervals.Resync = url, time.Hour, time.Hour
	})
	first, second, third, fourth := newFolder(t, "c1", "one"), newFolder(t, "c2", "two"), newFolder(t, "c3", "three"), newFolder(t, "c4", "four")
	ahead.demo(t, first)
	agent := ahead.enrol(t, "one")
	stream := ahead.watchPlan(t, agent.token, "")
	wantUnchanged := func(when string, plan *distributorv1.Plan) {
		t.Helper()
		var res *distributorv1.GetPlanResponse
		var err error
		await.True(t, when+": an answer", func() bool { // as agents do, it asks again while a busy database is late
			res, err = behind.agents(t, agent.token).GetPlan(t.Context(), &distributorv1.GetPlanRequest{KnownVersion: plan.GetVersion()})
			return connect.CodeOf(err) != connect.CodeUnavailable
		})
		if err != nil || !res.GetUnchanged() {
			t.Errorf("%s: got %v, %v, want what the other replica said", when, res, err)
		}
	}
	wantUnchanged("after the first plan", stream.nextWith(t, first.snapshot.GetDigest()))

	ahead.git.set("demo", "extra", third)
	ahead.apply(t, serviceDocument("extra", "one", "demo", "extra"))
	plan := stream.next(t)
	for len(plan.GetServices()) < 2 || len(plan.GetServices()[1].GetBundles()) == 0 {
		plan = stream.next(t)
	}
	wantUnchanged("after an edit", plan)

	ahead.git.set("demo", "app", second)
	ahead.git.announce("demo", "", "refs/heads/main")
	plan = stream.nextWith(t, second.snapshot.GetDigest())
	moved := behind.watchPlan(t, agent.token, plan.GetVersion())
	if !moved.stream.Receive() || moved.stream.Msg().GetHeartbeat().GetVersion() != plan.GetVersion() {
		t.Errorf("got %v first, want a heartbeat: the agent has the plan", moved.stream.Msg())
	}

	behind.git.set("demo", "app", fourth)
	ahead.git.set("demo", "app", fourth)
	ahead.git.announce("demo", "", "refs/heads/main")
	stream.nextWith(t, fourth.snapshot.GetDigest())
	await.True(t, "the bundle of the new plan", func() bool { // a miss just before would make it wait for a second
		res, body := behind.download(t, agent.token, fourth.snapshot.GetDigest(), nil)
		return res.StatusCode == http.StatusOK && bytes.Equal(body, fourth.bytes)
	})

	database.Kill()
	res, err := behind.agents(t, agent.token).GetPlan(t.Context(), &distributorv1.GetPlanRequest{KnownVersion: plan.GetVersion()})
	if err != nil || res.GetPlan().GetServices()[0].GetBundles()[0].GetDigest() != fourth.snapshot.GetDigest() {
		t.Errorf("got %v, %v, want the plan from memory: the agent's is one it had", res, err)
	}
	_, err = behind.agents(t, agent.token).GetPlan(t.Context(), &distributorv1.GetPlanRequest{KnownVersion: "one it never had"})
	wantReason(t, err, "DEPENDENCY_UNAVAILABLE")
	if _, ok := rpcerr.RetryDelay(err); !ok {
		t.Errorf("got %v, want it to say when to ask again", err)
	}
}

// TestAReplicaWithoutTheDatabaseEndsNoIdentity has people and agents come to a replica that has not heard of them and cannot
// ask. An agent that is told that its key is rejected stays away and calls for a person, and a browser signs out.
func TestAReplicaWithoutTheDatabaseEndsNoIdentity(t *testing.T) {
	t.Parallel()
	database := postgrestest.New(t)
	url := database.Database(t)
	ahead := startHub(t, func(c *distributor.Config) { c.DatabaseURL = url })
	behind := startHub(t, func(c *distributor.Config) {
		c.DatabaseURL, c.Intervals.CatalogPoll, c.Intervals.Resync = url, time.Hour, time.Hour
	})
	ahead.apply(t, clusterDocument("one"), &fleetv1.Document{Object: &fleetv1.Document_User{User: &fleetv1.User{Metadata: &typev1.Metadata{Name: "ada"}}}})
	agent := ahead.enrol(t, "one")
	made, err := ahead.fleet(t, adminToken).CreateToken(t.Context(), &fleetv1.CreateTokenRequest{User: "ada", Label: "own"})
	if err != nil {
		t.Fatal(err)
	}
	access, err := ahead.fleet(t, made.GetSecret()).CreateAccessToken(t.Context(), &fleetv1.CreateAccessTokenRequest{})
	if err != nil {
		t.Fatal(err)
	}
	assertion, err := identity.SignAssertion(agent.key, agent.cluster)
	if err != nil {
		t.Fatal(err)
	}
	database.Kill()

	_, err = behind.agents(t, "").RefreshToken(t.Context(), &distributorv1.RefreshTokenRequest{Assertion: assertion})
	wantReason(t, err, "DEPENDENCY_UNAVAILABLE")
	_, err = behind.agents(t, agent.token).GetServiceConfig(t.Context(), &distributorv1.GetServiceConfigRequest{Service: "app"})
	wantReason(t, err, "DEPENDENCY_UNAVAILABLE")
	_, err = behind.fleet(t, access.GetAccessToken()).CreateAccessToken(t.Context(), &fleetv1.CreateAccessTokenRequest{})
	wantReason(t, err, "DEPENDENCY_UNAVAILABLE")
	if _, err := ahead.agents(t, "").RefreshToken(t.Context(), &distributorv1.RefreshTokenRequest{Assertion: assertion}); err != nil {
		t.Errorf("got %v, want the replica that knows the agent to go on", err)
	}
}
