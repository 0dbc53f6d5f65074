// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"bytes"
	"net/http"
	"sync"
	"testing"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
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
