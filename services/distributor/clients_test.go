// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/nginxtest"
)

// tarOf is the content of a folder's bundle.
func tarOf(t *testing.T, f *folder) []byte {
	t.Helper()
	content, err := bundle.Decompress(bytes.NewReader(f.bytes), bundle.DefaultLimits().Bytes)
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	var tar bytes.Buffer
	if _, err := tar.ReadFrom(content); err != nil {
		t.Fatal(err)
	}
	return tar.Bytes()
}

// run runs a program and returns what it prints.
func run(t *testing.T, name string, args ...string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), name, args...)
	var said bytes.Buffer
	command.Stderr = &said
	out, err := command.Output()
	if err != nil {
		err = fmt.Errorf("%s %q: %w\n%s", name, args, err, said.String())
	}
	return string(out), err
}

// curl downloads a bundle into a file, and returns the status and what format asks for beside it.
func curl(t *testing.T, token, base, digest, file string, args ...string) (string, error) {
	t.Helper()
	args = append([]string{
		"--disable", "--silent", "--show-error", "--noproxy", "*", "--max-time", "60", "--write-out", "%{http_code}",
		"--header", "Authorization: Bearer " + token, "--output", file,
	}, append(args, base+"/v1/bundles/"+digest)...)
	return run(t, "curl", args...)
}

func wantFile(t *testing.T, what, path string, want []byte) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s: got %d bytes with digest %s, want %d with %s", what, len(got), digest.FromBytes(got), len(want), digest.FromBytes(want))
	}
}

// TestCurlAndZstd lets the programs that people have at hand download bundles.
func TestCurlAndZstd(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	content := newFolder(t, "c1", strings.Repeat("a line of a manifest\n", 10_000)+noise(200_000))
	h.demo(t, content)
	agent := h.enrol(t, "one")
	d := content.snapshot.GetDigest()
	h.watchPlan(t, agent.token, "").nextWith(t, d)
	tar, dir := tarOf(t, content), t.TempDir()

	file := filepath.Join(dir, "bundle.tar.zst")
	if status, err := curl(t, agent.token, h.url, d, file); err != nil || status != "200" {
		t.Fatalf("curl: got %s, %v", status, err)
	}
	wantFile(t, "curl", file, content.bytes)
	if _, err := run(t, "zstd", "-d", "-q", file); err != nil {
		t.Fatal(err)
	}
	wantFile(t, "zstd -d", filepath.Join(dir, "bundle.tar"), tar)

	for _, args := range [][]string{
		{"--compressed"},
		{"--compressed", "--http2-prior-knowledge"}, // all that this curl knows
		{"--compressed", "--header", "Accept-Encoding: gzip"},
		{"--header", "Accept-Encoding: identity"},
		{"--header", "Accept: application/x-tar"},
	} {
		file := filepath.Join(t.TempDir(), "tar")
		if status, err := curl(t, agent.token, h.url, d, file, args...); err != nil || status != "200" {
			t.Errorf("curl %q: got %s, %v", args, status, err)
			continue
		}
		wantFile(t, fmt.Sprintf("curl %q", args), file, tar)
	}
	if listing, err := run(t, "tar", "-tf", filepath.Join(dir, "bundle.tar")); err != nil || strings.TrimSpace(listing) != "app.yaml" {
		t.Errorf("tar: got %q, %v, want the one file", listing, err)
	}
}

// TestCurlGoesOnAfterACut cuts transfers off in the middle, in each form, and has curl continue.
func TestCurlGoesOnAfterACut(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	content := newFolder(t, "c1", noise(300_000))
	h.demo(t, content)
	agent := h.enrol(t, "one")
	d := content.snapshot.GetDigest()
	h.watchPlan(t, agent.token, "").nextWith(t, d)
	cutting := cuttingProxy(t, h.url)
	for name, want := range map[string][]byte{"": content.bytes, "application/x-tar": tarOf(t, content)} {
		file := filepath.Join(t.TempDir(), "bundle")
		accept := []string{"--header", "Accept: " + name, "--continue-at", "-"}
		if name == "" {
			accept = accept[2:]
		}
		_, cut := curl(t, agent.token, cutting, d, file, accept...)
		if cut == nil {
			t.Fatal("curl did not notice that its transfer was cut off")
		}
		if info, err := os.Stat(file); err != nil || info.Size() == 0 || info.Size() > cutAfter {
			t.Fatalf("got %v, %v, want a part of the bundle; curl: %v", info, err, cut)
		}
		if status, err := curl(t, agent.token, h.url, d, file, accept...); err != nil || status != "206" {
			t.Errorf("got %s, %v, want the rest", status, err)
		}
		wantFile(t, "curl --continue-at -", file, want)
	}
}

// cutAfter is how many bytes come before a connection breaks.
const cutAfter = 100_000

// cuttingProxy passes requests on and a part of each answer back, then breaks the connection.
func cuttingProxy(t *testing.T, to string) string {
	t.Helper()
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ModifyResponse: func(r *http.Response) error {
			r.Body = http.MaxBytesReader(nil, r.Body, cutAfter) // whether the length is told, or the bundle is being fetched
			return nil
		},
		Transport:     &http.Transport{DisableCompression: true}, // curl's request reaches the server unchanged
		FlushInterval: -1,                                        // what it has read must not stay in its buffer
		ErrorLog:      log.New(io.Discard, "", 0),
	})
	t.Cleanup(proxy.Close)
	return proxy.URL
}

