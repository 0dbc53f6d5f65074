// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"bytes"
	"cmp"
	"math"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/services/distributor"
)

func TestCommitIsPushedToTheAgent(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	first, second := newFolder(t, "c1", "one"), newFolder(t, "c2", "two")
	h.demo(t, first)
	agent := h.enrol(t, "one")
	stream := h.watchPlan(t, agent.token, "")
	before := stream.nextWith(t, first.snapshot.GetDigest())

	h.git.set("demo", "app", second)
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	h.git.announce("demo", trace, "refs/heads/main")
	after := stream.nextWith(t, second.snapshot.GetDigest())
	if after.GetVersion() == before.GetVersion() {
		t.Error("got the same version for another content")
	}
	service := after.GetServices()[0]
	if got := service.GetTraceparent(); len(got) != len(trace) || got[3:35] != trace[3:35] {
		t.Errorf("got traceparent %q, want the trace of %q", got, trace)
	}
	if service.GetBundles()[0].GetPath() != "app" || service.GetApply().GetNamespace() != "default" || !service.GetApply().GetPrune() {
		t.Errorf("got %v, want path app and the defaults", service)
	}

	res, body := h.download(t, agent.token, second.snapshot.GetDigest(), nil)
	if res.StatusCode != http.StatusOK || !bytes.Equal(body, second.bytes) {
		t.Errorf("got status %d and %d bytes, want the bundle", res.StatusCode, len(body))
	}
	h.git.set("demo", "old", first)
	if res, body := h.download(t, agent.token, first.snapshot.GetDigest(), nil); res.StatusCode != http.StatusOK || !bytes.Equal(body, first.bytes) {
		t.Errorf("got status %d, want the bundle of the plan before: agents may still be at it", res.StatusCode)
	}
}

// TestRevisionsNameTheirTrace has an agent report with what the plan tells it, and then with what no hub has told it.
func TestRevisionsNameTheirTrace(t *testing.T) {
	t.Parallel()
	h := startHub(t, func(c *distributor.Config) { c.TraceURL = "https://jaeger.example.com/trace/{traceID}" })
	first, second := newFolder(t, "c1", "one"), newFolder(t, "c2", "two")
	h.demo(t, first)
	uid := h.service(t, "app").GetMetadata().GetUid()
	agent := h.enrol(t, "one")
	stream := h.watchPlan(t, agent.token, "")
	stream.nextWith(t, first.snapshot.GetDigest())
	h.git.set("demo", "app", second)
	const id = "0af7651916cd43dd8448eb211c80319c"
	h.git.announce("demo", "00-"+id+"-b7ad6b7169203331-01", "refs/heads/main")
	entry := stream.nextWith(t, second.snapshot.GetDigest()).GetServices()[0]
	if !entry.GetFetchBeganAt().AsTime().Equal(fetchBegan) || entry.GetFetchDuration().AsDuration() != fetchTook {
		t.Errorf("got a plan with %v, %v, want the fetch that brought the change", entry.GetFetchBeganAt(), entry.GetFetchDuration())
	}

	says := newReporter()
	report := func(content, traceparent string, began *timestamppb.Timestamp, took *durationpb.Duration) *fleetv1.Revision {
		said := stated("app", uid, content, "", typev1.ServicePhase_SERVICE_PHASE_HEALTHY)
		said.Traceparent, said.FetchBeganAt, said.FetchDuration = traceparent, began, took
		says.set(said)
		says.flush(t, func(r *distributorv1.ReportStatusRequest) (*distributorv1.ReportStatusResponse, error) {
			return h.agents(t, agent.token).ReportStatus(t.Context(), r)
		})
		res, err := h.fleet(t, adminToken).ListRevisions(t.Context(), &fleetv1.ListRevisionsRequest{Service: "app"})
		if err != nil {
			t.Fatal(err)
		}
		return res.GetRevisions()[0]
	}
	got := report(second.snapshot.GetDigest(), entry.GetTraceparent(), entry.GetFetchBeganAt(), entry.GetFetchDuration())
	if got.GetTraceId() != id || got.GetTraceUrl() != "https://jaeger.example.com/trace/"+id ||
		!got.GetFetchBeganAt().AsTime().Equal(fetchBegan) || got.GetFetchDuration().AsDuration() != fetchTook {
		t.Errorf("got %v, want the trace and the fetch that the plan names", got)
	}
	for name, hostile := range map[string]struct {
		traceparent string
		began       *timestamppb.Timestamp
		took        time.Duration
	}{
		"markup":          {traceparent: "00-<script>alert(1)</script>aaaaaa-b7ad6b7169203331-01", took: -time.Second},
		"another address": {traceparent: "../../evil", took: 1000 * time.Hour},
		"no trace":        {traceparent: "00-00000000000000000000000000000000-b7ad6b7169203331-01", took: -1},
		"a megabyte":      {traceparent: strings.Repeat("0", 1<<20), took: math.MaxInt64},
		"no year of JSON": {began: &timestamppb.Timestamp{Seconds: math.MaxInt64 / 2}},
		"before Git":      {began: &timestamppb.Timestamp{Seconds: math.MinInt64}},
	} {
		got := report(name, hostile.traceparent, cmp.Or(hostile.began, entry.GetFetchBeganAt()), durationpb.New(hostile.took))
		if got.GetDigests()[0] != name || got.GetTraceId() != "" || got.GetTraceUrl() != "" || got.GetFetchBeganAt() != nil || got.GetFetchDuration() != nil {
			t.Errorf("%s: got %v, want neither a trace nor a fetch", name, got)
		}
	}
}

