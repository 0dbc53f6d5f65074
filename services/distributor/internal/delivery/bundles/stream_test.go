// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package bundles_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/iotest"

	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/internal/contract/cas/casdisk"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/services/distributor/internal/api/bundlehttp"
	"github.com/leatdev/leat/services/distributor/internal/delivery/plan"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// everything lets one cluster read any bundle.
type everything struct{}

func (everything) Verify(context.Context, string) (identity.Identity, error) {
	return identity.Identity{Kind: identity.KindCluster, Name: "one"}, nil
}

func (everything) Admit(context.Context, string, string) (*catalog.Cluster, error) {
	return &catalog.Cluster{}, nil
}

func (everything) Bundle(_ string, d digest.Digest) (plan.Bundle, bool) {
	return plan.Bundle{Digest: d}, true
}

func (everything) IsUndecided(string) bool { return false }

// serveBundles serves a cache with an empty disk, by HTTP/1.1 or HTTP/2.
func serveBundles(t *testing.T, u *origin, cfg casdisk.Config, http2 bool) *httptest.Server {
	t.Helper()
	cfg.Dir = t.TempDir()
	store, err := casdisk.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	mux := http.NewServeMux()
	mux.Handle(bundlehttp.Pattern, bundlehttp.NewHandler(bundlehttp.HandlerParams{
		Cache: newCache(t, store, u), Plans: everything{}, Verifier: everything{}, Logger: telemetry.Noop().Logger(),
	}))
	server := httptest.NewUnstartedServer(mux)
	server.EnableHTTP2 = http2
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

func get(t *testing.T, server *httptest.Server, d digest.Digest, header http.Header) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/v1/bundles/"+d.String(), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Authorization": {"Bearer any"}, "Accept": {bundle.MediaType}}
	for key, values := range header {
		req.Header[key] = values
	}
	res, err := server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

func TestAnswersGrowWithTheFill(t *testing.T) {
	t.Parallel()
	for _, http2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("http2 %t", http2), func(t *testing.T) {
			t.Parallel()
			want := newItem(t, 1, 1<<20)
			gate := newGate(bytes.NewReader(want.stored[500<<10:]))
			server := serveBundles(t, &origin{download: func(context.Context, plan.Bundle) (io.Reader, error) {
				return io.MultiReader(bytes.NewReader(want.stored[:500<<10]), gate), nil
			}}, casdisk.Config{}, http2)
			res := get(t, server, want.Digest, nil)
			head := make([]byte, 300<<10)
			if _, err := io.ReadFull(res.Body, head); err != nil {
				t.Fatal(err)
			}
			if res.StatusCode != http.StatusOK || res.ContentLength != -1 || res.Header.Get("Accept-Ranges") != "none" {
				t.Errorf("got status %d, length %d and %v, want one without a length or ranges", res.StatusCode, res.ContentLength, res.Header)
			}
			close(gate.open)
			rest, err := io.ReadAll(res.Body)
			if got := append(head, rest...); err != nil || !bytes.Equal(got, want.stored) {
				t.Errorf("got %d bytes and %v, want all %d", len(got), err, len(want.stored))
			}
			res = get(t, server, want.Digest, nil)
			if got, err := io.ReadAll(res.Body); err != nil || !bytes.Equal(got, want.stored) || res.ContentLength != int64(len(want.stored)) {
				t.Errorf("later: got %d bytes of %d and %v, want all %d", len(got), res.ContentLength, err, len(want.stored))
			}
		})
	}
}

// TestNoRoomHasAReason has a disk become full in the middle of an answer, which breaks off. The next answers have the
// reason, until there is room.
func TestNoRoomHasAReason(t *testing.T) {
	t.Parallel()
	want := newItem(t, 1, 1<<20)
	var isFull atomic.Bool
	isFull.Store(true)
	open := make(chan struct{})
	server := serveBundles(t, &origin{download: func(context.Context, plan.Bundle) (io.Reader, error) {
		return io.MultiReader(bytes.NewReader(want.stored[:500<<10]), &gate{open: open, rest: bytes.NewReader(want.stored[500<<10:])}), nil
	}}, casdisk.Config{Hooks: casdisk.Hooks{Fault: func(op casdisk.Op, _ string) error {
		if op == casdisk.OpSync && isFull.Load() {
			return syscall.ENOSPC
		}
		return nil
	}}}, true)
	res := get(t, server, want.Digest, nil)
	close(open)
	if got, err := io.ReadAll(res.Body); err == nil {
		t.Errorf("got %d bytes to the end, want the answer broken off", len(got))
	}
	await.True(t, "the reason", func() bool { // a call that comes at once may find the fill at its end
		res := get(t, server, want.Digest, nil)
		got, err := io.ReadAll(res.Body)
		return err == nil && bytes.Contains(got, []byte("STORAGE_FULL")) && res.StatusCode != http.StatusOK
	})
	isFull.Store(false)
	if got, err := io.ReadAll(get(t, server, want.Digest, nil).Body); err != nil || !bytes.Equal(got, want.stored) {
		t.Errorf("with room: got %d bytes and %v, want all %d", len(got), err, len(want.stored))
	}
}

// TestRangesWaitForTheFill asks for a part of an absent bundle.
func TestRangesWaitForTheFill(t *testing.T) {
	t.Parallel()
	want := newItem(t, 1, 1<<20)
	server := serveBundles(t, &origin{download: func(context.Context, plan.Bundle) (io.Reader, error) {
		return bytes.NewReader(want.stored), nil
	}}, casdisk.Config{}, false)
	res := get(t, server, want.Digest, http.Header{"Range": {"bytes=5-9"}})
	if got, err := io.ReadAll(res.Body); err != nil || res.StatusCode != http.StatusPartialContent || !bytes.Equal(got, want.stored[5:10]) {
		t.Errorf("got status %d, %d bytes and %v, want the range", res.StatusCode, len(got), err)
	}
}

// TestNoWrongAnswerComesToAnEnd begins answers whose bytes turn out wrong.
func TestNoWrongAnswerComesToAnEnd(t *testing.T) {
	t.Parallel()
	want, other := newItem(t, 1, 1<<20), newItem(t, 2, 1<<20)
	for name, source := range map[string]func() io.Reader{
		"other content": func() io.Reader { return bytes.NewReader(other.stored) },
		"cut off":       func() io.Reader { return bytes.NewReader(want.stored[:900<<10]) },
		"broken": func() io.Reader {
			return io.MultiReader(bytes.NewReader(want.stored[:900<<10]), iotest.ErrReader(errors.New("broken")))
		},
	} {
		for _, http2 := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s http2 %t", name, http2), func(t *testing.T) {
				t.Parallel()
				open := make(chan struct{})
				server := serveBundles(t, &origin{download: func(context.Context, plan.Bundle) (io.Reader, error) {
					first := io.LimitReader(source(), 500<<10)
					late := source()
					_, _ = io.CopyN(io.Discard, late, 500<<10)
					return io.MultiReader(first, &gate{open: open, rest: late}), nil
				}}, casdisk.Config{}, http2)
				res := get(t, server, want.Digest, nil) // has begun, since there is something to send
				close(open)
				if got, err := io.ReadAll(res.Body); err == nil || res.StatusCode != http.StatusOK {
					t.Errorf("got status %d and %d bytes to the end, want the answer broken off", res.StatusCode, len(got))
				}
			})
		}
	}
}
