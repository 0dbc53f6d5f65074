// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/gen/go/leat/gitcache/v1/gitcachev1connect"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpc"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/internal/testkit/hubkeys"
	"github.com/leatdev/leat/internal/testkit/loopback"
)

// fakeGit is a gitcache that holds what the test gives it. It lives on a real port and checks real
// tokens.
type fakeGit struct {
	gitcachev1connect.UnimplementedGitCacheServiceHandler

	url  string
	stop func()

	mu          sync.Mutex
	definitions map[string]*gitcachev1.RepositoryDefinition
	// folders are by repository and path.
	folders map[[2]string]*folder
	// past are all folders that there ever were, by repository, path and commit.
	past     map[[3]string]*folder
	refused  map[string]*connect.Error
	resolved map[string]int
	// freshAt is when a folder changed last.
	freshAt   time.Time
	downloads int
	// upstream is the upstream's problem; nil without one.
	upstream *typev1.Problem
	// trace is the W3C trace context of the latest download.
	trace     string
	refreshes int
	// deliveries are webhooks, by repository.
	deliveries map[string][]*gitcachev1.WebhookDelivery
	// commits are histories, by the commit that they begin at; histories are the calls for them.
	commits   map[string][]*gitcachev1.Commit
	histories []*gitcachev1.ListCommitsRequest
	// states are the states of mirrors; asked counts the calls for them.
	states map[string]*gitcachev1.RepositoryState
	asked  int
	// distrusts has every call refused, as one of a service whose key is not known.
	distrusts atomic.Bool
	// gate holds downloads up until it is closed; nil lets them pass.
	gate     chan struct{}
	watchers map[chan *gitcachev1.WatchRepositoriesResponse]struct{}
	watched  int
	// images are what image policies read and write.
	images fakeImages
}

// folder is the content of one folder.
type folder struct {
	snapshot *typev1.Snapshot
	bytes    []byte
}

// newFolder makes a real bundle of one file.
func newFolder(t *testing.T, commit, content string) *folder {
	t.Helper()
	var plain, packed bytes.Buffer
	w := bundle.NewWriter(&plain, bundle.DefaultLimits())
	if err := w.WriteFile("app.yaml", false, int64(len(content)), strings.NewReader(content)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	z, err := bundle.Compress(&packed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write(plain.Bytes()); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return &folder{bytes: packed.Bytes(), snapshot: &typev1.Snapshot{
		Commit: commit, Digest: digest.FromBytes(plain.Bytes()).String(),
		ContentSize: int64(plain.Len()), StoredSize: int64(packed.Len()), FileCount: 1,
	}}
}

func startFakeGit(t *testing.T) *fakeGit {
	t.Helper()
	f := &fakeGit{
		definitions: map[string]*gitcachev1.RepositoryDefinition{},
		folders:     map[[2]string]*folder{},
		past:        map[[3]string]*folder{},
		refused:     map[string]*connect.Error{},
		resolved:    map[string]int{},
		watchers:    map[chan *gitcachev1.WatchRepositoriesResponse]struct{}{},
	}
	f.start(t, loopback.Addr(t))
	return f
}

// start serves on addr until stop or the end of the test.
func (f *fakeGit) start(t *testing.T, addr string) {
	t.Helper()
	rpcs, err := rpc.NewServer(rpc.ServerParams{Telemetry: telemetry.Noop(), Logger: telemetry.Noop().Logger(), Verifier: f})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle(gitcachev1connect.NewGitCacheServiceHandler(f, rpcs.Options()...))
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Handler: mux, Protocols: protocols}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
	f.url = "http://" + listener.Addr().String()
	var once sync.Once
	f.stop = func() {
		once.Do(func() {
			_ = server.Close()
			<-served
		})
	}
	t.Cleanup(f.stop)
}

// Verify implements identity.Verifier.
func (f *fakeGit) Verify(ctx context.Context, token string) (identity.Identity, error) {
	if !f.distrusts.Load() {
		return hubkeys.Verifier(identity.ServiceGitCache, identity.ServiceDistributor).Verify(ctx, token)
	}
	keys, err := identity.ParseServiceKeys([]string{hubkeys.Key(identity.ServiceGitCache).Public()})
	if err != nil {
		return identity.Identity{}, err
	}
	return keys.Verifier([]string{identity.ServiceDistributor}, identity.ServiceGitCache).Verify(ctx, token)
}

func (f *fakeGit) addr() string { return strings.TrimPrefix(f.url, "http://") }

// set changes what a folder holds, without telling anybody.
func (f *fakeGit) set(repository, path string, content *folder) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.folders[[2]string{repository, path}] = content
	if content != nil {
		f.past[[3]string{repository, path, content.snapshot.GetCommit()}] = content
	}
	f.freshAt = time.Now()
}

