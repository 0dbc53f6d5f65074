// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package release_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/internal/runtime/localkube"
	"github.com/leatdev/leat/internal/runtime/localkube/release"
)

const upstream = "https://downloads.example.test/v9/programs.tar.gz"

// pack returns a .tar.gz with programs, which do not compress, and an archive that pins it.
func pack(t *testing.T, names ...string) ([]byte, release.Archive) {
	t.Helper()
	var packed bytes.Buffer
	compressed := gzip.NewWriter(&packed)
	writer := tar.NewWriter(compressed)
	noise := rand.NewChaCha8([32]byte{1})
	for _, name := range names {
		content := make([]byte, 64<<10)
		_, _ = noise.Read(content) // never fails
		copy(content, name)
		header := &tar.Header{Name: "some/folder/" + name, Mode: 0o600, Size: int64(len(content)), Typeflag: tar.TypeReg}
		if err := writer.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := writer.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(writer.Close(), compressed.Close()); err != nil {
		t.Fatal(err)
	}
	sum := sha512.Sum512(packed.Bytes())
	return packed.Bytes(), release.Archive{
		URL: upstream, SHA512: hex.EncodeToString(sum[:]), MaxSize: 1 << 20, Version: "9.0.0", Files: []string{"one", "two"},
	}
}

// site is a local server that stands for a download site.
type site struct {
	*httptest.Server

	mu       sync.Mutex
	requests []string // path and range of each
}

// newSite serves answer, which also gets the number of the request.
func newSite(t *testing.T, answer func(w http.ResponseWriter, r *http.Request, number int)) *site {
	t.Helper()
	s := &site{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.requests = append(s.requests, strings.TrimSpace(r.URL.Path+" "+r.Header.Get("Range")))
		number := len(s.requests)
		s.mu.Unlock()
		answer(w, r, number)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *site) seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// params are the parameters of a store that fetches from the site as its mirror.
func params(t *testing.T, a release.Archive, mirror string) release.Params {
	t.Helper()
	return release.Params{
		Dir: filepath.Join(t.TempDir(), "releases"), Archives: []release.Archive{a}, Mirror: mirror,
		Pause: func(context.Context, int) error { return nil },
	}
}

func get(t *testing.T, p release.Params, file string) (string, error) {
	t.Helper()
	s, err := release.New(p)
	if err != nil {
		t.Fatal(err)
	}
	return s.Get(t.Context(), file)
}

// check fails the test unless the programs were unpacked, and nothing else is left.
func check(t *testing.T, p release.Params, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	s, err := release.New(p)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"one", "two"} {
		path, ok := s.Stored(name)
		if !ok {
			t.Fatalf("%s is not stored", name)
		}
		content, err := os.ReadFile(path)
		if err != nil || !bytes.HasPrefix(content, []byte(name)) || len(content) != 64<<10 {
			t.Errorf("%s: got %d bytes, %v", name, len(content), err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o111 != 0o111 {
			t.Errorf("%s: got mode %v, %v, want it executable", name, info.Mode(), err)
		}
	}
	nothingIsLeft(t, p, 1)
}

// nothingIsLeft fails the test unless the folder has so many entries besides the lock.
func nothingIsLeft(t *testing.T, p release.Params, want int) {
	t.Helper()
	entries, err := os.ReadDir(p.Dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		if entry.Name() != "lock" {
			names = append(names, entry.Name())
		}
	}
	if len(names) != want {
		t.Errorf("folder of releases: got %q, want %d entries", names, want)
	}
}

// serve answers as a file server does, with ranges.
func serve(w http.ResponseWriter, r *http.Request, content []byte) {
	http.ServeContent(w, r, "programs.tar.gz", time.Time{}, bytes.NewReader(content))
}

// cut sends the first bytes of an answer that announces more, and breaks the connection.
func cut(w http.ResponseWriter, content []byte, n int) {
	w.Header().Set("Content-Length", strconv.Itoa(len(content)))
	_, _ = w.Write(content[:n])
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

func TestDownloadOnce(t *testing.T) {
	t.Parallel()
	content, a := pack(t, "other", "one", "two")
	s := newSite(t, func(w http.ResponseWriter, r *http.Request, _ int) { serve(w, r, content) })
	p := params(t, a, s.URL+"/base/")
	var lines []string
	p.Progress = func(line string) { lines = append(lines, line) }
	_, err := get(t, p, "one")
	check(t, p, err)
	if _, err := get(t, p, "two"); err != nil {
		t.Error(err)
	}
	if got, want := s.seen(), []string{"/base/downloads.example.test/v9/programs.tar.gz"}; !slices.Equal(got, want) {
		t.Errorf("requests: got %q, want %q: the mirror's path begins with upstream's host", got, want)
	}
	if got := strings.Join(lines, "\n"); got != "downloading programs.tar.gz\ndownloaded one, two 9.0.0" {
		t.Errorf("progress: got %q", got)
	}
	if _, err := get(t, p, "three"); err == nil || !strings.Contains(err.Error(), "no release of three is pinned") {
		t.Errorf("file that is not pinned: got %v", err)
	}
}

// A server that differs from the pins is refused, nothing of its file stays, and what it sent is
// not unpacked.
func TestSecReleaseWithAnotherChecksum(t *testing.T) {
	t.Parallel()
	content, a := pack(t, "one", "two")
	other := bytes.Clone(content)
	other[len(other)/2] ^= 1
	longer := append(bytes.Clone(content), 0)
	for name, sent := range map[string][]byte{"a bit": other, "a byte more": longer, "a byte less": content[:len(content)-1], "nothing": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, func(w http.ResponseWriter, r *http.Request, _ int) { serve(w, r, sent) })
			p := params(t, a, s.URL)
			if _, err := get(t, p, "one"); !errors.Is(err, release.ErrChecksum) {
				t.Errorf("got %v, want %v", err, release.ErrChecksum)
			}
			nothingIsLeft(t, p, 0)
			if got := len(s.seen()); got != 1 {
				t.Errorf("got %d requests, want 1", got)
			}
		})
	}
}

func TestDownloadContinues(t *testing.T) {
	t.Parallel()
	content, a := pack(t, "one", "two")
	third := len(content) / 3
	whole := "/downloads.example.test/v9/programs.tar.gz"
	from := func(n int) string { return fmt.Sprintf("%s bytes=%d-", whole, n) }
	for _, tc := range []struct {
		name   string
		answer func(w http.ResponseWriter, r *http.Request, number int)
		want   []string
	}{
		{"after the connection broke", func(w http.ResponseWriter, r *http.Request, number int) {
			if number == 1 {
				cut(w, content, third)
			}
			serve(w, r, content)
		}, []string{whole, from(third)}},
		{"at a server without ranges", func(w http.ResponseWriter, _ *http.Request, number int) {
			if number == 1 {
				cut(w, content, third)
			}
			_, _ = w.Write(content)
		}, []string{whole, from(third)}},
		{"at a server that continues elsewhere", func(w http.ResponseWriter, r *http.Request, number int) {
			switch number {
			case 1:
				cut(w, content, third)
			case 2:
				w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", third+1, len(content)-1, len(content)))
				w.WriteHeader(http.StatusPartialContent)
				_, _ = w.Write(content[third+1:])
				return
			}
			serve(w, r, content)
		}, []string{whole, from(third), whole}},
		{"when only the end of the answer was lost", func(w http.ResponseWriter, r *http.Request, number int) {
			if number == 1 { // announces a byte more than there is
				w.Header().Set("Content-Length", strconv.Itoa(len(content)+1))
				_, _ = w.Write(content)
				panic(http.ErrAbortHandler)
			}
			serve(w, r, content)
		}, []string{whole, from(len(content))}},
		{"after the server was overloaded", func(w http.ResponseWriter, r *http.Request, number int) {
			if number < 3 {
				http.Error(w, "busy", http.StatusServiceUnavailable)
				return
			}
			serve(w, r, content)
		}, []string{whole, whole, whole}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, tc.answer)
			p := params(t, a, s.URL)
			_, err := get(t, p, "one")
			check(t, p, err)
			if got := s.seen(); !slices.Equal(got, tc.want) {
				t.Errorf("requests: got %q, want %q", got, tc.want)
			}
		})
	}
}

