// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/testkit/await"
)

// tarFolder makes a real bundle of many files.
func tarFolder(t *testing.T, commit string, files map[string]string) *folder {
	t.Helper()
	var plain, packed bytes.Buffer
	w := bundle.NewWriter(&plain, bundle.Limits{})
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := w.WriteFile(name, false, int64(len(files[name])), strings.NewReader(files[name])); err != nil {
			t.Fatal(err)
		}
	}
	z, err := bundle.Compress(&packed)
	if err := errors.Join(w.Close(), err); err != nil {
		t.Fatal(err)
	}
	_, err = z.Write(plain.Bytes())
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	return &folder{bytes: packed.Bytes(), snapshot: &typev1.Snapshot{
		Commit: commit, Digest: digest.FromBytes(plain.Bytes()).String(),
		ContentSize: int64(plain.Len()), StoredSize: int64(packed.Len()), FileCount: int32(len(files)),
	}}
}

// manifests is a folder of ten MiB in 640 files: text that is alike, with hashes in it that are
// not, and one file of a KiB.
func manifests(release string) map[string]string {
	files := map[string]string{"app/release.txt": release}
	unlike := noise(640 << 11)
	for n := range 640 {
		text := fmt.Sprintf("apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: service-%d\n", n)
		text += strings.Repeat("# a line that says the same in every file of the folder\n", 250)
		files[fmt.Sprintf("app/service-%03d/deployment.yaml", n)] = text + fmt.Sprintf("%x", unlike[n<<11:(n+1)<<11])[:16<<10-len(text)]
	}
	return files
}

// unpack applies a delta and returns the tar it leads to.
func unpack(t *testing.T, from *folder, to string, delta []byte) error {
	t.Helper()
	base, err := bundle.Decompress(bytes.NewReader(from.bytes), 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = base.Close() }()
	plain, err := bundle.Decompress(bytes.NewReader(delta), 1<<30)
	if err != nil {
		return err
	}
	defer func() { _ = plain.Close() }()
	old, _ := digest.Parse(from.snapshot.GetDigest())
	next, _ := digest.Parse(to)
	return bundle.ApplyDelta(io.Discard, bundle.Tar{Digest: old, Content: base}, next, plain, bundle.Limits{})
}

// deltaHub is a hub whose service has gone from one content to another.
func deltaHub(t *testing.T, from, to *folder) (*hub, *agentKey) {
	t.Helper()
	h := startHub(t)
	h.demo(t, from)
	agent := h.enrol(t, "one")
	stream := h.watchPlan(t, agent.token, "")
	stream.nextWith(t, from.snapshot.GetDigest())
	h.git.set("demo", "app", to)
	h.git.set("demo", "before", from)
	h.git.announce("demo", "", "refs/heads/main")
	stream.nextWith(t, to.snapshot.GetDigest())
	return h, agent
}

// meteredConn counts what passes.
type meteredConn struct {
	net.Conn

	n *atomic.Int64
}

func (c meteredConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.n.Add(int64(n))
	return n, err
}

func (c meteredConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.n.Add(int64(n))
	return n, err
}

// fetch downloads over a connection of its own and returns how many bytes passed on it, both ways.
func (h *hub) fetch(t *testing.T, token, path string) (*http.Response, []byte, int64) {
	t.Helper()
	var wire atomic.Int64
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, DisableCompression: true,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, address)
			return meteredConn{conn, &wire}, err
		},
	}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.url+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, body, wire.Load()
}

// awaitDelta asks until the answer is a delta: a machine may be too busy to make one while a caller
// waits.
func awaitDelta(t *testing.T, ask func() *http.Response) {
	t.Helper()
	await.True(t, "a delta", func() bool { return ask().Header.Get("Content-Type") == bundle.DeltaMediaType })
}

