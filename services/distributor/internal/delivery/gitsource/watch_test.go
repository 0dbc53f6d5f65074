// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitsource_test

import (
	"context"
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/gen/go/leat/gitcache/v1/gitcachev1connect"
	"github.com/leatdev/leat/internal/testkit/rpctest"
	"github.com/leatdev/leat/services/distributor/internal/delivery/gitsource"
	"github.com/leatdev/leat/services/distributor/internal/delivery/resolve"
)

func eventOf(token, repository string) *gitcachev1.WatchRepositoriesResponse {
	return &gitcachev1.WatchRepositoriesResponse{ResumeToken: token, Event: &gitcachev1.RepositoryEvent{
		Repository: repository, Epoch: 1, ChangedRefs: []string{"refs/heads/main"}, State: &gitcachev1.RepositoryState{Epoch: 1},
	}}
}

// watch follows the gitcache's streams in virtual time until it has seen the event of the
// repository last, and returns what it saw, how long it took, and how often it left a replica.
func watch(t *testing.T, g *gitcache, last string) (seen []string, took time.Duration, left int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		mux := http.NewServeMux()
		mux.Handle(gitcachev1connect.NewGitCacheServiceHandler(g))
		server := rpctest.Start(mux)
		defer func() { _ = server.Close() }()
		source := gitsource.New(gitsource.Params{
			Client:      gitcachev1connect.NewGitCacheServiceClient(server.Client(), rpctest.BaseURL),
			Leave:       func() { left++ },
			Definitions: catalogue{}, Logger: slog.New(slog.DiscardHandler), ReconcileEvery: time.Minute,
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		began := time.Now()
		_ = source.MonitorRepositories(ctx, func(e resolve.Event) {
			text := e.Repository
			if e.AllRefs {
				text += " all"
			}
			if seen = append(seen, text); e.Repository == last {
				cancel()
			}
		})
		took = time.Since(began)
	})
	return seen, took, left
}

// TestASilentStreamIsResumed has a stream stay open without a word, as one does whose other end is
// gone.
func TestASilentStreamIsResumed(t *testing.T) {
	t.Parallel()
	g := &gitcache{hangs: true, streams: [][]*gitcachev1.WatchRepositoriesResponse{
		{{ResumeToken: "1", Synced: true}, eventOf("2", "first")},
		{eventOf("3", "second")},
	}}
	seen, took, left := watch(t, g, "second")
	if len(seen) != 2 || seen[1] != "second" || g.tokens[1] != "2" {
		t.Errorf("got %v with tokens %v, want the stream resumed after the event that was seen last", seen, g.tokens)
	}
	if left != 1 {
		t.Errorf("left %d replicas, want the silent one left", left)
	}
	if took < time.Minute || took > 2*time.Minute {
		t.Errorf("took %s, want three heartbeats of silence and no more", took)
	}
}

// TestABrokenListingBeginsAnew has the first stream end amid the states of repositories: its
// position is unknown.
func TestABrokenListingBeginsAnew(t *testing.T) {
	t.Parallel()
	state := func(repository string) *gitcachev1.WatchRepositoriesResponse { return eventOf("", repository) }
	g := &gitcache{streams: [][]*gitcachev1.WatchRepositoriesResponse{
		{state("a")},
		{state("a"), state("b"), {ResumeToken: "1", Synced: true}, eventOf("2", "live")},
	}}
	seen, _, _ := watch(t, g, "live")
	if want := []string{"a all", "a all", "b all", "live"}; len(seen) != len(want) || seen[2] != want[2] || seen[3] != want[3] {
		t.Errorf("got %v, want %v", seen, want)
	}
	if g.tokens[1] != "" {
		t.Errorf("got token %q after half a listing, want a new one", g.tokens[1])
	}
}
