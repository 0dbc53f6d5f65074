// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	metricnoop "go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/gen/go/leat/gitcache/v1/gitcachev1connect"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/cas"
	"github.com/leatdev/leat/internal/contract/cas/casmem"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/kit/lease/leasemem"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpc"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/rpctest"
	"github.com/leatdev/leat/services/gitcache/internal/api"
	"github.com/leatdev/leat/services/gitcache/internal/chartdep"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/lfs"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/mirroring"
	"github.com/leatdev/leat/services/gitcache/internal/snapshot"
	"github.com/leatdev/leat/services/gitcache/internal/snapshot/leaves"
	"github.com/leatdev/leat/services/gitcache/internal/submodule"
)

// backend is everything below the edge; a test sets what it needs.
type backend struct {
	fetch  func(context.Context) (mirror.Content, error)
	put    func(mirror.Definition) error
	append func(mirror.Event) error
	expand func(prefix string) (string, error)
	tree   func(path string) (string, error)
	list   func(tree string) ([]content.Entry, error)
	// readErr is the error of reading the event log, and probeErr the error of a probe of it.
	readErr, probeErr error
	store             cas.Store
	identity          identity.Identity
}

func (b *backend) Check(mirror.Definition) error { return nil }
func (b *backend) Fetch(ctx context.Context, _ mirror.FetchParams) (mirror.Content, error) {
	return b.fetch(ctx)
}

func (b *backend) Load(context.Context, string) (mirror.Content, error) {
	return mirror.Content{}, mirror.ErrNoMirror
}
func (b *backend) Remove(context.Context, string) error                       { return nil }
func (b *backend) SaveDelivery(context.Context, string, mirror.Content) error { return nil }
func (b *backend) Members() []string                                          { return []string{"http://self"} }
func (b *backend) Put(_ context.Context, d mirror.Definition) error           { return b.put(d) }
func (b *backend) Missed(context.Context) error                               { return nil }
func (b *backend) Append(_ context.Context, e mirror.Event) error             { return b.append(e) }
func (b *backend) States(context.Context) ([]mirror.Event, string, error)     { return nil, "t.1", nil }

func (b *backend) Verify(context.Context, string) (identity.Identity, error) { return b.identity, nil }

func (b *backend) Open(context.Context, string) (content.Reader, error) {
	return reader{backend: b}, nil
}

func (b *backend) Enter(context.Context, mirror.Definition) (func(), error) { return func() {}, nil }

// whole is a mirror.Backend; what a test does not need of it comes from rest, which has nothing.
type whole struct {
	*backend
	noDisk
	rest
}

type rest struct{ mirror.Backend }

// peers are no other replicas.
type peers struct{ mirror.Replicas }

func (b *backend) Delete(_ context.Context, name string, _ int64) (mirror.Definition, bool, error) {
	return mirror.Definition{Name: name}, true, nil
}

func (b *backend) Read(context.Context, string) ([]mirror.Logged, error) {
	return nil, b.readErr
}

// Probe fails as Redis does that does not answer: when the caller gives up. A caller that never does is not held up.
func (b *backend) Probe(ctx context.Context, _ string) error {
	if _, givesUp := ctx.Deadline(); !givesUp {
		return nil
	}
	return b.probeErr
}

type reader struct {
	content.Reader
	backend *backend
}

func (r reader) Close() error { return nil }
func (r reader) Expand(_ context.Context, prefix string) (string, error) {
	return r.backend.expand(prefix)
}

func (r reader) Tree(_ context.Context, _, path string) (string, error) {
	return r.backend.tree(path)
}

func (r reader) List(_ context.Context, tree string) ([]content.Entry, error) {
	return r.backend.list(tree)
}

func (r reader) Absent(context.Context, []string) ([]string, error) { return nil, nil }

func (r reader) Blob(context.Context, string) (content.File, error) {
	return content.File{ReadCloser: io.NopCloser(strings.NewReader(""))}, nil
}

// fullStore takes nothing.
type fullStore struct {
	cas.Store
	err error
}

func (s fullStore) Put(context.Context, digest.Digest, io.Reader) (cas.Info, error) {
	return cas.Info{}, s.err
}