// A later start continues what an earlier one has left, and starts again if that was of another
// file.
func TestDownloadContinuesAfterARestart(t *testing.T) {
	t.Parallel()
	content, a := pack(t, "one", "two")
	third := len(content) / 3
	for name, damage := range map[string]byte{"good": 0, "bad": 1} {
		t.Run(name+" part", func(t *testing.T) {
			t.Parallel()
			var serving atomic.Bool
			s := newSite(t, func(w http.ResponseWriter, r *http.Request, number int) {
				if number == 1 {
					cut(w, content, third)
				}
				if !serving.Load() {
					panic(http.ErrAbortHandler)
				}
				serve(w, r, content)
			})
			p := params(t, a, s.URL)
			if _, err := get(t, p, "one"); err == nil {
				t.Fatal("got no error from a site that went away")
			}
			nothingIsLeft(t, p, 1)
			parts, err := filepath.Glob(filepath.Join(p.Dir, "*.part"))
			if err != nil || len(parts) != 1 {
				t.Fatalf("got %q, %v, want the part of the first start", parts, err)
			}
			part, err := os.ReadFile(parts[0])
			if err != nil {
				t.Fatal(err)
			}
			part[0] ^= damage
			if err := os.WriteFile(parts[0], part, 0o600); err != nil {
				t.Fatal(err)
			}
			before := len(s.seen())
			serving.Store(true)
			_, err = get(t, p, "one")
			check(t, p, err)
			want := 1
			if damage != 0 {
				want = 2
			}
			if got := s.seen()[before:]; len(got) != want || !strings.HasSuffix(got[0], fmt.Sprintf("bytes=%d-", third)) {
				t.Errorf("requests of the second start: got %q, want %d, the first with a range", got, want)
			}
		})
	}
}

