// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package ociregistry_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/runtime/dialguard"
	"github.com/leatdev/leat/internal/testkit/registrytest"
	"github.com/leatdev/leat/services/gitcache/internal/artifact"
	"github.com/leatdev/leat/services/gitcache/internal/artifactstore"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/hostgate"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/ociregistry"
	"github.com/leatdev/leat/services/gitcache/internal/uploadpack"
)

// front is a proxy before a registry: it counts requests, and fails them if asked to.
type front struct {
	*httptest.Server

	mu       sync.Mutex
	requests []string
	headers  []http.Header
	fault    func(w http.ResponseWriter, r *http.Request) (handled bool)
}

// newFront passes requests to a registry at addr, over TLS if asked to.
func newFront(t *testing.T, addr string, isTLS bool) *front {
	t.Helper()
	f := &front{}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: addr})
	proxy.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	// The end of any test's server closes the idle connections of the transport that all would share.
	own := &http.Transport{}
	t.Cleanup(own.CloseIdleConnections)
	proxy.Transport = own
	proxy.ErrorHandler = func(w http.ResponseWriter, r *http.Request, err error) {
		if r.Context().Err() == nil {
			t.Logf("the front could not pass %s %s on: %v", r.Method, r.URL.Path, err)
		}
		w.WriteHeader(http.StatusBadGateway)
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		f.requests = append(f.requests, r.Method+" "+r.URL.Path)
		f.headers = append(f.headers, r.Header.Clone())
		fault := f.fault
		f.mu.Unlock()
		if fault == nil || !fault(w, r) {
			proxy.ServeHTTP(w, r)
		}
	})
	if isTLS {
		f.Server = httptest.NewTLSServer(handler)
	} else {
		f.Server = httptest.NewServer(handler)
	}
	f.Config.ErrorLog = proxy.ErrorLog
	t.Cleanup(f.Close)
	return f
}

// caPEM is the certificate that a TLS front has.
func (f *front) caPEM() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.Certificate().Raw}))
}

func (f *front) fail(fault func(w http.ResponseWriter, r *http.Request) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = fault
}

// take returns the requests since the last call.
func (f *front) take() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	taken := f.requests
	f.requests, f.headers = nil, nil
	return taken
}

// url returns the URL of a repository behind the front.
func (f *front) url(name string) string {
	if f.TLS != nil {
		return "oci://" + f.Listener.Addr().String() + "/" + name
	}
	return "oci+http://" + f.Listener.Addr().String() + "/" + name
}

// subject mirrors one repository.
type subject struct {
	*ociregistry.Upstream
	store *artifactstore.Store
	def   mirror.Definition
	have  mirror.Content
	now   time.Time
}

func newSubject(t *testing.T, def upstream.Definition) *subject {
	t.Helper()
	def.Type = upstream.TypeOCI
	if err := def.Validate(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	limits := bundle.Limits{Bytes: 1 << 20, Files: 100, FileBytes: 1 << 19}
	store, err := artifactstore.New(artifactstore.Params{Dir: dir, Limits: limits, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s := &subject{store: store, def: mirror.Definition{Name: "web", UID: "uid-1", Version: 1, Definition: def}, now: time.Now()}
	hosts := hostgate.New(hostgate.Config{Requests: 100_000, Burst: 100_000})
	client := uploadpack.New(uploadpack.Config{Dir: dir, Guard: dialguard.Guard{}, Hosts: hosts})
	s.Upstream, err = ociregistry.New(ociregistry.Params{
		Carriers: client, Mirrors: store, Limits: limits, Now: func() time.Time { return s.now },
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *subject) params() mirror.FetchParams {
	return mirror.FetchParams{Definition: s.def, Have: s.have, Epoch: 1, Guard: func() error { return nil }}
}

func (s *subject) try(ctx context.Context) error {
	c, err := s.Fetch(ctx, s.params())
	if err == nil {
		s.have = c
	}
	return err
}

func (s *subject) fetch(t *testing.T) {
	t.Helper()
	if err := s.try(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// resolve returns what a selector means, and looks up what has to be.
func (s *subject) resolve(t *testing.T, selector mirror.Selector) string {
	t.Helper()
	selector.Within = mirror.TagPrefix
	commit, err := s.have.Resolve(selector)
	if unpinned, ok := errors.AsType[*mirror.UnpinnedError](err); ok {
		if s.have, err = s.Pin(t.Context(), s.params(), unpinned.Names); err != nil {
			t.Fatal(err)
		}
		commit, err = s.have.Resolve(selector)
	}
	if err != nil {
		t.Fatal(err)
	}
	return commit
}

func tag(name string) mirror.Selector { return mirror.Selector{Kind: mirror.SelectTag, Value: name} }

// fill downloads an artifact.
func (s *subject) fill(ctx context.Context, id artifact.ID) error {
	c, err := s.Fill(ctx, s.params(), []string{id.String()})
	if err == nil {
		s.have = c
	}
	return err
}

// files downloads an artifact and reads all that it holds.
func (s *subject) files(t *testing.T, id artifact.ID) map[string]string {
	t.Helper()
	if err := s.fill(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	r, err := s.store.Open(t.Context(), s.def.UID)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	tree, err := r.Tree(t.Context(), id.String(), "")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	var walk func(tree, prefix string)
	walk = func(tree, prefix string) {
		entries, err := r.List(t.Context(), tree)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.Kind == content.KindFolder {
				walk(e.ID, prefix+e.Name+"/")
				continue
			}
			f, err := r.Blob(t.Context(), e.ID)
			if err != nil {
				t.Fatal(err)
			}
			data, err := io.ReadAll(f)
			if err != nil {
				t.Fatal(err)
			}
			all[prefix+e.Name] = string(data)
		}
	}
	walk(tree, "")
	return all
}

// archive makes a tar, compressed by gzip, of name → content.
func archive(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	packed := gzip.NewWriter(&out)
	w := tar.NewWriter(packed)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(files[name]))})
		if err == nil {
			_, err = io.WriteString(w, files[name])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), packed.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// chart is a chart's layer; its folder is named after it.
func chart(t *testing.T, version string) registrytest.Layer {
	t.Helper()
	return registrytest.Layer{MediaType: registrytest.ChartLayerType, Data: archive(t, map[string]string{
		"web/Chart.yaml": "apiVersion: v2\nname: web\nversion: " + version + "\n", "web/templates/a.yaml": "a: 1\n",
	})}
}

func wantReason(t *testing.T, err error, want reason.Reason) *mirror.UpstreamError {
	t.Helper()
	failed, ok := errors.AsType[*mirror.UpstreamError](err)
	if !ok || failed.Reason != want || !strings.HasSuffix(failed.Message, ".") {
		t.Fatalf("got error %v, want reason %s", err, want)
	}
	return failed
}
