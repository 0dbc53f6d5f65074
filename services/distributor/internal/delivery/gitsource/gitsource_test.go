// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitsource_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/gen/go/leat/gitcache/v1/gitcachev1connect"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/internal/testkit/rpctest"
	"github.com/leatdev/leat/services/distributor/internal/delivery/gitsource"
	"github.com/leatdev/leat/services/distributor/internal/delivery/plan"
	"github.com/leatdev/leat/services/distributor/internal/delivery/resolve"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// gitcache gives the test's answers.
type gitcache struct {
	gitcachev1connect.UnimplementedGitCacheServiceHandler

	mu      sync.Mutex
	known   []*gitcachev1.RepositoryDefinition
	calls   []string
	asked   []proto.Message
	refusal error
	// streams are played one after another; the last one stays open.
	streams [][]*gitcachev1.WatchRepositoriesResponse
	tokens  []string
	// hangs makes streams fall silent instead of ending.
	hangs bool
}

func (g *gitcache) ListRepositories(context.Context, *gitcachev1.ListRepositoriesRequest) (*gitcachev1.ListRepositoriesResponse, error) {
	return &gitcachev1.ListRepositoriesResponse{Repositories: g.known}, nil
}

func (g *gitcache) PutRepository(_ context.Context, req *gitcachev1.PutRepositoryRequest) (*gitcachev1.PutRepositoryResponse, error) {
	g.calls = append(g.calls, "put "+req.GetRepository().GetName())
	return &gitcachev1.PutRepositoryResponse{}, nil
}

func (g *gitcache) DeleteRepository(_ context.Context, req *gitcachev1.DeleteRepositoryRequest) (*gitcachev1.DeleteRepositoryResponse, error) {
	g.calls = append(g.calls, "delete "+req.GetName())
	return &gitcachev1.DeleteRepositoryResponse{}, nil
}

func (g *gitcache) DownloadBundle(_ context.Context, req *gitcachev1.DownloadBundleRequest, _ *connect.ServerStream[gitcachev1.DownloadBundleResponse]) error {
	g.asked = append(g.asked, req)
	return nil
}

func (g *gitcache) ResolveSnapshot(_ context.Context, req *gitcachev1.ResolveSnapshotRequest) (*gitcachev1.ResolveSnapshotResponse, error) {
	g.asked = append(g.asked, req)
	return &gitcachev1.ResolveSnapshotResponse{}, g.refusal
}

func (g *gitcache) WatchRepositories(ctx context.Context, req *gitcachev1.WatchRepositoriesRequest, stream *connect.ServerStream[gitcachev1.WatchRepositoriesResponse]) error {
	g.mu.Lock()
	g.tokens = append(g.tokens, req.GetResumeToken())
	messages := g.streams[0]
	last := len(g.streams) == 1
	if !last {
		g.streams = g.streams[1:]
	}
	g.mu.Unlock()
	if messages == nil {
		return rpcerr.New(connect.CodeOutOfRange, errorsv1.Reason_REASON_RESUME_EXPIRED, "too old")
	}
	for _, message := range messages {
		if err := stream.Send(message); err != nil {
			return err
		}
	}
	if last || g.hangs {
		<-ctx.Done()
	}
	return nil
}

// catalogue is the catalog's side.
type catalogue struct {
	repositories []*catalog.Repository
	deleted      []catalog.Tombstone
}

func (c catalogue) Definitions(context.Context) ([]*catalog.Repository, []catalog.Tombstone, error) {
	return c.repositories, c.deleted, nil
}

func newSource(t *testing.T, g *gitcache, c catalogue) *gitsource.Source {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle(gitcachev1connect.NewGitCacheServiceHandler(g))
	url, client := rpctest.Serve(t, mux)
	return gitsource.New(gitsource.Params{
		Leave:  func() {},
		Client: gitcachev1connect.NewGitCacheServiceClient(client, url), Definitions: c,
		Logger: slog.New(slog.DiscardHandler), ReconcileEvery: time.Minute,
	})
}