// A server that never sends what it announces ends the download after three attempts without
// progress, and one that is down does so, too.
func TestDownloadGivesUp(t *testing.T) {
	t.Parallel()
	content, a := pack(t, "one", "two")
	for name, answer := range map[string]func(w http.ResponseWriter, r *http.Request, number int){
		"ends in the middle": func(w http.ResponseWriter, r *http.Request, number int) {
			if number == 1 {
				cut(w, content, 1000)
			}
			panic(http.ErrAbortHandler)
		},
		"announces more than it has":          func(w http.ResponseWriter, _ *http.Request, _ int) { cut(w, append(slices.Clip(content), 0, 0), 1000) },
		"sends a range that nobody asked for": func(w http.ResponseWriter, _ *http.Request, _ int) { w.WriteHeader(http.StatusPartialContent) },
		"does not work":                       func(w http.ResponseWriter, _ *http.Request, _ int) { http.Error(w, "broken", http.StatusBadGateway) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, answer)
			p := params(t, a, s.URL)
			pauses := 0
			p.Pause = func(context.Context, int) error { pauses++; return nil }
			if _, err := get(t, p, "one"); err == nil || errors.Is(err, release.ErrChecksum) {
				t.Errorf("got %v, want an error of the network", err)
			}
			if got := len(s.seen()); got > 4 || pauses != got-1 {
				t.Errorf("got %d requests and %d pauses, want at most 4, with a pause between two", got, pauses)
			}
		})
	}
	t.Run("has no such file", func(t *testing.T) {
		t.Parallel()
		s := newSite(t, func(w http.ResponseWriter, r *http.Request, _ int) { http.NotFound(w, r) })
		if _, err := get(t, params(t, a, s.URL), "one"); err == nil || !strings.Contains(err.Error(), "404 Not Found") {
			t.Errorf("got %v, want the server's answer", err)
		}
		if got := len(s.seen()); got != 1 {
			t.Errorf("got %d requests, want 1", got)
		}
	})
}