// startNginx runs nginx with the configuration that deploy/nginx has, except addresses and folders.
func startNginx(t *testing.T, upstream string) string {
	t.Helper()
	text, err := os.ReadFile("../../deploy/nginx/leat-bundles.conf")
	if err != nil {
		t.Fatal(err)
	}
	server := nginxtest.Start(t, 0, func(addr, dir string) string {
		config := string(text)
		for from, to := range map[string]string{
			"server distributor:8080;":      "server " + strings.TrimPrefix(upstream, "http://") + ";",
			"listen 8080;":                  "listen " + addr + ";",
			"/var/cache/nginx/leat-bundles": dir + "/cache",
		} {
			if strings.Count(config, from) != 1 {
				t.Fatalf("deploy/nginx/leat-bundles.conf has %q %d times, want once", from, strings.Count(config, from))
			}
			config = strings.Replace(config, from, to, 1)
		}
		return config
	})
	return "http://" + server.Addr
}

// TestNginxInFront has a standard cache between agents and the distributor: what one agent fetched
// serves the next, and no agent that may not read it.
func TestNginxInFront(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	content, secret := newFolder(t, "c1", noise(100_000)), newFolder(t, "c1", "of cluster three")
	h.demo(t, content)
	h.git.set("demo", "secret", secret)
	h.apply(t, clusterDocument("two"), clusterDocument("three"), serviceDocument("app-two", "two", "demo", "app"), serviceDocument("secret", "three", "demo", "secret"))
	one, two, three := h.enrol(t, "one"), h.enrol(t, "two"), h.enrol(t, "three")
	d := content.snapshot.GetDigest()
	h.watchPlan(t, one.token, "").nextWith(t, d)
	await.True(t, "all plans to be there", func() bool {
		second, _ := h.download(t, two.token, d, nil)
		third, _ := h.download(t, three.token, secret.snapshot.GetDigest(), nil)
		return second.StatusCode == http.StatusOK && third.StatusCode == http.StatusOK
	})
	front := startNginx(t, h.url)
	get := func(token, digest string, args ...string) (status, cache, file string) {
		file = filepath.Join(t.TempDir(), "bundle")
		headers := file + ".headers"
		status, err := curl(t, token, front, digest, file, append(args, "--dump-header", headers)...)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(headers)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if value, found := strings.CutPrefix(line, "X-Cache-Status: "); found {
				cache = strings.TrimSpace(value)
			}
		}
		return status, cache, file
	}
	tar := tarOf(t, content)
	for name, form := range map[string]struct {
		args []string
		want []byte
	}{
		"file":  {nil, content.bytes},
		"zstd":  {[]string{"--compressed"}, tar},
		"gzip":  {[]string{"--compressed", "--header", "Accept-Encoding: gzip"}, tar},
		"plain": {[]string{"--header", "Accept-Encoding: identity"}, tar},
	} {
		for i, agent := range []*agentKey{one, two, one} {
			status, cache, file := get(agent.token, d, form.args...)
			if want := []string{"MISS", "HIT", "HIT"}[i]; status != "200" || cache != want {
				t.Errorf("%s: request %d: got %s, %s, want 200, %s", name, i, status, cache, want)
			}
			wantFile(t, name, file, form.want)
		}
	}

	// Whether a request for a delta gets one may change at any time, so nginx neither keeps the
	// answer nor takes it from what it has.
	for range 2 {
		status, cache, file := get(one.token, d+"?from="+digest.FromBytes([]byte("an older bundle")).String())
		if status != "200" || cache != "BYPASS" {
			t.Errorf("got %s, %s for a delta that there is none of, want 200, BYPASS", status, cache)
		}
		wantFile(t, "no delta", file, content.bytes)
	}

	refused, _, body := get(three.token, d)
	unknown, _, other := get(three.token, digest.FromBytes([]byte("nobody has this")).String())
	if refused != "404" || unknown != "404" {
		t.Errorf("got %s for a cached bundle of others and %s for none, want 404 for both", refused, unknown)
	}
	want, err := os.ReadFile(other)
	if err != nil {
		t.Fatal(err)
	}
	wantFile(t, "refusal", body, want)
	if status, _, _ := get("not-a-token", d); status != "401" {
		t.Errorf("got %s without a good token, want 401", status)
	}
	if status, _, _ := get(adminToken, d); status != "403" {
		t.Errorf("got %s as a person, want 403", status)
	}
	if status, _, _ := get(one.token, "sha256:no"); status != "400" {
		t.Errorf("got %s for no digest, want 400", status)
	}
	if status, cache, file := get(one.token, d, "--range", "10-19"); status != "206" || cache != "HIT" {
		t.Errorf("got %s, %s for a range, want 206 from the cache", status, cache)
	} else {
		wantFile(t, "range", file, content.bytes[10:20])
	}
	if status, _, _ := get(one.token, d, "--header", `If-None-Match: "file-`+digest.FromBytes(content.bytes).Hex()+`"`); status != "304" {
		t.Errorf("got %s for what the caller has, want 304", status)
	}
}
