// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"bytes"
	"net/http"
	"path/filepath"
	"testing"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/hubkeys"
	"github.com/leatdev/leat/internal/testkit/postgrestest"
	"github.com/leatdev/leat/services/distributor"
)

func TestDatabaseDown(t *testing.T) {
	t.Parallel()
	database := postgrestest.New(t)
	h := startHub(t, func(c *distributor.Config) { c.DatabaseURL = database.Database(t) })
	first, second := newFolder(t, "c1", "one"), newFolder(t, "c2", "two")
	h.demo(t, first)
	agent := h.enrol(t, "one")
	stream := h.watchPlan(t, agent.token, "")
	before := stream.nextWith(t, first.snapshot.GetDigest())
	admin := h.fleet(t, adminToken)
	database.Kill()

	res, err := h.agents(t, agent.token).GetPlan(t.Context(), &distributorv1.GetPlanRequest{KnownVersion: before.GetVersion()})
	if err != nil || !res.GetUnchanged() {
		t.Errorf("got %v, %v, want the plan from memory", res, err)
	}
	if _, err := fleetcalls.Get[*fleetv1.Service](t.Context(), admin, "app"); err != nil {
		t.Errorf("got %v, want reads to go on", err)
	}
	_, err = admin.Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{clusterDocument("two")}})
	wantReason(t, err, "DEPENDENCY_UNAVAILABLE")
	_, err = h.agents(t, agent.token).ReportStatus(t.Context(), &distributorv1.ReportStatusRequest{Instance: "i", Sequence: 1, Full: true})
	wantReason(t, err, "DEPENDENCY_UNAVAILABLE")

	// Commits are still delivered.
	h.git.set("demo", "app", second)
	h.git.announce("demo", "", "refs/heads/main")
	stream.nextWith(t, second.snapshot.GetDigest())
	if res, body := h.download(t, agent.token, second.snapshot.GetDigest(), nil); res.StatusCode != http.StatusOK || !bytes.Equal(body, second.bytes) {
		t.Errorf("got status %d, want the bundle", res.StatusCode)
	}

	database.Start(t)
	await.True(t, "edits to work again", func() bool {
		_, err := admin.Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{clusterDocument("two")}})
		return err == nil
	})
}

// TestTwoReplicas has one replica's edits, revocations and reports seen by the other.
func TestTwoReplicas(t *testing.T) {
	t.Parallel()
	database := postgrestest.New(t)
	url := database.Database(t)
	a := startHub(t, func(c *distributor.Config) { c.DatabaseURL = url })
	b := startReplica(t, a.git, func(c *distributor.Config) { c.DatabaseURL = url })
	content := newFolder(t, "c1", "one")
	a.demo(t, content)
	agent := a.enrol(t, "one")
	if _, err := b.agents(t, agent.token).GetPlan(t.Context(), &distributorv1.GetPlanRequest{}); err != nil {
		t.Fatalf("the other replica refuses the agent: %v", err)
	}
	onA := a.watchPlan(t, agent.token, "").nextWith(t, content.snapshot.GetDigest())
	onB := b.watchPlan(t, agent.token, "").nextWith(t, content.snapshot.GetDigest())
	if onA.GetVersion() != onB.GetVersion() {
		t.Errorf("got versions %s and %s, want the same", onA.GetVersion(), onB.GetVersion())
	}
	stream := b.watchPlan(t, agent.token, onB.GetVersion())
	if _, err := a.fleet(t, adminToken).RevokeCluster(t.Context(), &fleetv1.RevokeClusterRequest{Cluster: "one"}); err != nil {
		t.Fatal(err)
	}
	wantReason(t, stream.end(), "TOKEN_INVALID")
}

func TestDrainTellsAgentsToReconnect(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	h.apply(t, clusterDocument("one"))
	agent := h.enrol(t, "one")
	stream := h.watchPlan(t, agent.token, "")
	stream.next(t)
	h.cancel()
	var last *distributorv1.WatchPlanResponse
	for stream.stream.Receive() {
		last = stream.stream.Msg()
	}
	if last.GetDrain().GetReconnectAfter().AsDuration() <= 0 {
		t.Errorf("got %v last, want a drain", last)
	}
	h.stop(t)
}

func TestRunRefusesSettings(t *testing.T) {
	t.Parallel()
	good := distributor.Config{DataDir: t.TempDir(), GitCacheURL: "http://gitcache.test", Service: hubkeys.Config(identity.ServiceDistributor), AdminToken: adminToken}
	for name, change := range map[string]func(*distributor.Config){
		"no data folder":    func(c *distributor.Config) { c.DataDir = "" },
		"no gitcache":       func(c *distributor.Config) { c.GitCacheURL = "" },
		"short secret":      func(c *distributor.Config) { c.Service.Secret = "short" },
		"admin token":       func(c *distributor.Config) { c.AdminToken = "admin-token-without-prefix" },
		"short admin token": func(c *distributor.Config) { c.AdminToken = "leat_short" },
		"guessable token":   func(c *distributor.Config) { c.AdminToken = "leat_0123456789abcdefghijklmnop" },
		"database":          func(c *distributor.Config) { c.DatabaseURL = "mysql://" + filepath.ToSlash(c.DataDir) },
		"trace of no host":  func(c *distributor.Config) { c.TraceURL = "{traceID}" },
		"trace of nothing":  func(c *distributor.Config) { c.TraceURL = "https://jaeger.example.com/trace/" },
		"trace of a script": func(c *distributor.Config) { c.TraceURL = "javascript://jaeger/{traceID}" },
	} {
		cfg := good
		change(&cfg)
		if err := distributor.Run(t.Context(), cfg); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
}