// A server cannot fill the disk: neither with an answer that announces its length nor with one that
// does not end, nor by ranges.
func TestSecReleaseIsBounded(t *testing.T) {
	t.Parallel()
	content, a := pack(t, "one", "two")
	a.MaxSize = int64(len(content))
	for name, answer := range map[string]func(w http.ResponseWriter, r *http.Request, number int){
		"announced": func(w http.ResponseWriter, _ *http.Request, _ int) {
			w.Header().Set("Content-Length", strconv.Itoa(len(content)+1))
			_, _ = w.Write(content)
		},
		"without an end": func(w http.ResponseWriter, r *http.Request, _ int) {
			for r.Context().Err() == nil {
				if _, err := w.Write(content); err != nil {
					return
				}
			}
		},
		"in ranges": func(w http.ResponseWriter, _ *http.Request, number int) {
			if number == 1 {
				cut(w, content, 1000)
			}
			w.Header().Set("Content-Range", "bytes 1000-9999999/10000000")
			w.WriteHeader(http.StatusPartialContent)
			for range 10 {
				_, _ = w.Write(content)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := params(t, a, newSite(t, answer).URL)
			if _, err := get(t, p, "one"); !errors.Is(err, release.ErrTooLarge) {
				t.Errorf("got %v, want %v", err, release.ErrTooLarge)
			}
			nothingIsLeft(t, p, 0)
		})
	}
	t.Run("exactly as large", func(t *testing.T) {
		t.Parallel()
		s := newSite(t, func(w http.ResponseWriter, r *http.Request, _ int) { serve(w, r, content) })
		p := params(t, a, s.URL)
		_, err := get(t, p, "one")
		check(t, p, err)
	})
}

// redirected is a transport on which upstream redirects to an address and every other host has the
// content.
type redirected struct {
	to      string
	content []byte
	hosts   *[]string
}

// RoundTrip implements http.RoundTripper.
func (t redirected) RoundTrip(r *http.Request) (*http.Response, error) {
	*t.hosts = append(*t.hosts, r.URL.Scheme+"://"+r.URL.Host)
	answer := &http.Response{StatusCode: http.StatusOK, Status: "200 OK", Header: http.Header{}, Request: r, ContentLength: int64(len(t.content))}
	answer.Body = io.NopCloser(bytes.NewReader(t.content))
	if r.URL.Path != "/content" {
		answer.StatusCode, answer.Status = http.StatusFound, "302 Found"
		answer.Header.Set("Location", t.to)
	}
	return answer, nil
}

// A server sends the client to TLS or to the mirror, and nowhere else: not to a service of the
// user's own network.
func TestSecReleaseRedirects(t *testing.T) {
	t.Parallel()
	content, a := pack(t, "one", "two")
	const mirror = "http://mirror.example.test:8080"
	for _, tc := range []struct {
		name, mirror, to string
		want             bool
	}{
		{"to TLS", "", "https://storage.example.test/content", true},
		{"to the same host without TLS", "", "http://downloads.example.test/content", false},
		{"to a host without TLS", "", "http://169.254.169.254/content", false},
		{"to another scheme", "", "ftp://downloads.example.test/content", false},
		{"from the mirror to itself", mirror, mirror + "/content", true},
		{"from the mirror to TLS", mirror, "https://storage.example.test/content", true},
		{"from the mirror to another port", mirror, "http://mirror.example.test/content", false},
		{"from the mirror to a host without TLS", mirror, "http://storage.example.test/content", false},
		{"in a circle", "", upstream, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var hosts []string
			p := params(t, a, tc.mirror)
			p.Transport = redirected{tc.to, content, &hosts}
			_, err := get(t, p, "one")
			if tc.want {
				check(t, p, err)
				return
			}
			if !errors.Is(err, release.ErrRedirect) {
				t.Errorf("got %v, want %v", err, release.ErrRedirect)
			}
			target, err := url.Parse(tc.to)
			if err != nil {
				t.Fatal(err)
			}
			if tc.to != upstream && slices.Contains(hosts[1:], target.Scheme+"://"+target.Host) {
				t.Errorf("requests: got %q, want none to %s", hosts, tc.to)
			}
			if len(hosts) > 6 {
				t.Errorf("got %d requests, want at most 6", len(hosts))
			}
		})
	}
}