func TestHundredDownloadsFillOnce(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	content := newFolder(t, "c1", "one")
	h.demo(t, content)
	agent := h.enrol(t, "one")
	h.watchPlan(t, agent.token, "").nextWith(t, content.snapshot.GetDigest())

	h.git.mu.Lock()
	h.git.gate = make(chan struct{})
	h.git.mu.Unlock()
	var downloads sync.WaitGroup
	for range 100 {
		downloads.Go(func() {
			res, body := h.download(t, agent.token, content.snapshot.GetDigest(), nil)
			if res.StatusCode != http.StatusOK || !bytes.Equal(body, content.bytes) {
				t.Errorf("got status %d, want the bundle", res.StatusCode)
			}
		})
	}
	close(h.git.gate)
	downloads.Wait()
	if got := h.git.count(&h.git.downloads); got != 1 {
		t.Errorf("got %d downloads from gitcache, want 1", got)
	}
}

func TestRestartWithoutGitYieldsTheSamePlan(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	content := newFolder(t, "c1", "one")
	h.demo(t, content)
	agent := h.enrol(t, "one")
	before := h.watchPlan(t, agent.token, "").nextWith(t, content.snapshot.GetDigest())
	h.download(t, agent.token, content.snapshot.GetDigest(), nil)
	h.stop(t)
	h.git.stop()

	h.start(t)
	agent.token = h.refresh(t, agent)
	res, err := h.agents(t, agent.token).GetPlan(t.Context(), &distributorv1.GetPlanRequest{KnownVersion: before.GetVersion()})
	if err != nil {
		t.Fatal(err)
	}
	if !res.GetUnchanged() || res.GetPlan() != nil {
		t.Errorf("got %v, want unchanged", res)
	}
	if res, body := h.download(t, agent.token, content.snapshot.GetDigest(), nil); res.StatusCode != http.StatusOK || !bytes.Equal(body, content.bytes) {
		t.Errorf("got status %d, want the bundle from disk", res.StatusCode)
	}
	service, err := fleetcalls.Get[*fleetv1.Service](t.Context(), h.fleet(t, adminToken), "app")
	if err != nil {
		t.Fatal(err)
	}
	if source := service.GetStatus().GetSources()[0]; source.GetProblem() != nil || source.GetSnapshot().GetCommit() != "c1" {
		t.Errorf("got %v, want the last good snapshot without a problem", source)
	}
}