// refuse makes every resolution of the repository fail; nil ends that.
func (f *fakeGit) refuse(repository string, err *connect.Error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		delete(f.refused, repository)
		return
	}
	f.refused[repository] = err
}

// setStates changes what mirrors are like, without an event.
func (f *fakeGit) setStates(states map[string]*gitcachev1.RepositoryState) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.states = states
}

// announce tells watchers that refs moved.
func (f *fakeGit) announce(repository, traceparent string, refs ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for watcher := range f.watchers {
		watcher <- &gitcachev1.WatchRepositoriesResponse{Event: &gitcachev1.RepositoryEvent{
			Repository: repository, Epoch: 1, ChangedRefs: refs, Traceparent: traceparent,
			State: &gitcachev1.RepositoryState{Phase: gitcachev1.RepositoryPhase_REPOSITORY_PHASE_READY, Epoch: 1},
			Time:  timestamppb.New(fetchBegan.Add(fetchTook)), FetchDuration: durationpb.New(fetchTook),
		}}
	}
}

// fetchBegan and fetchTook are the fetch of each change that a fakeGit announces.
var (
	fetchBegan = time.Date(2026, time.January, 2, 3, 4, 5, 0, time.UTC)
	fetchTook  = 1500 * time.Millisecond
)

// watches is how many watches have begun. Watches of a replica that was stopped may end later than
// it.
func (f *fakeGit) watches() int { return f.count(&f.watched) }

func (f *fakeGit) definition(name string) *gitcachev1.RepositoryDefinition {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.definitions[name]
}

// asks is how often a folder was asked for, by repository and path.
func (f *fakeGit) asks(folder string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.resolved[folder]
}

func (f *fakeGit) count(n *int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return *n
}

func (f *fakeGit) PutRepository(_ context.Context, req *gitcachev1.PutRepositoryRequest) (*gitcachev1.PutRepositoryResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.definitions[req.GetRepository().GetName()] = req.GetRepository()
	return &gitcachev1.PutRepositoryResponse{}, nil
}

func (f *fakeGit) DeleteRepository(_ context.Context, req *gitcachev1.DeleteRepositoryRequest) (*gitcachev1.DeleteRepositoryResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.definitions, req.GetName())
	return &gitcachev1.DeleteRepositoryResponse{}, nil
}

func (f *fakeGit) ListRepositories(context.Context, *gitcachev1.ListRepositoriesRequest) (*gitcachev1.ListRepositoriesResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	res := &gitcachev1.ListRepositoriesResponse{}
	for _, definition := range f.definitions {
		clean := proto.CloneOf(definition)
		clean.Credential = nil
		res.Repositories = append(res.Repositories, clean)
	}
	return res, nil
}

func (f *fakeGit) RefreshRepository(context.Context, *gitcachev1.RefreshRepositoryRequest) (*gitcachev1.RefreshRepositoryResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refreshes++
	return &gitcachev1.RefreshRepositoryResponse{State: &gitcachev1.RepositoryState{Problem: f.upstream}}, nil
}

// ListWebhookDeliveries has no deliveries of repositories that it was not given.
func (f *fakeGit) ListWebhookDeliveries(_ context.Context, req *gitcachev1.ListWebhookDeliveriesRequest) (*gitcachev1.ListWebhookDeliveriesResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return &gitcachev1.ListWebhookDeliveriesResponse{Deliveries: f.deliveries[req.GetName()]}, nil
}

