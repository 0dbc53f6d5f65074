// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package bundlehttp_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/internal/contract/cas"
	"github.com/leatdev/leat/internal/contract/cas/casdisk"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/services/distributor/internal/access/admission"
	"github.com/leatdev/leat/services/distributor/internal/api/bundlehttp"
	"github.com/leatdev/leat/services/distributor/internal/delivery/bundles"
	"github.com/leatdev/leat/services/distributor/internal/delivery/plan"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/fanout"
)

// desk is a replica's handler of bundles on a real port, with everything but the database and
// gitcache real. Cluster one runs the service app, cluster two the service other.
type desk struct {
	url        string
	handler    http.Handler
	app, other *folder
	view       *fleet.View
	sql        *sql
	upstream   *upstream
	disk       *disk
	// isUndecided is true while services of clusters are not derived.
	isUndecided atomic.Bool
}

// plans are a desk's plans, without reading the store once more for missing ones.
type plans struct {
	*fleet.View

	isUndecided *atomic.Bool
}

func (p plans) IsUndecided(string) bool { return p.isUndecided.Load() }

// folder is a bundle: its tar, and the tar as zstd.
type folder struct {
	tar, packed []byte
}

func (f *folder) digest() digest.Digest { return digest.FromBytes(f.tar) }

func newFolder(tb testing.TB, level zstd.EncoderLevel, content string) *folder {
	tb.Helper()
	var plain bytes.Buffer
	w := bundle.NewWriter(&plain, bundle.DefaultLimits())
	if err := w.WriteFile("app.yaml", false, int64(len(content)), strings.NewReader(content)); err != nil {
		tb.Fatal(err)
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	z, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(level))
	if err != nil {
		tb.Fatal(err)
	}
	return &folder{tar: plain.Bytes(), packed: z.EncodeAll(plain.Bytes(), nil)}
}

// text compresses, but not to nothing.
func text(seed string) string {
	var b strings.Builder
	for i := range 4000 {
		b.WriteString(digest.FromBytes([]byte{seed[0], byte(i), byte(i >> 8)}).Hex()[:20])
		b.WriteString(": the same words in each line\n")
	}
	return b.String()
}

func newDesk(tb testing.TB, level zstd.EncoderLevel) *desk {
	tb.Helper()
	return newDeskOf(tb, level, text("a"))
}

// newDeskOf has a desk whose service app is made of that content.
func newDeskOf(tb testing.TB, level zstd.EncoderLevel, content string) *desk {
	tb.Helper()
	d := &desk{app: newFolder(tb, level, content), other: newFolder(tb, level, text("b"))}
	d.sql = &sql{content: map[string]*folder{"app": d.app, "other": d.other}}
	d.view = fleet.New(fleet.Params{
		Store: d.sql, Logger: slog.New(slog.DiscardHandler), Tracer: noop.NewTracerProvider().Tracer(""),
		Plans: fanout.NewHub[string](0), Objects: fanout.NewHub[catalog.Key](0),
	})
	if err := d.view.Load(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	d.upstream = &upstream{content: map[digest.Digest][]byte{d.app.digest(): d.app.packed, d.other.digest(): d.other.packed}}
	store, err := casdisk.Open(casdisk.Config{Dir: tb.TempDir(), Pinned: d.view.Pinned})
	if err != nil {
		tb.Fatal(err)
	}
	d.disk = &disk{Store: store}
	cache, err := bundles.NewCache(d.disk, d.upstream, telemetry.Noop())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		cache.Close()
		_ = store.Close()
	})
	mux := http.NewServeMux()
	mux.Handle(bundlehttp.Pattern, bundlehttp.NewHandler(bundlehttp.HandlerParams{
		Cache: cache, Plans: plans{View: d.view, isUndecided: &d.isUndecided}, Verifier: verifier{}, Logger: slog.New(slog.DiscardHandler),
	}))
	d.handler = mux
	server := httptest.NewServer(mux)
	tb.Cleanup(server.Close)
	d.url = server.URL
	return d
}

// sql is a database that counts how often it is asked.
type sql struct {
	fleet.Store // functions that are not expected to be called are nil

	content map[string]*folder
	calls   atomic.Int32
}

func (s *sql) Now(context.Context) (time.Time, error) { return time.Now(), nil }