// TestDeltaOfOneFile is the bar: of a folder of 10 MiB one file of 1 KiB changed, and at most 8 KiB
// pass the wire, headers included.
func TestDeltaOfOneFile(t *testing.T) {
	t.Parallel()
	releases := noise(2 << 10) // of which the first is replaced by the second, with nothing in common
	from, to := tarFolder(t, "c1", manifests(releases[:1<<10])), tarFolder(t, "c2", manifests(releases[1<<10:]))
	h, agent := deltaHub(t, from, to)
	path := "/v1/bundles/" + to.snapshot.GetDigest()
	var body []byte
	var wire int64
	awaitDelta(t, func() (res *http.Response) {
		res, body, wire = h.fetch(t, agent.token, path+"?from="+from.snapshot.GetDigest())
		return res
	})
	if err := unpack(t, from, to.snapshot.GetDigest(), body); err != nil {
		t.Errorf("apply: %v", err)
	}
	_, whole, full := h.fetch(t, agent.token, path)
	if !bytes.Equal(whole, to.bytes) {
		t.Error("got other bytes than the bundle's without ?from")
	}
	t.Logf("content %d bytes in %d files; on the wire: delta %d bytes (body %d), whole bundle %d (body %d)",
		to.snapshot.GetContentSize(), to.snapshot.GetFileCount(), wire, len(body), full, len(whole))
	if wire > 8<<10 {
		t.Errorf("delta: got %d bytes on the wire, want at most 8 KiB", wire)
	}
}

// TestDeltaOverHTTP goes through what a client may ask.
func TestDeltaOverHTTP(t *testing.T) {
	t.Parallel()
	content := noise(64 << 10)
	from, to := newFolder(t, "c1", content), newFolder(t, "c2", "changed"+content)
	h, agent := deltaHub(t, from, to)
	query := to.snapshot.GetDigest() + "?from="
	with := query + from.snapshot.GetDigest()

	var delta []byte
	var res *http.Response
	awaitDelta(t, func() *http.Response {
		res, delta = h.download(t, agent.token, with, nil)
		return res
	})
	tag := res.Header.Get("Etag")
	if res.Header.Get("Content-Encoding") != "" || len(delta) > 1<<10 {
		t.Fatalf("got %v and %d bytes, want a delta", res.Header, len(delta))
	}
	if err := unpack(t, from, to.snapshot.GetDigest(), delta); err != nil {
		t.Errorf("apply: %v", err)
	}
	whole, _ := h.download(t, agent.token, to.snapshot.GetDigest(), nil)
	if other := whole.Header.Get("Etag"); tag == "" || tag == other || strings.HasPrefix(tag, "W/") {
		t.Errorf("ETag: got %s and %s, want a strong one of its own", tag, other)
	}
	if res, _ := h.download(t, agent.token, with, http.Header{"If-None-Match": {tag}}); res.StatusCode != http.StatusNotModified {
		t.Errorf("If-None-Match: got status %d, want 304", res.StatusCode)
	}
	res, rest := h.download(t, agent.token, with, http.Header{"Range": {"bytes=10-"}, "If-Range": {tag}})
	if res.StatusCode != http.StatusPartialContent || !bytes.Equal(rest, delta[10:]) {
		t.Errorf("range: got status %d and %d bytes, want 206 and %d", res.StatusCode, len(rest), len(delta)-10)
	}
	res, body := h.download(t, agent.token, with, http.Header{"Range": {"bytes=10-"}, "If-Range": {whole.Header.Get("Etag")}})
	if res.StatusCode != http.StatusOK || !bytes.Equal(body, delta) {
		t.Errorf("range of another representation: got status %d, want the whole delta", res.StatusCode)
	}

	// Whatever else is asked for, the bundle itself is the answer.
	for name, base := range map[string]string{
		"unknown": digest.FromBytes([]byte("nobody has this")).String(), "itself": to.snapshot.GetDigest(),
	} {
		res, body := h.download(t, agent.token, query+base, nil)
		if res.StatusCode != http.StatusOK || !bytes.Equal(body, to.bytes) || res.Header.Get("Content-Type") != bundle.MediaType {
			t.Errorf("from %s: got status %d and %d bytes, want the bundle", name, res.StatusCode, len(body))
		}
	}
	res, body = h.download(t, agent.token, query+"sha256:zz", nil)
	wantReason(t, reasonOf(res, body), "FIELD_INVALID")
	res, body = h.download(t, agent.token, digest.FromBytes([]byte("nobody has this")).String()+"?from="+from.snapshot.GetDigest(), nil)
	wantReason(t, reasonOf(res, body), "BUNDLE_NOT_FOUND")
}