func newBackend() *backend {
	return &backend{
		fetch: func(context.Context) (mirror.Content, error) {
			refs := mirror.NewRefs([]mirror.Ref{{Name: "refs/heads/main", Object: "c", Commit: "c"}})
			return mirror.Content{Refs: refs, FreshAt: time.Now()}, nil
		},
		put:    func(mirror.Definition) error { return nil },
		append: func(mirror.Event) error { return nil },
		tree:   func(path string) (string, error) { return "tree of " + path, nil },
		list: func(tree string) ([]content.Entry, error) {
			if tree == "tree of " {
				return []content.Entry{{Name: "app", Kind: content.KindFolder, ID: "tree of app"}}, nil
			}
			return []content.Entry{{Name: "empty", ID: "blob"}}, nil
		},
		store:    casmem.New(casmem.Config{}),
		identity: identity.Identity{Kind: identity.KindService, Name: "distributor"},
	}
}

// newService runs the edge over b with one repository called demo.
func newService(t testing.TB, b *backend) *api.Service {
	t.Helper()
	logger, tracer := slog.New(slog.DiscardHandler), tracenoop.NewTracerProvider().Tracer("")
	meter := metricnoop.NewMeterProvider().Meter("")
	set, err := mirroring.NewSet(mirroring.Deps{
		Backend: whole{b, noDisk{}, rest{}}, Named: noDisk{}, Events: b, Leases: leasemem.New(), Objects: nil, Peers: b, Replicas: peers{},
		Self: "http://self", Settings: mirroring.Settings{Debounce: time.Millisecond}, Logger: logger, Tracer: tracer, Meter: meter,
	})
	if err != nil {
		t.Fatal(err)
	}
	set.Apply([]mirror.Definition{{Name: "demo", UID: "uid-1", Definition: upstream.Definition{URL: "https://git.invalid/demo"}}})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- set.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	snapshots, err := snapshot.NewBuilder(snapshot.Params{
		Mirrors: b, Store: b.store, Index: snapshot.NewIndex(), TempDir: t.TempDir(), Logger: logger, Tracer: tracer, Meter: meter,
	})
	if err != nil {
		t.Fatal(err)
	}
	return api.New(api.Params{
		Set: set, Registry: b, Checker: b, Events: b, Mirrors: b, Snapshots: snapshots,
		Dial: func(string) (gitcachev1connect.GitCacheServiceClient, error) {
			return nil, errors.New("no other replica")
		},
		Logger: logger, Tracer: tracer,
	})
}

// serve returns a client of a new service over b.
func serve(t testing.TB, b *backend) gitcachev1connect.GitCacheServiceClient {
	t.Helper()
	service := newService(t, b)
	rpcs, err := rpc.NewServer(rpc.ServerParams{Telemetry: telemetry.Noop(), Logger: slog.New(slog.DiscardHandler), Verifier: b})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle(gitcachev1connect.NewGitCacheServiceHandler(service, append(rpcs.Options(), api.Options()...)...))
	_, httpClient := rpctest.Serve(t, mux)
	c, err := rpc.NewClient(rpc.ClientParams{
		BaseURL: rpctest.BaseURL, Tokens: identity.StaticToken("t"), Telemetry: telemetry.Noop(), Transport: httpClient.Transport,
	})
	if err != nil {
		t.Fatal(err)
	}
	return gitcachev1connect.NewGitCacheServiceClient(c.HTTP, c.BaseURL, c.Options...)
}

// serveFetched is serve, and returns once the repository was fetched, well or not.
func serveFetched(t *testing.T, b *backend) gitcachev1connect.GitCacheServiceClient {
	t.Helper()
	c := serve(t, b)
	await.Success(t, "the first fetch", func(ctx context.Context) error {
		_, err := c.RefreshRepository(ctx, &gitcachev1.RefreshRepositoryRequest{Name: "demo", Wait: true})
		return err // the lease is taken in the background; until then there is no owner
	})
	return c
}

func resolve(t *testing.T, b *backend) error {
	t.Helper()
	_, err := serveFetched(t, b).ResolveSnapshot(t.Context(), &gitcachev1.ResolveSnapshotRequest{
		Source: &typev1.Source{Repository: "demo", Path: "app"},
	})
	return err
}

