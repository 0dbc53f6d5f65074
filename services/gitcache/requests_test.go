// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitcache_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/internal/testkit/redistest"
	"github.com/leatdev/leat/services/gitcache"
)

// serving lets a repository be polled at least a number of times while clients ask for everything
// that can be asked, and returns how many polls there were, and how many requests the upstream saw.
func serving(t testing.TB, clients int, polls int64) (polled int64, requests int) {
	t.Helper()
	server, redis := gittest.New(t), redistest.Start(t)
	repo := server.Repo(t, "demo")
	repo.Commit(t, "main", map[string]string{"app/a.yaml": "a: 1\n"})
	r := start(t, redis.URL(), t.TempDir(), func(cfg *gitcache.Config) {
		cfg.PollInterval = 100 * time.Millisecond
		cfg.Serve.AnonymousConnections = 8000 // all come from one address, which may have a quarter
		cfg.Serve.AnonymousRequests = 8000
	})
	def := definition("demo", repo.URL())
	def.PollInterval = nil // the service's
	r.put(t, def)
	r.state(t, "demo", ready)

	var asking errgroup.Group
	patient := await.Context(t)
	for range clients {
		// On a busy machine the connection of a thousand clients may not answer a PING in time.
		asking.Go(func() error {
			return backoff.Retry(patient, backoff.Policy{Initial: 20 * time.Millisecond, Max: time.Second}, r.askEverything)
		})
	}
	if err := asking.Wait(); err != nil {
		t.Fatal(err)
	}
	r.state(t, "demo", func(s *gitcachev1.RepositoryState) bool { return s.GetFetches() >= polls })
	def.Version, def.Suspended = 2, true
	r.put(t, def)
	settled := 0 // readings in a row that were alike: a poll that had begun has ended
	await.Poll(t, "the end of the polls under way", 100*time.Millisecond, func() (bool, string) {
		p, q := r.state(t, "demo", suspended).GetFetches(), repo.Stats().Refs+repo.Stats().Fetches
		if p != polled || q != requests || repo.Stats().InFlight > 0 {
			settled = 0
		}
		polled, requests = p, q
		settled++
		return settled >= 5, fmt.Sprintf("%d polls, %d requests", p, q)
	})
	return polled, requests
}

func suspended(s *gitcachev1.RepositoryState) bool {
	return s.GetPhase() == gitcachev1.RepositoryPhase_REPOSITORY_PHASE_SUSPENDED
}

func (r *replica) askEverything(ctx context.Context) error {
	src := source("demo", "main", "app")
	for range 3 {
		if _, err := r.ResolveSnapshot(ctx, &gitcachev1.ResolveSnapshotRequest{Source: src}); err != nil {
			return err
		}
		if _, err := r.ListRefs(ctx, &gitcachev1.ListRefsRequest{Repository: "demo"}); err != nil {
			return err
		}
		if _, err := r.ReadFile(ctx, &gitcachev1.ReadFileRequest{Source: source("demo", "main", "app/a.yaml")}); err != nil {
			return err
		}
	}
	return nil
}

// TestClientsCostUpstreamsNothing: the upstream sees one request for each poll, and one for the
// clone, whether one client asks or a thousand do.
func TestClientsCostUpstreamsNothing(t *testing.T) {
	t.Parallel()
	for _, clients := range []int{1, 1000} {
		t.Run(fmt.Sprintf("clients=%d", clients), func(t *testing.T) {
			t.Parallel()
			polled, requests := serving(t, clients, 5)
			if want := int(polled) + 1; requests != want { // a clone asks for refs, and for objects
				t.Errorf("got %d requests for %d polls, want %d", requests, polled, want)
			}
		})
	}
}

// BenchmarkUpstreamRequests reports how many requests the upstream sees per repository and hour, at
// the usual interval of two minutes, from how many it sees for each poll.
func BenchmarkUpstreamRequests(b *testing.B) {
	const pollsPerHour = 30
	for _, clients := range []int{1, 1000} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			var polled int64
			var requests int
			for b.Loop() {
				polled, requests = serving(b, clients, 20)
			}
			perPoll := float64(requests-1) / float64(polled) // except the clone's objects
			b.ReportMetric(perPoll, "requests/poll")
			b.ReportMetric(perPoll*pollsPerHour, "requests/h")
		})
	}
}