func (f *fakeGit) ListCommits(_ context.Context, req *gitcachev1.ListCommitsRequest) (*gitcachev1.ListCommitsResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.histories = append(f.histories, proto.CloneOf(req))
	if refused := f.refused[req.GetSource().GetRef().GetCommit()]; refused != nil {
		return nil, refused
	}
	return &gitcachev1.ListCommitsResponse{Commits: f.commits[req.GetSource().GetRef().GetCommit()]}, nil
}

func (f *fakeGit) GetRepositoryStates(_ context.Context, req *gitcachev1.GetRepositoryStatesRequest) (*gitcachev1.GetRepositoryStatesResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	res := &gitcachev1.GetRepositoryStatesResponse{States: map[string]*gitcachev1.RepositoryState{}}
	for _, name := range req.GetNames() {
		if state, ok := f.states[name]; ok {
			res.States[name] = proto.CloneOf(state)
		}
	}
	return res, nil
}

func (f *fakeGit) ResolveSnapshot(_ context.Context, req *gitcachev1.ResolveSnapshotRequest) (*gitcachev1.ResolveSnapshotResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	repository, path := req.GetSource().GetRepository(), req.GetSource().GetPath()
	if branch := req.GetSource().GetRef().GetBranch(); branch != "" && branch != "main" {
		path += "@" + branch
	}
	if tagged := path + "@" + req.GetSource().GetRef().GetTag(); f.folders[[2]string{repository, tagged}] != nil {
		path = tagged
	}
	f.resolved[repository+"/"+path]++
	if f.definitions[repository] == nil {
		return nil, rpcerr.NotFound("repository", repository)
	}
	if err := f.refused[repository]; err != nil {
		return nil, err
	}
	content := f.folders[[2]string{repository, path}]
	if commit := req.GetSource().GetRef().GetCommit(); commit != "" && f.past[[3]string{repository, path, commit}] != nil {
		content = f.past[[3]string{repository, path, commit}]
	}
	if content == nil {
		return nil, rpcerr.New(connect.CodeNotFound, errorsv1.Reason_REASON_PATH_NOT_FOUND, "the commit has no folder "+path)
	}
	return &gitcachev1.ResolveSnapshotResponse{Snapshot: content.snapshot, Epoch: 1, FreshAt: timestamppb.New(f.freshAt)}, nil
}

func (f *fakeGit) DownloadBundle(ctx context.Context, req *gitcachev1.DownloadBundleRequest, stream *connect.ServerStream[gitcachev1.DownloadBundleResponse]) error {
	f.mu.Lock()
	f.downloads++
	if call, ok := connect.CallInfoForHandlerContext(ctx); ok {
		f.trace = call.RequestHeader().Get("Traceparent")
	}
	gate := f.gate
	var content *folder
	for key, candidate := range f.folders {
		if candidate != nil && key[0] == req.GetRepository() && candidate.snapshot.GetDigest() == req.GetDigest() {
			content = candidate
		}
	}
	f.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if content == nil {
		return rpcerr.New(connect.CodeNotFound, errorsv1.Reason_REASON_BUNDLE_NOT_FOUND, "no such bundle")
	}
	header := &gitcachev1.BundleHeader{Digest: req.GetDigest(), StoredSize: int64(len(content.bytes))}
	if err := stream.Send(&gitcachev1.DownloadBundleResponse{Frame: &gitcachev1.DownloadBundleResponse_Header{Header: header}}); err != nil {
		return err
	}
	return stream.Send(&gitcachev1.DownloadBundleResponse{Frame: &gitcachev1.DownloadBundleResponse_Chunk{Chunk: content.bytes}})
}

func (f *fakeGit) WatchRepositories(ctx context.Context, _ *gitcachev1.WatchRepositoriesRequest, stream *connect.ServerStream[gitcachev1.WatchRepositoriesResponse]) error {
	if err := stream.Send(&gitcachev1.WatchRepositoriesResponse{Synced: true}); err != nil {
		return err
	}
	events := make(chan *gitcachev1.WatchRepositoriesResponse, 100)
	f.mu.Lock()
	f.watchers[events] = struct{}{}
	f.watched++
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		delete(f.watchers, events)
		f.mu.Unlock()
	}()
	for {
		select {
		case event := <-events:
			if err := stream.Send(event); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
