// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/services/distributor"
)

// reasonOf reads the reason of an answer.
func reasonOf(res *http.Response, body []byte) error {
	res.Body = io.NopCloser(bytes.NewReader(body))
	return rpcerr.FromHTTP(res)
}

func TestBundlesOverHTTP(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	content := newFolder(t, "c1", "one")
	h.demo(t, content)
	agent := h.enrol(t, "one")
	d := content.snapshot.GetDigest()
	h.watchPlan(t, agent.token, "").nextWith(t, d)
	tag := fmt.Sprintf("%q", "file-"+digest.FromBytes(content.bytes).Hex())

	res, body := h.download(t, agent.token, d, nil)
	for key, want := range map[string]string{
		"Etag": tag, "Cache-Control": "max-age=31536000, s-maxage=0, immutable", "Vary": "Accept, Accept-Encoding",
		"Content-Type": "application/vnd.leat.bundle.v1.tar+zstd", "Content-Encoding": "",
		"Content-Length": fmt.Sprint(len(content.bytes)),
	} {
		if got := res.Header.Get(key); got != want {
			t.Errorf("%s: got %q, want %q", key, got, want)
		}
	}
	if !bytes.Equal(body, content.bytes) {
		t.Error("got other bytes than were stored")
	}
	if res, _ := h.download(t, agent.token, d, http.Header{"If-None-Match": {`W/"other", ` + tag}}); res.StatusCode != http.StatusNotModified {
		t.Errorf("got status %d, want 304", res.StatusCode)
	}
	res, body = h.download(t, agent.token, d, http.Header{"Range": {"bytes=5-9"}, "If-Range": {tag}})
	if res.StatusCode != http.StatusPartialContent || !bytes.Equal(body, content.bytes[5:10]) {
		t.Errorf("got status %d and %d bytes, want the range", res.StatusCode, len(body))
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodHead, h.url+"/v1/bundles/"+d, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept-Encoding", "zstd")
	head, err := h.client(t, agent.token).HTTP.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = head.Body.Close()
	if head.StatusCode != http.StatusOK || head.ContentLength != int64(len(content.bytes)) {
		t.Errorf("HEAD: got status %d and length %d, want 200 and %d", head.StatusCode, head.ContentLength, len(content.bytes))
	}

	unknown := digest.FromBytes([]byte("nobody has this")).String()
	res, body = h.download(t, agent.token, unknown, nil)
	wantReason(t, reasonOf(res, body), "BUNDLE_NOT_FOUND")
	if res.StatusCode != http.StatusNotFound {
		t.Errorf("got status %d, want 404", res.StatusCode)
	}
	res, body = h.download(t, agent.token, strings.ToUpper(d), nil)
	wantReason(t, reasonOf(res, body), "FIELD_INVALID")
}

// TestFillContinuesTheAgentsTrace follows a trace through the distributor to gitcache.
func TestFillContinuesTheAgentsTrace(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	content := newFolder(t, "c1", "one")
	h.demo(t, content)
	agent := h.enrol(t, "one")
	h.watchPlan(t, agent.token, "").nextWith(t, content.snapshot.GetDigest())
	const trace = "0af7651916cd43dd8448eb211c80319c"
	h.download(t, agent.token, content.snapshot.GetDigest(), http.Header{"Traceparent": {"00-" + trace + "-b7ad6b7169203331-01"}})
	h.git.mu.Lock()
	defer h.git.mu.Unlock()
	if !strings.Contains(h.git.trace, trace) {
		t.Errorf("got traceparent %q at gitcache, want the trace %s", h.git.trace, trace)
	}
}

func TestCorruptUpstreamBytesAreRefused(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	content, other := newFolder(t, "c1", "one"), newFolder(t, "c1", "another")
	good := content.bytes
	content.bytes = other.bytes
	h.demo(t, content)
	agent := h.enrol(t, "one")
	d := content.snapshot.GetDigest()
	h.watchPlan(t, agent.token, "").nextWith(t, d)
	for _, wrong := range [][]byte{other.bytes, []byte("no zstd at all"), good[:len(good)-3], nil} {
		h.git.mu.Lock()
		content.bytes = wrong
		h.git.mu.Unlock()
		res, body := h.download(t, agent.token, d, nil)
		wantReason(t, reasonOf(res, body), "DIGEST_MISMATCH")
	}
	h.git.mu.Lock()
	content.bytes = good
	h.git.mu.Unlock()
	if res, body := h.download(t, agent.token, d, nil); res.StatusCode != http.StatusOK || !bytes.Equal(body, good) {
		t.Errorf("got status %d, want the bundle once the upstream mended", res.StatusCode)
	}
}

func TestGitcacheDownDuringFill(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	content := newFolder(t, "c1", "one")
	h.demo(t, content)
	agent := h.enrol(t, "one")
	d := content.snapshot.GetDigest()
	h.watchPlan(t, agent.token, "").nextWith(t, d)
	h.git.stop()
	res, body := h.download(t, agent.token, d, nil)
	err := reasonOf(res, body)
	wantReason(t, err, "DEPENDENCY_UNAVAILABLE")
	if _, ok := rpcerr.RetryDelay(err); !ok || res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("got status %d and %v, want 503 and when to try again", res.StatusCode, err)
	}
	h.git.start(t, h.git.addr())
	await.True(t, "the bundle after gitcache came back", func() bool {
		res, body := h.download(t, agent.token, d, nil)
		return res.StatusCode == http.StatusOK && bytes.Equal(body, content.bytes)
	})
}

