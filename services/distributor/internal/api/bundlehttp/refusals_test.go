// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package bundlehttp_test

import (
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
)

func TestRefusals(t *testing.T) {
	t.Parallel()
	d := newDesk(t, zstd.SpeedDefault)
	own, others := d.app.digest().String(), d.other.digest().String()
	if res, _ := d.get(t, http.MethodGet, others, http.Header{"Authorization": {"Bearer agent:two"}}); res.StatusCode != 200 {
		t.Fatalf("got %s, want the bundle for the cluster whose plan names it", res.Status)
	}
	unknown := digest.FromBytes([]byte("nobody has this")).String()
	malformed := []string{"sha256:", "sha256:abc", strings.ToUpper(own), own + "0", "md5:" + own[7:], "sha256:" + strings.Repeat("0", 64), "%00", "sha256:" + strings.Repeat("g", 64)}
	type want struct {
		status int
		reason string
	}
	for token, byName := range map[string]map[string]want{
		"Bearer agent:one":   {unknown: {404, "BUNDLE_NOT_FOUND"}, others: {404, "BUNDLE_NOT_FOUND"}},
		"Bearer agent:three": {own: {401, "TOKEN_INVALID"}, unknown: {401, "TOKEN_INVALID"}}, // no such cluster any more
		"Bearer revoked:one": {own: {401, "TOKEN_INVALID"}, unknown: {401, "TOKEN_INVALID"}},
		"Bearer expired":     {own: {401, "TOKEN_INVALID"}, unknown: {401, "TOKEN_INVALID"}},
		"":                   {own: {401, "TOKEN_INVALID"}, unknown: {401, "TOKEN_INVALID"}},
		"Basic agent:one":    {own: {401, "TOKEN_INVALID"}},
		"Bearer person:ada":  {own: {403, "ACCESS_DENIED"}, unknown: {403, "ACCESS_DENIED"}, others: {403, "ACCESS_DENIED"}},
	} {
		for _, name := range malformed {
			byName[name] = want{400, "FIELD_INVALID"}
			if token == "" || strings.HasPrefix(token, "Basic") || token == "Bearer expired" {
				byName[name] = want{401, "TOKEN_INVALID"}
			}
		}
		for name, want := range byName {
			for _, method := range []string{http.MethodGet, http.MethodHead} {
				// Nothing in a request makes a refusal another one.
				for _, more := range []http.Header{nil, {"If-None-Match": {"*"}}, {"Range": {"bytes=0-"}}, {"Accept-Encoding": {"*;q=0"}}} {
					res, body := d.get(t, method, name, with(http.Header{"Authorization": {token}}, more))
					if res.StatusCode != want.status || res.Header.Get("ETag") != "" || res.Header.Get("Cache-Control") != "no-store" {
						t.Errorf("%s %s as %q: got %s %v, want %d", method, name, token, res.Status, res.Header, want.status)
					}
					if method == http.MethodHead {
						continue
					}
					res.Body = io.NopCloser(strings.NewReader(string(body)))
					if got := strings.TrimPrefix(rpcerr.ReasonOf(rpcerr.FromHTTP(res)).String(), "REASON_"); got != want.reason {
						t.Errorf("%s %s as %q: got %s, want %s", method, name, token, got, want.reason)
					}
				}
			}
		}
	}
}

// TestSecUndecidedBundlesAreNotRefused asks for a bundle that no plan names while services of the cluster are not
// derived: the agent has to ask again, because the bundle may be in its plan then.
func TestSecUndecidedBundlesAreNotRefused(t *testing.T) {
	t.Parallel()
	d := newDesk(t, zstd.SpeedDefault)
	d.isUndecided.Store(true)
	others := d.other.digest().String()
	res, body := d.get(t, http.MethodGet, others, nil)
	res.Body = io.NopCloser(strings.NewReader(string(body)))
	if got := rpcerr.ReasonOf(rpcerr.FromHTTP(res)).String(); res.StatusCode != 503 || got != "REASON_DERIVATION_PENDING" {
		t.Errorf("got %s with %s, want that the agent asks again", res.Status, got)
	}
	if res, _ := d.fetch(t, nil); res.StatusCode != 200 {
		t.Errorf("got %s for a bundle that the plan names", res.Status)
	}
}