// frozen is a transport whose answer has a beginning, and then nothing for ever.
type frozen struct {
	content  []byte
	attempts *int
}

// RoundTrip implements http.RoundTripper.
func (t frozen) RoundTrip(r *http.Request) (*http.Response, error) {
	*t.attempts++
	read, write := io.Pipe()
	go func() {
		_, _ = write.Write(t.content[:100])
		<-r.Context().Done()
		_ = write.CloseWithError(r.Context().Err())
	}()
	return &http.Response{
		StatusCode: http.StatusOK, Status: "200 OK", Header: http.Header{}, Request: r,
		ContentLength: int64(len(t.content)), Body: read,
	}, nil
}

func TestDownloadThatStalls(t *testing.T) {
	t.Parallel()
	content, a := pack(t, "one", "two")
	synctest.Test(t, func(t *testing.T) {
		attempts := 0
		p := params(t, a, "")
		p.Transport = frozen{content, &attempts}
		_, err := get(t, p, "one")
		if err == nil || !strings.Contains(err.Error(), "nothing arrived for 30s") {
			t.Errorf("got %v, want the stall", err)
		}
		if attempts != 4 { // the first one got 100 bytes
			t.Errorf("got %d attempts, want 4", attempts)
		}
	})
}

func TestUnpack(t *testing.T) {
	t.Parallel()
	content, a := pack(t, "one")
	s := newSite(t, func(w http.ResponseWriter, r *http.Request, _ int) { serve(w, r, content) })
	p := params(t, a, s.URL)
	if _, err := get(t, p, "one"); err == nil || !strings.Contains(err.Error(), "the archive lacks two") {
		t.Errorf("archive without a program: got %v", err)
	}
	garbage := []byte("no archive")
	sum := sha512.Sum512(garbage)
	a.SHA512 = hex.EncodeToString(sum[:])
	s = newSite(t, func(w http.ResponseWriter, r *http.Request, _ int) { serve(w, r, garbage) })
	if _, err := get(t, params(t, a, s.URL), "one"); err == nil || !strings.Contains(err.Error(), "unpack: ") {
		t.Errorf("no archive: got %v", err)
	}
}

func TestMirrorIsAURL(t *testing.T) {
	t.Parallel()
	for _, mirror := range []string{"mirror.example.test", "ftp://mirror.example.test", "https://", ":"} {
		if _, err := release.New(release.Params{Mirror: mirror}); err == nil {
			t.Errorf("%q: got no error", mirror)
		}
	}
}

// The pins of all platforms are well formed, by TLS, and of a version that fits.
func TestPinned(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for platform, want := range map[string]int{"linux/amd64": 2, "linux/arm64": 2, "darwin/amd64": 1, "darwin/arm64": 1, "windows/amd64": 0, "linux/riscv64": 0} {
		system, arch, _ := strings.Cut(platform, "/")
		archives := release.Pinned(system, arch)
		if len(archives) != want {
			t.Errorf("%s: got %d archives, want %d", platform, len(archives), want)
		}
		for i, a := range archives {
			raw, err := hex.DecodeString(a.SHA512)
			if err != nil || len(raw) != sha512.Size || seen[a.SHA512] {
				t.Errorf("%s: %s: SHA-512 %s is malformed, or that of another archive", platform, a.URL, a.SHA512)
			}
			seen[a.SHA512] = true
			if !strings.HasPrefix(a.URL, "https://") || !strings.Contains(a.URL, "v"+a.Version) || !strings.HasSuffix(a.URL, "-"+system+"-"+arch+".tar.gz") {
				t.Errorf("%s: %s is not the platform's archive of v%s", platform, a.URL, a.Version)
			}
			if i == 0 && !slices.Contains(a.Files, localkube.APIServerFile) {
				t.Errorf("%s: the first archive has %s, want what delivers", platform, a.Files)
			}
		}
	}
}