func TestReasonsOfResolve(t *testing.T) {
	t.Parallel()
	failing := func(r reason.Reason) func(*backend) {
		return func(b *backend) {
			b.fetch = func(context.Context) (mirror.Content, error) {
				return mirror.Content{}, &mirror.UpstreamError{Reason: r, Message: "Say what to do."}
			}
		}
	}
	walking := func(err error) func(*backend) {
		return func(b *backend) { b.list = func(string) ([]content.Entry, error) { return nil, err } }
	}
	storing := func(err error) func(*backend) {
		return func(b *backend) { b.store = fullStore{b.store, err} }
	}
	noHead := func(b *backend) {
		b.fetch = func(context.Context) (mirror.Content, error) { return mirror.Content{FreshAt: time.Now()}, nil }
	}
	withHead := func(next func(*backend)) func(*backend) {
		return func(b *backend) {
			b.fetch = func(context.Context) (mirror.Content, error) {
				return mirror.Content{Head: "0123456789012345678901234567890123456789", FreshAt: time.Now()}, nil
			}
			next(b)
		}
	}
	missing := func(err error) func(*backend) {
		return func(b *backend) { b.tree = func(string) (string, error) { return "", err } }
	}
	for name, test := range map[string]struct {
		set  func(*backend)
		want errorsv1.Reason
	}{
		"auth":         {failing(reason.UpstreamAuthRejected), errorsv1.Reason_REASON_UPSTREAM_AUTH_REJECTED},
		"not found":    {failing(reason.RepositoryNotFound), errorsv1.Reason_REASON_REPOSITORY_NOT_FOUND},
		"unreachable":  {failing(reason.UpstreamUnreachable), errorsv1.Reason_REASON_UPSTREAM_UNREACHABLE},
		"protocol":     {failing(reason.UpstreamProtocol), errorsv1.Reason_REASON_UPSTREAM_PROTOCOL},
		"rate limited": {failing(reason.UpstreamRateLimited), errorsv1.Reason_REASON_UPSTREAM_RATE_LIMITED},
		"no room":      {failing(reason.StorageFull), errorsv1.Reason_REASON_STORAGE_FULL},
		"empty":        {noHead, errorsv1.Reason_REASON_REF_NOT_FOUND},
		"no commit":    {withHead(missing(content.ErrCommitNotFound)), errorsv1.Reason_REASON_REPOSITORY_NOT_READY},
		"no path":      {withHead(missing(&content.PathError{Path: "app", Want: "folder"})), errorsv1.Reason_REASON_PATH_NOT_FOUND},
		"damaged":      {withHead(walking(content.ErrDamaged)), errorsv1.Reason_REASON_REPOSITORY_NOT_READY},
		"malformed":    {withHead(walking(content.ErrMalformed)), errorsv1.Reason_REASON_CONTENT_UNSUPPORTED},
		"no mirror":    {withHead(walking(mirror.ErrNoMirror)), errorsv1.Reason_REASON_REPOSITORY_NOT_READY},
		"defect":       {withHead(walking(errors.New("secret detail"))), errorsv1.Reason_REASON_INTERNAL},
		"unsupported":  {withHead(walking(&leaves.UnsupportedError{Path: "x", Reason: "is odd"})), errorsv1.Reason_REASON_CONTENT_UNSUPPORTED},
		"lfs missing":  {withHead(walking(&lfs.MissingError{Path: "x"})), errorsv1.Reason_REASON_LFS_OBJECT_MISSING},
		"lfs limited":  {withHead(walking(&lfs.FileError{Cause: &mirror.QuietError{}})), errorsv1.Reason_REASON_UPSTREAM_RATE_LIMITED},
		"lfs refused": {
			withHead(walking(&lfs.FileError{Cause: &mirror.UpstreamError{Reason: reason.UpstreamAuthRejected}})),
			errorsv1.Reason_REASON_UPSTREAM_AUTH_REJECTED,
		},
		"lfs unowned":         {withHead(walking(&lfs.FileError{Cause: mirror.ErrNotOwner})), errorsv1.Reason_REASON_OWNER_UNAVAILABLE},
		"submodule late":      {withHead(walking(&submodule.NotReadyError{Path: "x"})), errorsv1.Reason_REASON_REPOSITORY_NOT_READY},
		"submodule gone":      {withHead(walking(&submodule.UnavailableError{Path: "x"})), errorsv1.Reason_REASON_SUBMODULE_UNAVAILABLE},
		"dependency gone":     {withHead(walking(&chartdep.UnavailableError{Name: "x"})), errorsv1.Reason_REASON_CHART_DEPENDENCY_UNAVAILABLE},
		"dependency unlocked": {withHead(walking(&chartdep.UnsupportedError{File: "x"})), errorsv1.Reason_REASON_CONTENT_UNSUPPORTED},
		"dependency without an owner": {
			withHead(walking(&chartdep.FetchError{Name: "x", Err: mirror.ErrNotOwner})), errorsv1.Reason_REASON_REPOSITORY_NOT_READY,
		},
		"dependency's upstream away": {
			withHead(walking(&chartdep.FetchError{Name: "x", Err: &mirror.UpstreamError{Reason: reason.UpstreamUnreachable}})),
			errorsv1.Reason_REASON_UPSTREAM_UNREACHABLE,
		},
		"dependency refused by its upstream": {
			withHead(walking(&chartdep.FetchError{Name: "x", Err: &mirror.NotReadyError{Problem: &mirror.Problem{Reason: reason.UpstreamAuthRejected}}})),
			errorsv1.Reason_REASON_UPSTREAM_AUTH_REJECTED,
		},
		"submodule fails": {
			withHead(walking(&submodule.NotReadyError{Problem: &mirror.Problem{Reason: reason.UpstreamHostKeyRejected}})),
			errorsv1.Reason_REASON_UPSTREAM_HOST_KEY_REJECTED,
		},
		"store full":   {withHead(storing(cas.ErrFull)), errorsv1.Reason_REASON_STORAGE_FULL},
		"too large":    {withHead(storing(cas.ErrTooLarge)), errorsv1.Reason_REASON_BUNDLE_TOO_LARGE},
		"mismatch":     {withHead(storing(&digest.MismatchError{})), errorsv1.Reason_REASON_DIGEST_MISMATCH},
		"nothing left": {withHead(walking(&snapshot.EmptyError{Folder: "app"})), errorsv1.Reason_REASON_PATH_NOT_FOUND},
		"fine":         {withHead(func(*backend) {}), errorsv1.Reason_REASON_UNSPECIFIED},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBackend()
			test.set(b)
			if err := resolve(t, b); rpcerr.ReasonOf(err) != test.want {
				t.Errorf("got %s (%v), want %s", rpcerr.ReasonOf(err), err, test.want)
			}
		})
	}
}