// TestDeltaShowsNothingOfOthers has a cluster name a base that only another cluster's plan names:
// the answer is the very one for a base that does not exist, and no delta is made.
func TestDeltaShowsNothingOfOthers(t *testing.T) {
	t.Parallel()
	content := noise(64 << 10)
	mine, theirs := newFolder(t, "c1", content), newFolder(t, "c1", "secret"+content)
	h := startHub(t)
	h.git.set("demo", "theirs", theirs)
	h.demo(t, mine)
	h.apply(t, clusterDocument("two"), serviceDocument("other", "two", "demo", "theirs"))
	one, two := h.enrol(t, "one"), h.enrol(t, "two")
	h.watchPlan(t, one.token, "").nextWith(t, mine.snapshot.GetDigest())
	h.watchPlan(t, two.token, "").nextWith(t, theirs.snapshot.GetDigest())
	if res, _ := h.download(t, two.token, theirs.snapshot.GetDigest(), nil); res.StatusCode != http.StatusOK {
		t.Fatalf("other cluster's own bundle: got status %d, want 200", res.StatusCode)
	}
	answer := func(from string) http.Header {
		res, body := h.download(t, one.token, mine.snapshot.GetDigest()+"?from="+from, nil)
		if res.StatusCode != http.StatusOK || !bytes.Equal(body, mine.bytes) {
			t.Errorf("from %s: got status %d and %d bytes, want the bundle", from, res.StatusCode, len(body))
		}
		res.Header.Del("Date")
		return res.Header
	}
	answer(mine.snapshot.GetDigest()) // from now on it is in the cache
	exists, not := answer(theirs.snapshot.GetDigest()), answer(digest.FromBytes([]byte("x")).String())
	if fmt.Sprint(exists) != fmt.Sprint(not) {
		t.Errorf("headers: got %v where the base exists and %v where not, want the same", exists, not)
	}
}

// TestDeltaNeedsBothBundles has gitcache lose the old one: the new one comes whole.
func TestDeltaNeedsBothBundles(t *testing.T) {
	t.Parallel()
	content := noise(64 << 10)
	from, to := newFolder(t, "c1", content), newFolder(t, "c2", "changed"+content)
	h, agent := deltaHub(t, from, to)
	h.git.set("demo", "before", nil)
	res, body := h.download(t, agent.token, to.snapshot.GetDigest()+"?from="+from.snapshot.GetDigest(), nil)
	if res.StatusCode != http.StatusOK || !bytes.Equal(body, to.bytes) {
		t.Errorf("got status %d and %d bytes, want the bundle", res.StatusCode, len(body))
	}
}

// TestHundredAgentsShareADelta has them ask at once, with nothing in the cache: both bundles are
// fetched once.
func TestHundredAgentsShareADelta(t *testing.T) {
	t.Parallel()
	content := noise(64 << 10)
	from, to := newFolder(t, "c1", content), newFolder(t, "c2", "changed"+content)
	h, agent := deltaHub(t, from, to)
	ask := func() *http.Response {
		res, _ := h.download(t, agent.token, to.snapshot.GetDigest()+"?from="+from.snapshot.GetDigest(), nil)
		return res
	}
	answers := make(chan *http.Response, 100)
	var downloads sync.WaitGroup
	for range cap(answers) {
		downloads.Go(func() { answers <- ask() })
	}
	downloads.Wait()
	close(answers)
	awaitDelta(t, ask)
	tag := ask().Header.Get("Etag")
	for res := range answers {
		if got := res.Header.Get("Etag"); got != tag && res.Header.Get("Content-Type") == bundle.DeltaMediaType {
			t.Fatalf("ETag: got %s and %s, want one delta for all", got, tag)
		}
	}
	if got := h.git.count(&h.git.downloads); got != 2 {
		t.Errorf("got %d downloads from gitcache, want 2", got)
	}
}
