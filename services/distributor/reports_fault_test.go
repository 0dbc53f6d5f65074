// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/postgrestest"
	"github.com/leatdev/leat/services/distributor"
)

// TestNoReportIsLost cuts the hub off from its database before and after commits, restarts the hub,
// the database and the agent, and compares what the hub has in the end with what the agent said.
func TestNoReportIsLost(t *testing.T) {
	t.Parallel()
	database := postgrestest.New(t)
	proxy := startSQLProxy(t, database.Database(t))
	h := startHub(t, func(c *distributor.Config) { c.DatabaseURL = proxy.url })
	h.demo(t, newFolder(t, "c1", "one"))
	uid := h.service(t, "app").GetMetadata().GetUid()
	agent, says := h.enrol(t, "one"), newReporter()
	hub := h.agents(t, agent.token)
	var want []string
	for i := range 24 {
		content := fmt.Sprintf("content %d", i/2)
		phase := []typev1.ServicePhase{typev1.ServicePhase_SERVICE_PHASE_SYNCING, typev1.ServicePhase_SERVICE_PHASE_HEALTHY}[i%2]
		says.set(stated("app", uid, content, fmt.Sprint("text ", i), phase))
		switch {
		case i%10 == 3:
			says.restart()
		case i%20 == 7:
			proxy.before.Store(0)
			proxy.after.Store(0)
			h.stop(t)
			h.start(t)
			hub = h.agents(t, agent.token)
			await.True(t, "the hub to serve", func() bool {
				_, err := hub.GetPlan(t.Context(), &distributorv1.GetPlanRequest{})
				return err == nil
			})
		case i%20 == 15:
			database.Kill()
			database.Start(t)
		}
		proxy.before.Store(30)
		proxy.after.Store(30)
		says.flush(t, func(r *distributorv1.ReportStatusRequest) (*distributorv1.ReportStatusResponse, error) {
			return hub.ReportStatus(t.Context(), r)
		})
		if i%2 == 0 {
			want = append(want, content+" HEALTHY")
		}
	}
	proxy.before.Store(0)
	proxy.after.Store(0)
	if proxy.cuts.Load() < 5 {
		t.Errorf("got %d commits cut, want more: the test shows nothing", proxy.cuts.Load())
	}
	h.waitService(t, "app", func(s *fleetv1.Service) bool {
		return cmp.Equal(s.GetStatus().GetReport(), says.latest["app"], protocmp.Transform())
	})
	h.stop(t)
	h.start(t)
	h.waitService(t, "app", func(*fleetv1.Service) bool { return true })
	if diff := cmp.Diff(says.latest["app"], h.service(t, "app").GetStatus().GetReport(), protocmp.Transform()); diff != "" {
		t.Errorf("after a restart the report differs (-said +shown):\n%s", diff)
	}
	slices.Reverse(want)
	if diff := cmp.Diff(want, h.history(t, "app")); diff != "" {
		t.Errorf("history differs (-want +got):\n%s", diff)
	}
}