func TestReconcile(t *testing.T) {
	t.Parallel()
	definition := func(name, uid string, version int64) *gitcachev1.RepositoryDefinition {
		return &gitcachev1.RepositoryDefinition{Name: name, Uid: uid, Version: version}
	}
	repository := func(name, uid string, version int64) *catalog.Repository {
		return &catalog.Repository{Metadata: catalog.Metadata{Name: name, UID: uid, ResourceVersion: version}}
	}
	g := &gitcache{known: []*gitcachev1.RepositoryDefinition{
		definition("same", "s", 3), definition("older", "o", 1), definition("anew", "before", 9), definition("deleted", "d", 2),
		definition("unheard-of", "u", 1),
	}}
	source := newSource(t, g, catalogue{
		repositories: []*catalog.Repository{repository("same", "s", 3), repository("older", "o", 4), repository("anew", "after", 10), repository("missing", "m", 1)},
		deleted: []catalog.Tombstone{
			{Key: catalog.Key{Kind: catalog.KindRepository, Name: "deleted"}, UID: "d", Revision: 5},
			{Key: catalog.Key{Kind: catalog.KindRepository, Name: "same"}, UID: "an older one", Revision: 2},
		},
	})
	if err := source.Reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"put older", "put anew", "put missing", "delete deleted"}, g.calls); diff != "" {
		t.Errorf("calls differ (-want +got):\n%s", diff)
	}
}