func TestNotReadyWhileCloning(t *testing.T) {
	t.Parallel()
	b := newBackend()
	cloning := make(chan struct{}, 1)
	b.fetch = func(ctx context.Context) (mirror.Content, error) {
		cloning <- struct{}{}
		<-ctx.Done()
		return mirror.Content{}, context.Cause(ctx)
	}
	c := serve(t, b)
	<-cloning
	_, err := c.ResolveSnapshot(t.Context(), &gitcachev1.ResolveSnapshotRequest{Source: &typev1.Source{Repository: "demo"}})
	if got := rpcerr.ReasonOf(err); got != errorsv1.Reason_REASON_REPOSITORY_NOT_READY {
		t.Errorf("got %s (%v), want REPOSITORY_NOT_READY", got, err)
	}
	if _, ok := rpcerr.RetryDelay(err); !ok {
		t.Errorf("got no delay in %v, want one", err)
	}
}

func TestAgentsAndPeopleAreRefused(t *testing.T) {
	t.Parallel()
	for _, kind := range []identity.Kind{identity.KindCluster, identity.KindUser} {
		b := newBackend()
		b.identity = identity.Identity{Kind: kind, Name: "somebody"}
		c := serve(t, b)
		_, unary := c.ListRepositories(t.Context(), &gitcachev1.ListRepositoriesRequest{})
		stream, err := c.WatchRepositories(t.Context(), &gitcachev1.WatchRepositoriesRequest{})
		if err == nil {
			stream.Receive()
			err = stream.Err()
		}
		for _, err := range []error{unary, err} {
			if got := rpcerr.ReasonOf(err); got != errorsv1.Reason_REASON_ACCESS_DENIED {
				t.Errorf("%s: got %s (%v), want ACCESS_DENIED", kind, got, err)
			}
		}
	}
}