func (s *sql) Changes(context.Context, int64) (catalog.Changes, error) {
	s.calls.Add(1)
	changes := catalog.Changes{
		Revision:     1,
		Repositories: []*catalog.Repository{{Metadata: catalog.Metadata{Name: "demo", UID: "uid-demo"}}},
	}
	for cluster, path := range map[string]string{"one": "app", "two": "other"} {
		changes.Clusters = append(changes.Clusters, &catalog.Cluster{
			Metadata: catalog.Metadata{Name: cluster, UID: "uid-" + cluster},
			Agent:    catalog.Agent{PublicKey: make(ed25519.PublicKey, ed25519.PublicKeySize), KeyGeneration: 1},
		})
		changes.Services = append(changes.Services, &catalog.Service{
			Metadata: catalog.Metadata{Name: path, UID: "uid-" + path, Generation: 1},
			Spec:     catalog.ServiceSpec{Cluster: cluster, Sources: []catalog.Source{{Repository: "demo", Path: path}}},
		})
	}
	return changes, nil
}

func (s *sql) LoadSnapshots(context.Context) (map[catalog.Source]catalog.Resolution, error) {
	s.calls.Add(1)
	found := map[catalog.Source]catalog.Resolution{}
	for path, f := range s.content {
		found[catalog.Source{Repository: "demo", Path: path}.Normal()] = catalog.Resolution{Snapshot: &catalog.Snapshot{Commit: "c1", Digest: f.digest()}}
	}
	return found, nil
}

func (s *sql) SnapshotsOf(context.Context, []catalog.Source) (map[catalog.Source]catalog.Resolution, error) {
	return nil, nil
}

func (s *sql) PruneSnapshots(context.Context, int64, func(catalog.Source) bool) error {
	s.calls.Add(1)
	return nil
}

// upstream is a gitcache that counts how often it is asked.
type upstream struct {
	content map[digest.Digest][]byte
	// reader gives what comes instead of content; nil: content.
	reader func() io.ReadCloser
	calls  atomic.Int32
}

func (u *upstream) Download(_ context.Context, wanted plan.Bundle) (io.ReadCloser, error) {
	u.calls.Add(1)
	if u.reader != nil {
		return u.reader(), nil
	}
	return io.NopCloser(bytes.NewReader(u.content[wanted.Digest])), nil
}

// disk counts how often the cache is asked.
type disk struct {
	cas.Store

	calls atomic.Int32
}

func (d *disk) Open(ctx context.Context, want digest.Digest) (*cas.Blob, error) {
	d.calls.Add(1)
	return d.Store.Open(ctx, want)
}

func (d *disk) Stat(ctx context.Context, want digest.Digest) (cas.Info, error) {
	d.calls.Add(1)
	return d.Store.Stat(ctx, want)
}

func (d *disk) Put(ctx context.Context, want digest.Digest, r io.Reader) (cas.Info, error) {
	d.calls.Add(1)
	return d.Store.Put(ctx, want, r)
}

// work is all that was asked of anything outside of memory.
func (d *desk) work() int32 {
	return d.sql.calls.Load() + d.upstream.calls.Load() + d.disk.calls.Load()
}

// verifier knows tokens by their names.
type verifier struct{}

func (verifier) Verify(_ context.Context, token string) (identity.Identity, error) {
	kind, name, _ := strings.Cut(token, ":")
	switch kind {
	case "agent":
		return identity.Identity{Kind: identity.KindCluster, Name: name, UID: admission.IdentityUID("uid-"+name, 1)}, nil
	case "revoked":
		return identity.Identity{Kind: identity.KindCluster, Name: name, UID: admission.IdentityUID("uid-"+name, 0)}, nil
	case "person":
		return identity.Identity{Kind: identity.KindUser, Name: name}, nil
	}
	return identity.Identity{}, identity.ErrTokenInvalid
}

// get asks for a bundle as cluster one's agent unless the header has a token, and exactly by the
// header: nothing is added or undone on the way.
func (d *desk) get(tb testing.TB, method, name string, header http.Header) (*http.Response, []byte) {
	tb.Helper()
	request, err := http.NewRequestWithContext(tb.Context(), method, d.url+"/v1/bundles/"+name, http.NoBody)
	if err != nil {
		tb.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer agent:one")
	for key, values := range header {
		request.Header[key] = values
	}
	client := http.Client{Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		tb.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		tb.Fatal(err)
	}
	return response, body
}

// fetch asks for cluster one's bundle.
func (d *desk) fetch(tb testing.TB, header http.Header) (*http.Response, []byte) {
	tb.Helper()
	return d.get(tb, http.MethodGet, d.app.digest().String(), header)
}