// TestPartsOfTheHubThatRefuseEachOther requires an answer about the hub, for agents and for people, while gitcache does
// not accept the distributor's token: their own tokens are good, and trying again helps once the hub is repaired.
func TestPartsOfTheHubThatRefuseEachOther(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	content := newFolder(t, "c1", "one")
	h.demo(t, content)
	agent := h.enrol(t, "one")
	d := content.snapshot.GetDigest()
	h.watchPlan(t, agent.token, "").nextWith(t, d)
	fleet := h.fleet(t, adminToken)
	h.git.distrusts.Store(true)

	// First, while the stream of events is open: it ends with the first call beside it that is refused.
	h.git.announce("demo", "", "refs/heads/main")
	h.waitService(t, "app", func(s *fleetv1.Service) bool {
		source := s.GetStatus().GetSources()[0]
		return source.GetProblem().GetReason() == errorsv1.Reason_REASON_HUB_TOKEN_REFUSED && source.GetSnapshot().GetDigest() == d
	})

	res, body := h.download(t, agent.token, d, nil)
	err := reasonOf(res, body)
	if _, ok := rpcerr.RetryDelay(err); !ok || res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("an agent got status %d and %v, want 503 and when to try again", res.StatusCode, err)
	}
	_, commits := fleet.ListServiceCommits(t.Context(), &fleetv1.ListServiceCommitsRequest{Service: "app"})
	_, deliveries := fleet.ListWebhookDeliveries(t.Context(), &fleetv1.ListWebhookDeliveriesRequest{Name: "demo"})
	for name, err := range map[string]error{"the agent": err, "a person who asks for commits": commits, "a person who asks for webhooks": deliveries} {
		wantReason(t, err, "HUB_TOKEN_REFUSED")
		if connect.CodeOf(err) != connect.CodeUnavailable || !strings.Contains(err.Error(), "LEAT_SERVICE_KEYS") {
			t.Errorf("%s got %v, want UNAVAILABLE that names LEAT_SERVICE_KEYS", name, err)
		}
	}
	synced, err := fleet.SyncService(t.Context(), &fleetv1.SyncServiceRequest{Name: "app"})
	if err != nil || synced.GetProblem().GetReason() != errorsv1.Reason_REASON_HUB_TOKEN_REFUSED {
		t.Errorf("a person who syncs got %v, %v, want HUB_TOKEN_REFUSED", synced.GetProblem(), err)
	}

	h.git.distrusts.Store(false)
	await.True(t, "the bundle after gitcache accepts the token", func() bool {
		res, body := h.download(t, agent.token, d, nil)
		return res.StatusCode == http.StatusOK && bytes.Equal(body, content.bytes)
	})
}

func TestFullDiskHurtsTheNewItemOnly(t *testing.T) {
	t.Parallel()
	small, large := newFolder(t, "c1", "one"), newFolder(t, "c1", noise(64<<10))
	h := startHub(t, func(c *distributor.Config) { c.BundleCache = 32 << 10 })
	h.git.set("demo", "large", large)
	h.demo(t, small)
	h.apply(t, serviceDocument("large", "one", "demo", "large"))
	h.waitService(t, "large", func(s *fleetv1.Service) bool { return s.GetStatus().GetSources()[0].GetSnapshot() != nil })
	agent := h.enrol(t, "one")
	h.watchPlan(t, agent.token, "").nextWith(t, small.snapshot.GetDigest())
	h.download(t, agent.token, small.snapshot.GetDigest(), nil)
	res, body := h.download(t, agent.token, large.snapshot.GetDigest(), nil)
	wantReason(t, reasonOf(res, body), "STORAGE_FULL")
	if res, body := h.download(t, agent.token, small.snapshot.GetDigest(), nil); res.StatusCode != http.StatusOK || !bytes.Equal(body, small.bytes) {
		t.Errorf("got status %d, want what is pinned to stay", res.StatusCode)
	}
}

// noise does not compress.
func noise(n int) string {
	random := rand.New(rand.NewPCG(1, 2))
	raw := make([]byte, n)
	for i := range raw {
		raw[i] = byte(random.Uint32())
	}
	return string(raw)
}