func TestStaleEpochAndDependency(t *testing.T) {
	t.Parallel()
	for cause, want := range map[error]errorsv1.Reason{
		mirror.ErrEpochStale: errorsv1.Reason_REASON_EPOCH_STALE,
		mirror.ErrDependency: errorsv1.Reason_REASON_DEPENDENCY_UNAVAILABLE,
	} {
		b := newBackend()
		b.append = func(mirror.Event) error { return cause }
		_, err := serve(t, b).DeleteRepository(t.Context(), &gitcachev1.DeleteRepositoryRequest{Name: "demo"})
		if got := rpcerr.ReasonOf(err); got != want {
			t.Errorf("got %s (%v), want %s", got, err, want)
		}
	}
}

func TestListRepositoriesInPages(t *testing.T) {
	t.Parallel()
	b := newBackend()
	b.readErr = errors.New("something nobody thought of")
	c := serve(t, b)
	first, err := c.ListRepositories(t.Context(), &gitcachev1.ListRepositoriesRequest{Page: &typev1.Page{Size: 1}})
	if err != nil || len(first.GetRepositories()) != 1 || first.GetNextPageToken() != "" {
		t.Errorf("got %v (%v), want the one repository and no token", first, err)
	}
	stream, err := c.WatchRepositories(t.Context(), &gitcachev1.WatchRepositoriesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for stream.Receive() {
	}
	if got := rpcerr.ReasonOf(stream.Err()); got != errorsv1.Reason_REASON_INTERNAL {
		t.Errorf("got %s (%v) from an unmapped failure, want INTERNAL", got, stream.Err())
	}
}

// TestWatchersOfABlindReplicaLeaveIt has the event log be away. A stream that went on, or said that it is
// synced, would keep its caller from a replica that still reaches the log.
func TestWatchersOfABlindReplicaLeaveIt(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		token             string
		readErr, probeErr error
		synced            bool
	}{
		"in the middle of a stream": {readErr: mirror.ErrDependency, synced: true},
		"when one is resumed":       {token: "t.1", probeErr: mirror.ErrDependency, readErr: mirror.ErrDependency},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBackend()
			b.readErr, b.probeErr = test.readErr, test.probeErr
			stream, err := serve(t, b).WatchRepositories(t.Context(), &gitcachev1.WatchRepositoriesRequest{ResumeToken: test.token})
			if err != nil {
				t.Fatal(err)
			}
			synced := false
			for stream.Receive() {
				synced = synced || stream.Msg().GetSynced()
			}
			if got := rpcerr.ReasonOf(stream.Err()); got != errorsv1.Reason_REASON_DEPENDENCY_UNAVAILABLE || synced != test.synced {
				t.Errorf("got %s (%v), synced %t; want DEPENDENCY_UNAVAILABLE, synced %t", got, stream.Err(), synced, test.synced)
			}
		})
	}
}

func TestAnAmbiguousCommitNamesCandidates(t *testing.T) {
	t.Parallel()
	b := newBackend()
	b.expand = func(prefix string) (string, error) {
		return "", &content.AmbiguousError{Prefix: prefix, Candidates: []string{"abc1234000", "abc1234fff"}}
	}
	_, err := serveFetched(t, b).ListCommits(t.Context(), &gitcachev1.ListCommitsRequest{Source: &typev1.Source{
		Repository: "demo", Ref: &typev1.GitRef{Selector: &typev1.GitRef_Commit{Commit: "abc1234"}},
	}})
	if got := rpcerr.ReasonOf(err); got != errorsv1.Reason_REASON_REF_NOT_FOUND || !strings.Contains(err.Error(), "abc1234000, abc1234fff") {
		t.Errorf("got %s (%v), want REF_NOT_FOUND that names both commits", got, err)
	}
}

// noDisk has no mirrors on it, and knows nothing for certain.
type noDisk struct{}

func (noDisk) Stored() []mirror.Stored { return nil }

func (noDisk) Usage() mirror.Usage { return mirror.Usage{} }

func (noDisk) Compact(context.Context, string, func(context.Context) (func(), error)) (mirror.Compaction, error) {
	return mirror.Compaction{}, nil
}

func (noDisk) Named() (map[string]bool, bool) { return nil, false }
