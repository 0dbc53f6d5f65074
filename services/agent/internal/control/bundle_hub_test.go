// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package control_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/internal/contract/cas/casdisk"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/services/agent/internal/control"
)

// packed is a bundle of one file, as a tar and in compressed form.
type packed struct {
	digest      digest.Digest
	tar, stored []byte
}

// noise returns bytes that do not compress.
func noise(seed byte, n int) string {
	content := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(content)
	return string(content)
}

func pack(t testing.TB, content string) packed {
	t.Helper()
	var tar bytes.Buffer
	w := bundle.NewWriter(&tar, bundle.Limits{})
	err := w.WriteFile("a.yaml", false, int64(len(content)), strings.NewReader(content))
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return packed{digest.FromBytes(tar.Bytes()), tar.Bytes(), compressed(t, tar.Bytes())}
}

func compressed(t testing.TB, content []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z, err := bundle.Compress(&out)
	if err != nil {
		t.Fatal(err)
	}
	_, err = z.Write(content)
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// asked is one request as the hub received it.
type asked struct {
	from, ranges, ifRange string
	sent                  int
}

// bundleHub serves bundles and deltas over real HTTP, with the faults that a test sets.
type bundleHub struct {
	*httptest.Server

	mu       sync.Mutex
	bundles  map[string]packed
	deltas   bool                // whether ?from= is understood
	delta    func([]byte) []byte // does something to a delta before it is sent; nil: nothing
	cut      []int               // after how many bytes the next answers break off
	tag      string              // at the end of every ETag
	encoding bool                // whether zstd is said to be an encoding
	refusal  error               // the answer to every request; nil: none
	damaged  bool                // whether bundles hold other bytes than they should
	requests []asked
}

func newBundleHub(t *testing.T, bundles ...packed) *bundleHub {
	t.Helper()
	h := &bundleHub{bundles: map[string]packed{}, deltas: true}
	for _, b := range bundles {
		h.bundles[b.digest.String()] = b
	}
	h.Server = httptest.NewServer(http.HandlerFunc(h.serve))
	t.Cleanup(h.Close)
	return h
}

func (h *bundleHub) serve(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.refusal != nil {
		rpcerr.WriteHTTP(w, r, h.refusal)
		return
	}
	wanted, ok := h.bundles[strings.TrimPrefix(r.URL.Path, "/v1/bundles/")]
	if !ok || r.Header.Get("Accept-Encoding") != "zstd" || !strings.Contains(r.Header.Get("Accept"), bundle.MediaType) {
		http.Error(w, "no such bundle, or wrong headers", http.StatusBadRequest)
		return
	}
	content, mediaType, kind := wanted.stored, bundle.MediaType, "file-"
	if h.damaged {
		content = slices.Repeat([]byte{1}, len(content))
	}
	from := r.URL.Query().Get("from")
	if base, ok := h.bundles[from]; ok && h.deltas {
		content, mediaType, kind = h.difference(base, wanted), bundle.DeltaMediaType, "delta-"
	} else if h.encoding {
		mediaType = "application/x-tar"
		w.Header().Set("Content-Encoding", "zstd")
	}
	w.Header().Set("Content-Type", mediaType)
	w.Header().Set("ETag", fmt.Sprintf("%q", kind+digest.FromBytes(content).Hex()+h.tag))
	counted := &countingWriter{ResponseWriter: w, left: -1}
	if len(h.cut) > 0 {
		counted.left, h.cut = h.cut[0], h.cut[1:]
	}
	defer func() {
		h.requests = append(h.requests, asked{from, r.Header.Get("Range"), r.Header.Get("If-Range"), counted.n})
	}()
	http.ServeContent(counted, r, "", time.Time{}, bytes.NewReader(content))
}

func (h *bundleHub) difference(from, to packed) []byte {
	var out bytes.Buffer
	err := bundle.WriteDelta(&out, bundle.Tar{Digest: from.digest, Content: bytes.NewReader(from.tar)},
		bundle.Tar{Digest: to.digest, Content: bytes.NewReader(to.tar)}, bundle.Limits{})
	if err != nil {
		return nil
	}
	var z bytes.Buffer
	w, err := bundle.Compress(&z)
	if err != nil {
		return nil
	}
	_, err = w.Write(out.Bytes())
	if errors.Join(err, w.Close()) != nil {
		return nil
	}
	if h.delta != nil {
		return h.delta(z.Bytes())
	}
	return z.Bytes()
}

// change changes the hub's behaviour from the next request on.
func (h *bundleHub) change(do func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	do()
}

// take returns the requests since its last call.
func (h *bundleHub) take() []asked {
	h.mu.Lock()
	defer h.mu.Unlock()
	requests := h.requests
	h.requests = nil
	return requests
}

// countingWriter counts the body, and breaks the connection after a number of bytes; -1 is never.
type countingWriter struct {
	http.ResponseWriter

	n, left int
}

func (w *countingWriter) Write(p []byte) (int, error) {
	if w.left >= 0 && len(p) >= w.left-w.n {
		n, _ := w.ResponseWriter.Write(p[:w.left-w.n])
		w.n += n
		_ = http.NewResponseController(w.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	n, err := w.ResponseWriter.Write(p)
	w.n += n
	return n, err
}

// client is an agent's side, on a folder that outlives it.
type client struct {
	*control.Bundles

	store *casdisk.Store
}

func openClient(t *testing.T, h *bundleHub, dir string, change ...func(*casdisk.Config, *control.BundleParams)) *client {
	t.Helper()
	disk := casdisk.Config{Dir: filepath.Join(dir, "bundles")}
	params := control.BundleParams{
		Dir: dir, BaseURL: h.URL, HTTP: h.Client(), Telemetry: telemetry.Noop(),
		Retry: backoff.Policy{Initial: time.Millisecond, MaxAttempts: 4},
	}
	for _, c := range change {
		c(&disk, &params)
	}
	store, err := casdisk.Open(disk)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	params.Store = store
	bundles, err := control.OpenBundles(params)
	if err != nil {
		t.Fatal(err)
	}
	return &client{Bundles: bundles, store: store}
}

func once(_ *casdisk.Config, p *control.BundleParams) { p.Retry.MaxAttempts = 1 }

func (c *client) open(ctx context.Context, d, base digest.Digest) ([]byte, error) {
	content, err := c.Open(ctx, d, base)
	if err != nil {
		return nil, err
	}
	got, err := io.ReadAll(content)
	return got, errors.Join(err, content.Close())
}

// want opens a bundle and fails unless it has the expected content.
func (c *client) want(t *testing.T, b packed, base digest.Digest) {
	t.Helper()
	if got, err := c.open(t.Context(), b.digest, base); err != nil || !bytes.Equal(got, b.tar) {
		t.Fatalf("open: got %d bytes, %v, want the bundle's %d", len(got), err, len(b.tar))
	}
}

// wantRequests fails unless the hub received that many requests, each for the delta from that base
// or, with "", for the bundle.
func wantRequests(t *testing.T, h *bundleHub, from ...string) []asked {
	t.Helper()
	requests := h.take()
	got := make([]string, len(requests))
	for i, r := range requests {
		got[i] = r.from
	}
	if !slices.Equal(got, from) {
		t.Fatalf("requests: got %+v, want them from %q", requests, from)
	}
	return requests
}

var none digest.Digest

// file returns the path of a stored bundle.
func file(t *testing.T, dir string, d digest.Digest) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "bundles", "blobs", "*", d.Hex()+".*"))
	if err != nil || len(found) != 1 {
		t.Fatalf("files of %s: got %v, %v, want one", d, found, err)
	}
	return found[0]
}

// damage flips a bit in the middle of a stored bundle.
func damage(t *testing.T, dir string, d digest.Digest) {
	t.Helper()
	path := file(t, dir, d)
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	content[len(content)/2] ^= 1
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// wantNoPartials fails if incomplete downloads are left.
func wantNoPartials(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, "partial"))
	if err != nil || len(entries) != 0 {
		t.Errorf("downloads left: got %v, %v, want none", entries, err)
	}
}
