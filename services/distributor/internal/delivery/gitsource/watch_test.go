// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitsource_test

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/gen/go/leat/gitcache/v1/gitcachev1connect"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
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

// refusing is a gitcache that refuses the first streams for their tokens, and the next ones for another cause.
type refusing struct {
	gitcache

	refusals, failures int
}

func (g *refusing) WatchRepositories(ctx context.Context, _ *gitcachev1.WatchRepositoriesRequest, stream *connect.ServerStream[gitcachev1.WatchRepositoriesResponse]) error {
	if err := g.fail(); err != nil {
		return err
	}
	if err := stream.Send(&gitcachev1.WatchRepositoriesResponse{Synced: true}); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

func (g *refusing) fail() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.refusals > 0:
		g.refusals--
		return rpcerr.New(connect.CodeUnauthenticated, errorsv1.Reason_REASON_TOKEN_INVALID, "the clock of the calling service differs")
	case g.failures > 0:
		g.failures--
		return rpcerr.New(connect.CodeUnavailable, errorsv1.Reason_REASON_SHUTTING_DOWN, "later")
	}
	return nil
}

// TestRefusedForAWhile has gitcache refuse the tokens of this replica. That counts after half a minute of
// nothing else, and until the first other answer.
func TestRefusedForAWhile(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name               string
		refusals, failures int
		want               bool
	}{{"refused three times", 3, 0, false}, {"refused thirty times", 30, 0, true}, {"then away", 3, 10, false}} {
		synctest.Test(t, func(t *testing.T) {
			mux := http.NewServeMux()
			mux.Handle(gitcachev1connect.NewGitCacheServiceHandler(&refusing{refusals: c.refusals, failures: c.failures}))
			server := rpctest.Start(mux)
			defer func() { _ = server.Close() }()
			source := gitsource.New(gitsource.Params{
				Client: gitcachev1connect.NewGitCacheServiceClient(server.Client(), rpctest.BaseURL),
				Leave:  func() {}, Definitions: catalogue{}, Logger: slog.New(slog.DiscardHandler), ReconcileEvery: time.Minute,
			})
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			began, was := time.Now(), false
			go func() { done <- source.MonitorRepositories(ctx, func(resolve.Event) {}) }()
			for time.Since(began) < 10*time.Minute {
				<-time.After(time.Second)
				synctest.Wait()
				if source.IsRefused() && time.Since(began) < 30*time.Second {
					t.Errorf("%s: it counts after %s", c.name, time.Since(began))
				}
				was = was || source.IsRefused()
			}
			if was != c.want || source.IsRefused() {
				t.Errorf("%s: got %v, and %v at last, want %v and false", c.name, was, source.IsRefused(), c.want)
			}
			cancel()
			<-done
		})
	}
}

// turning is a gitcache that begins to refuse the tokens of this replica while its stream is open, as when the
// clock of its machine is set wrongly.
type turning struct {
	gitcache

	isRefusing atomic.Bool
	// beats has the stream send a heartbeat.
	beats <-chan time.Time
}

func (g *turning) refuse() error {
	if g.isRefusing.Load() {
		return rpcerr.New(connect.CodeUnauthenticated, errorsv1.Reason_REASON_TOKEN_INVALID, "the clock of the calling service differs")
	}
	return nil
}

func (g *turning) ListRepositories(context.Context, *gitcachev1.ListRepositoriesRequest) (*gitcachev1.ListRepositoriesResponse, error) {
	return &gitcachev1.ListRepositoriesResponse{}, g.refuse()
}

func (g *turning) WatchRepositories(ctx context.Context, _ *gitcachev1.WatchRepositoriesRequest, stream *connect.ServerStream[gitcachev1.WatchRepositoriesResponse]) error {
	if err := g.refuse(); err != nil {
		return err
	}
	for { // with heartbeats, whatever happens to the token
		if err := stream.Send(&gitcachev1.WatchRepositoriesResponse{ResumeToken: "1", Synced: true}); err != nil {
			return err
		}
		select {
		case <-g.beats:
		case <-ctx.Done():
			return nil
		}
	}
}

// TestRefusedWhileTheStreamIsOpen has the stream of events outlive the trust in the replica's token: gitcache
// looks at it once. The comparison of definitions, once a minute, notices.
func TestRefusedWhileTheStreamIsOpen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		beats := time.NewTicker(20 * time.Second)
		defer beats.Stop()
		g := &turning{beats: beats.C}
		mux := http.NewServeMux()
		mux.Handle(gitcachev1connect.NewGitCacheServiceHandler(g))
		server := rpctest.Start(mux)
		defer func() { _ = server.Close() }()
		source := gitsource.New(gitsource.Params{
			Client: gitcachev1connect.NewGitCacheServiceClient(server.Client(), rpctest.BaseURL),
			Leave:  func() {}, Definitions: catalogue{}, Logger: slog.New(slog.DiscardHandler), ReconcileEvery: time.Minute,
		})
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() { _ = source.MonitorRepositories(ctx, func(resolve.Event) {}) })
		group.Go(func() { _ = source.MonitorDefinitions(ctx) })
		check := func(want bool) {
			t.Helper()
			<-time.After(2*time.Minute + 30*time.Second)
			synctest.Wait()
			if got := source.IsRefused(); got != want {
				t.Errorf("got %v, want %v", got, want)
			}
		}
		check(false)
		g.isRefusing.Store(true)
		check(true)
		g.isRefusing.Store(false)
		check(false)
		cancel()
		group.Wait()
	})
}