func TestSelectionTravels(t *testing.T) {
	t.Parallel()
	g := &gitcache{}
	source := newSource(t, g, catalogue{})
	selective := catalog.Source{
		Repository: "demo", Path: "apps/web", Folders: catalog.NewList([]string{"apps/base"}), Files: catalog.NewList([]string{"VERSION"}),
		Include: catalog.NewList([]string{"*.yaml"}), Exclude: catalog.NewList([]string{"test/"}),
	}
	plain := catalog.Source{Repository: "demo", Path: "apps/web", Root: "apps"}
	chart := catalog.Source{Repository: "demo", Chart: "web", Ref: catalog.Ref{Kind: catalog.RefSemver, Value: "~4.2"}}
	layer := catalog.Source{Repository: "demo", Layer: catalog.ArtifactLayer{MediaType: "a/b", Copy: true}}
	mounted := chart
	mounted.Mount = "charts/web" // is not gitcache's business
	for _, asked := range []catalog.Source{selective, mounted} {
		if _, err := source.Resolve(t.Context(), asked); err == nil {
			t.Error("got no error for an answer without a digest")
		}
	}
	d := digest.FromBytes(nil)
	for _, bundled := range []catalog.Source{selective, plain, chart, layer} {
		body, err := source.Download(t.Context(), plan.Bundle{Digest: d, Commit: "c", Source: bundled})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(body); err != nil {
			t.Error(err)
		}
		_ = body.Close()
	}
	message := &typev1.Source{
		Repository: "demo", Path: "apps/web", Folders: []string{"apps/base"}, Files: []string{"VERSION"}, Include: []string{"*.yaml"}, Exclude: []string{"test/"},
	}
	web := &typev1.Source{Repository: "demo", Chart: "web", Ref: &typev1.GitRef{Selector: &typev1.GitRef_Semver{Semver: "~4.2"}}}
	file := &typev1.Source{Repository: "demo", Layer: &typev1.ArtifactLayer{MediaType: "a/b", Copy: true}}
	want := []proto.Message{
		&gitcachev1.ResolveSnapshotRequest{Source: message},
		&gitcachev1.ResolveSnapshotRequest{Source: web},
		&gitcachev1.DownloadBundleRequest{Repository: "demo", Digest: d.String(), Commit: "c", Source: message},
		&gitcachev1.DownloadBundleRequest{Repository: "demo", Digest: d.String(), Commit: "c", Path: "apps"},
		&gitcachev1.DownloadBundleRequest{Repository: "demo", Digest: d.String(), Commit: "c", Source: web},
		&gitcachev1.DownloadBundleRequest{Repository: "demo", Digest: d.String(), Commit: "c", Source: file},
	}
	if diff := cmp.Diff(want, g.asked, protocmp.Transform()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestResolveFailures(t *testing.T) {
	t.Parallel()
	const refused = "an operator of the hub has to repair this; Leat retries automatically"
	for name, test := range map[string]struct {
		refusal error
		want    resolve.Failure
	}{
		"reason":      {rpcerr.New(connect.CodeNotFound, errorsv1.Reason_REASON_REF_NOT_FOUND, "no such branch"), resolve.Failure{Reason: reason.RefNotFound, Message: "no such branch"}},
		"wait":        {rpcerr.New(connect.CodeUnavailable, errorsv1.Reason_REASON_REPOSITORY_NOT_READY, "cloning", rpcerr.RetryAfter(7*time.Second)), resolve.Failure{Reason: reason.RepositoryNotReady, Message: "cloning", RetryAfter: 7 * time.Second}},
		"not pushed":  {rpcerr.NotFound("repository", "demo"), resolve.Failure{Reason: reason.RepositoryNotReady, Message: "the repository is about to be fetched for the first time"}},
		"unreachable": {connect.NewError(connect.CodeUnavailable, errors.New("connection refused")), resolve.Failure{Reason: reason.DependencyUnavailable, Message: "the repository cache does not answer; Leat retries by itself"}},
		"token": {
			rpcerr.New(connect.CodeUnauthenticated, errorsv1.Reason_REASON_TOKEN_INVALID, "the clock of the calling service differs"),
			resolve.Failure{Reason: reason.HubTokenRefused, Message: "the repository cache refuses the token of the distributor: the clock of the calling service differs; " + refused},
		},
		"token, by a proxy": {
			connect.NewError(connect.CodeUnauthenticated, errors.New("who are you")),
			resolve.Failure{Reason: reason.HubTokenRefused, Message: "the repository cache refuses the token of the distributor: " +
				"the clocks of their machines differ, or one does not know the other's key; " + refused},
		},
		"no digest": {nil, resolve.Failure{Reason: reason.Internal, Message: "the repository cache answered without a valid digest"}},
	} {
		_, err := newSource(t, &gitcache{refusal: test.refusal}, catalogue{}).Resolve(t.Context(), catalog.Source{Repository: "demo"})
		got, ok := errors.AsType[*resolve.Failure](err)
		if !ok || *got != test.want {
			t.Errorf("%s: got %v, want %+v", name, err, test.want)
		}
	}
}

func TestWatchResumes(t *testing.T) {
	t.Parallel()
	event := func(token, repository string, epoch uint64) *gitcachev1.WatchRepositoriesResponse {
		return &gitcachev1.WatchRepositoriesResponse{ResumeToken: token, Event: &gitcachev1.RepositoryEvent{
			Repository: repository, Epoch: epoch, ChangedRefs: []string{"refs/heads/main"}, State: &gitcachev1.RepositoryState{Epoch: epoch},
		}}
	}
	g := &gitcache{streams: [][]*gitcachev1.WatchRepositoriesResponse{
		{event("1", "initial", 2), {ResumeToken: "1", Synced: true}, event("2", "live", 2), event("3", "live", 1)},
		{event("4", "resumed", 2)},
		nil, // the token has expired
		{event("9", "again", 2)},
	}}
	source := newSource(t, g, catalogue{})
	ctx, cancel := context.WithCancel(t.Context())
	var got []string
	err := source.MonitorRepositories(ctx, func(e resolve.Event) {
		text := e.Repository
		if e.AllRefs {
			text += " all"
		}
		if got = append(got, text); e.Repository == "again" {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want canceled", err)
	}
	if diff := cmp.Diff([]string{"initial all", "live", "resumed", "again all"}, got); diff != "" {
		t.Errorf("events differ; a stale epoch is left out (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"", "3", "4", ""}, g.tokens); diff != "" {
		t.Errorf("resume tokens differ (-want +got):\n%s", diff)
	}
}