// TestRefusalsTellNothing compares the whole answers for an unknown digest, one of another
// cluster's plan that is cached here, and one that is cached but in no plan.
func TestRefusalsTellNothing(t *testing.T) {
	t.Parallel()
	d := newDesk(t, zstd.SpeedDefault)
	forgotten := newFolder(t, zstd.SpeedDefault, "in no plan any more")
	if _, err := d.disk.Put(t.Context(), forgotten.digest(), strings.NewReader(string(forgotten.packed))); err != nil {
		t.Fatal(err)
	}
	d.get(t, http.MethodGet, d.other.digest().String(), http.Header{"Authorization": {"Bearer agent:two"}})
	var first http.Header
	var text string
	for i, name := range []digest.Digest{digest.FromBytes([]byte("nobody has this")), d.other.digest(), forgotten.digest()} {
		res, body := d.get(t, http.MethodGet, name.String(), nil)
		res.Header.Del("Date")
		if i == 0 {
			first, text = res.Header, string(body)
		}
		if diff := cmp.Diff(first, res.Header); res.StatusCode != 404 || diff != "" || string(body) != text {
			t.Errorf("digest %d: got %s %s, other headers (-want +got):\n%s", i, res.Status, body, diff)
		}
	}
}

// TestGuessing proves by absent calls that the time of a refusal reveals nothing: only the caller's
// own plans in memory are read.
func TestGuessing(t *testing.T) {
	t.Parallel()
	d := newDesk(t, zstd.SpeedDefault)
	d.get(t, http.MethodGet, d.other.digest().String(), http.Header{"Authorization": {"Bearer agent:two"}})
	before := d.work()
	for i := range 10_000 {
		name := d.other.digest() // now and then a right guess, of what another cluster has
		if i%10 != 0 {
			var sum [digest.Size]byte
			_, _ = rand.Read(sum[:])
			name = digest.FromSum(sum)
		}
		if answer := d.guess(t, name); answer.Code != http.StatusNotFound {
			t.Fatalf("guess %d: got %d, want 404", i, answer.Code)
		}
	}
	if got := d.work() - before; got != 0 {
		t.Errorf("got %d pieces of work on disk, in SQL or upstream, want none", got)
	}
}

// guess asks for a digest as cluster one's agent, without a connection.
func (d *desk) guess(tb testing.TB, name digest.Digest) *httptest.ResponseRecorder {
	tb.Helper()
	request := httptest.NewRequestWithContext(tb.Context(), http.MethodGet, "/v1/bundles/"+name.String(), http.NoBody)
	request.Header.Set("Authorization", "Bearer agent:one")
	answer := httptest.NewRecorder()
	d.handler.ServeHTTP(answer, request)
	return answer
}

// BenchmarkRefusal shows how long refusals take: of unknown digests, and of one that is cached for
// another cluster.
func BenchmarkRefusal(b *testing.B) {
	d := newDesk(b, zstd.SpeedDefault)
	d.get(b, http.MethodGet, d.other.digest().String(), http.Header{"Authorization": {"Bearer agent:two"}})
	for name, wanted := range map[string]digest.Digest{"unknown": digest.FromBytes([]byte("nobody has this")), "others": d.other.digest()} {
		b.Run("digest="+name, func(b *testing.B) {
			took := make([]time.Duration, 0, b.N)
			for b.Loop() {
				begun := time.Now()
				answer := d.guess(b, wanted)
				took = append(took, time.Since(begun))
				if answer.Code != http.StatusNotFound {
					b.Fatalf("got %d, want 404", answer.Code)
				}
			}
			slices.Sort(took)
			for _, q := range []int{50, 90, 99} {
				b.ReportMetric(float64(took[(len(took)-1)*q/100].Nanoseconds()), fmt.Sprintf("p%d-ns", q))
			}
		})
	}
}