// TestRestoredDatabase has the agent tell everything again to a hub that lost what it had
// acknowledged.
func TestRestoredDatabase(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	h.demo(t, newFolder(t, "c1", "one"))
	h.apply(t, serviceDocument("other", "one", "demo", "app"))
	agent := h.enrol(t, "one")
	hub := h.agents(t, agent.token)
	send := func(r *distributorv1.ReportStatusRequest) *distributorv1.ReportStatusResponse {
		t.Helper()
		response, err := hub.ReportStatus(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		return response
	}
	none := ""
	first := &distributorv1.ReportStatusRequest{Instance: "i", Sequence: 2, Full: true, Replaces: &none}
	if response := send(first); response.GetWantFull() {
		t.Errorf("got %v, want the first report of all taken", response)
	}
	// The hub acknowledged up to 7, and knows nothing of it.
	if response := send(&distributorv1.ReportStatusRequest{Instance: "i", Sequence: 8, Acknowledged: 7}); !response.GetWantFull() || response.GetCurrentInstance() != "i" {
		t.Errorf("got %v, want everything asked for again", response)
	}
	if response := send(&distributorv1.ReportStatusRequest{Instance: "i", Sequence: 9, Acknowledged: 7, Full: true}); response.GetWantFull() {
		t.Errorf("got %v, want it taken", response)
	}
	if response := send(&distributorv1.ReportStatusRequest{Instance: "i", Sequence: 10, Acknowledged: 9}); response.GetWantFull() {
		t.Errorf("got %v, want a delta taken again", response)
	}
	for _, bad := range []*distributorv1.ReportStatusRequest{
		{Instance: "i"},
		{Instance: "i", Sequence: 1 << 63},
		{Sequence: 1},
		{Instance: strings.Repeat("i", 300), Sequence: 1},
		{Instance: "i", Sequence: 11, PlanVersion: strings.Repeat("v", 300)},
	} {
		_, err := hub.ReportStatus(t.Context(), bad)
		wantReason(t, err, "FIELD_INVALID")
	}
}

// TestReportsReachWatchers has a report seen at once where it came in, and by the other replica at
// its next look; a watcher that does not read delays no other, and sees the latest when it reads
// on.
func TestReportsReachWatchers(t *testing.T) {
	t.Parallel()
	url := postgrestest.New(t).Database(t)
	a := startHub(t, func(c *distributor.Config) { c.DatabaseURL, c.Intervals.CatalogPoll = url, time.Hour })
	b := startReplica(t, a.git, func(c *distributor.Config) { c.DatabaseURL = url })
	a.demo(t, newFolder(t, "c1", "one"))
	uid := a.service(t, "app").GetMetadata().GetUid()
	agent, says := a.enrol(t, "one"), newReporter()
	hub := a.agents(t, agent.token)

	stalled, err := a.fleet(t, adminToken).Watch(t.Context(), &fleetv1.WatchRequest{Kind: "Service", Name: "app"})
	if err != nil {
		t.Fatal(err)
	}
	defer stalled.Close()
	const reports, last = 16, "the last word"
	noise := make([]byte, 600<<10)
	for i := range reports {
		_, _ = rand.Read(noise) // never fails
		report := stated("app", uid, "content", fmt.Sprint("text ", i), typev1.ServicePhase_SERVICE_PHASE_HEALTHY)
		report.Problem = &typev1.Problem{Message: base64.StdEncoding.EncodeToString(noise)} // together more than all buffers hold
		if i == reports-1 {
			report.Problem.Message = last
		}
		says.set(report)
		says.flush(t, func(r *distributorv1.ReportStatusRequest) (*distributorv1.ReportStatusResponse, error) {
			return hub.ReportStatus(t.Context(), r)
		})
	}
	done := func(s *fleetv1.Service) bool { return s.GetStatus().GetReport().GetProblem().GetMessage() == last }
	if s := a.service(t, "app"); !done(s) {
		t.Error("got an older report from the replica that took the last one")
	}
	b.waitService(t, "app", done)
	seen := 0
	for stalled.Receive() {
		seen++
		if done(stalled.Msg().GetDocument().GetService()) {
			break
		}
	}
	// On a machine so slow that it read nothing for half a minute, it was cut.
	if stalled.Err() == nil && seen >= reports {
		t.Errorf("got %d messages, want the latest, and what was in between skipped", seen)
	}
}

// TestListRevisions reads a history in pages.
func TestListRevisions(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	h.demo(t, newFolder(t, "c1", "one"))
	uid := h.service(t, "app").GetMetadata().GetUid()
	agent, says, admin := h.enrol(t, "one"), newReporter(), h.fleet(t, adminToken)
	if got := h.history(t, "app"); len(got) != 0 {
		t.Errorf("got %v, want no history yet", got)
	}
	for i := range 5 {
		says.set(stated("app", uid, fmt.Sprint(i), "", typev1.ServicePhase_SERVICE_PHASE_HEALTHY))
		says.flush(t, func(r *distributorv1.ReportStatusRequest) (*distributorv1.ReportStatusResponse, error) {
			return h.agents(t, agent.token).ReportStatus(t.Context(), r)
		})
	}
	page, numbers := &typev1.Page{Size: 2}, []int64{}
	for {
		res, err := admin.ListRevisions(t.Context(), &fleetv1.ListRevisionsRequest{Service: "app", Page: page})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range res.GetRevisions() {
			numbers = append(numbers, r.GetNumber())
		}
		if page.Token = res.GetNextPageToken(); page.Token == "" {
			break
		}
	}
	if !slices.Equal(numbers, []int64{5, 4, 3, 2, 1}) {
		t.Errorf("got revisions %v, want all five, the latest first", numbers)
	}
	for reason, request := range map[string]*fleetv1.ListRevisionsRequest{
		"NOT_FOUND":     {Service: "nobody"},
		"FIELD_INVALID": {Service: "app", Page: &typev1.Page{Token: "no token"}},
	} {
		_, err := admin.ListRevisions(t.Context(), request)
		wantReason(t, err, reason)
	}
	_, err := h.fleet(t, agent.token).ListRevisions(t.Context(), &fleetv1.ListRevisionsRequest{Service: "app"})
	wantReason(t, err, "ACCESS_DENIED")
}

// service returns a service as it is shown.
func (h *hub) service(t *testing.T, name string) *fleetv1.Service {
	t.Helper()
	res, err := fleetcalls.Get[*fleetv1.Service](t.Context(), h.fleet(t, adminToken), name)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// history returns content and outcome of a service's revisions, the latest first.
func (h *hub) history(t *testing.T, name string) (all []string) {
	t.Helper()
	res, err := h.fleet(t, adminToken).ListRevisions(t.Context(), &fleetv1.ListRevisionsRequest{Service: name})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range res.GetRevisions() {
		all = append(all, r.GetDigests()[0]+" "+strings.TrimPrefix(r.GetOutcome().String(), "REVISION_OUTCOME_"))
	}
	return all
}
