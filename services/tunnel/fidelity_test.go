// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// answer is everything of a response that a caller can see.
type answer struct {
	Status        int
	Header        http.Header
	ContentLength int64
	Body          string
	Trailer       http.Header
}

// odd is an API server that answers in every way that is easily lost on the way.
func odd(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Seen-Uri", r.RequestURI)
	w.Header()["X-Two"] = []string{"one", "two"}
	w.Header().Set("Audit-Id", "an id")
	switch {
	case strings.HasPrefix(r.URL.Path, "/error"):
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, `{"kind":"Status","code":409}`)
	case strings.HasPrefix(r.URL.Path, "/trailers"):
		w.Header().Set("Trailer", "X-Announced")
		_, _ = io.WriteString(w, "body")
		w.Header().Set("X-Announced", "yes")
		w.Header().Set(http.TrailerPrefix+"X-Sudden", "too")
	case strings.HasPrefix(r.URL.Path, "/unchanged"):
		w.Header().Set("ETag", `"1"`)
		w.WriteHeader(http.StatusNotModified)
	case strings.HasPrefix(r.URL.Path, "/nothing"):
		w.WriteHeader(http.StatusNoContent)
	case strings.HasPrefix(r.URL.Path, "/redirect"):
		w.Header().Set("Location", "/elsewhere?a=b")
		w.WriteHeader(http.StatusTemporaryRedirect)
	case strings.HasPrefix(r.URL.Path, "/hints"):
		w.Header().Set("Link", "</style.css>")
		w.WriteHeader(http.StatusEarlyHints)
		_, _ = io.WriteString(w, "after hints")
	default:
		body, _ := io.ReadAll(r.Body)
		_, _ = fmt.Fprintf(w, "%s %q %v", r.Method, body, r.URL.Query())
	}
}

func TestF37AnswersAreTheSameThroughTheTunnel(t *testing.T) {
	for name, start := range map[string]func(testing.TB) (people, agents *hub){
		"one replica": func(tb testing.TB) (people, agents *hub) {
			h := startHub(tb, nil)
			return h, h
		},
		"over a hop": func(tb testing.TB) (people, agents *hub) {
			replicas := startReplicas(tb, 2)
			return replicas[0].hub, replicas[1].hub
		},
	} {
		t.Run(name, func(t *testing.T) {
			people, agents := start(t)
			sameAnswers(t, people, agents)
		})
	}
}

// sameAnswers compares what the API server answers to what people get whose replica need not be the
// agent's.
func sameAnswers(t *testing.T, h, agents *hub) {
	t.Helper()
	h.access.grant("ada", "demo")
	agents.agent("demo", odd)
	direct := httptest.NewServer(http.HandlerFunc(odd))
	t.Cleanup(direct.Close)
	cases := []struct{ method, path, body string }{
		{"GET", "/api/v1/pods?b=2&a=1&b=1&c", ""},
		{"GET", "/api?", ""},
		{"GET", "/a%2Fb/c%20d//e/?x=%2f&x=%2F&y=a+b;c=%zz", ""},
		{"GET", "/~user/(x)/%7euser/%c3%a4/'", ""},
		{"GET", "/", ""},
		{"POST", "/api/v1/pods", strings.Repeat("0123456789", 50_000)},
		{"PUT", "/api/v1/pods/x", "put"},
		{"PATCH", "/api/v1/pods/x?fieldManager=leat", "patch"},
		{"DELETE", "/api/v1/pods/x", ""},
		{"DELETE", "/api/v1/pods/x", `{"propagationPolicy":"Orphan"}`},
		{"OPTIONS", "/api", ""},
		{"HEAD", "/api/v1/pods", ""},
		{"HEAD", "/error", ""},
		{"GET", "/error", ""},
		{"GET", "/trailers", ""},
		{"GET", "/unchanged", ""},
		{"GET", "/nothing", ""},
		{"GET", "/redirect", ""},
		{"GET", "/hints", ""},
	}
	for _, http2 := range []bool{false, true} {
		c := client(t, http2)
		for _, tc := range cases {
			want := ask(t, client(t, false), tc.method, direct.URL, tc.path, "", tc.body)
			got := ask(t, c, tc.method, "http://"+h.addr+"/clusters/demo", tc.path, h.user("ada"), tc.body)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("http2=%v %s %s differs (-direct +tunnel):\n%s", http2, tc.method, tc.path, diff)
			}
		}
	}
}

// ask sends a request whose path goes out as it is written.
func ask(tb testing.TB, c *http.Client, method, base, path, token, body string) answer {
	tb.Helper()
	req, err := http.NewRequestWithContext(tb.Context(), method, base, nil)
	if err != nil {
		tb.Fatal(err)
	}
	if body != "" {
		req.Body, req.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	}
	escaped, query, hasQuery := strings.Cut(path, "?")
	req.URL.Opaque, req.URL.RawQuery, req.URL.ForceQuery = req.URL.Path+escaped, query, hasQuery
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := c.Do(req)
	if err != nil {
		tb.Fatalf("%s %s: %v", method, path, err)
	}
	defer func() { _ = res.Body.Close() }()
	content, err := io.ReadAll(res.Body)
	if err != nil {
		tb.Fatalf("%s %s: read body: %v", method, path, err)
	}
	for name := range res.Header {
		// Another test covers the headers that confine browsers.
		confining := name == "X-Content-Type-Options" || name == "Content-Security-Policy" || name == "Cross-Origin-Resource-Policy"
		if name == "Date" || strings.HasPrefix(name, "Leat-") || confining {
			delete(res.Header, name)
		}
	}
	return answer{res.StatusCode, res.Header, res.ContentLength, string(content), res.Trailer}
}

// TestF33GzippedWatchIsFlushed has a packed event in a watch that continues. In virtual time at
// once means at the same instant.
func TestF33GzippedWatchIsFlushed(t *testing.T) {
	t.Parallel()
	for _, http2 := range []bool{false, true} {
		virtually(t, nil, func(t *testing.T, h *hub) {
			h.access.grant("ada", "demo")
			happened := make(chan time.Time, 1)
			agent := h.agent("demo", func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Accept-Encoding") != "gzip" {
					http.Error(w, "no gzip asked for", http.StatusBadRequest)
					return
				}
				w.Header().Set("Content-Encoding", "gzip")
				_ = http.NewResponseController(w).Flush()
				<-time.After(10 * time.Second)
				happened <- time.Now()
				zip := gzip.NewWriter(w)
				_, _ = io.WriteString(zip, "event\n")
				_ = zip.Flush()
				_ = http.NewResponseController(w).Flush()
				select { // what was not flushed until then comes too late
				case <-time.After(time.Minute):
				case <-r.Context().Done():
				}
			})
			req := h.request(t.Context(), http.MethodGet, "ada", "demo", "/api/v1/pods?watch=1", nil)
			req.Header.Set("Accept-Encoding", "gzip")
			res, err := h.client(http2).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			unzip, err := gzip.NewReader(res.Body)
			if err != nil {
				t.Fatal(err)
			}
			line, err := bufio.NewReader(unzip).ReadString('\n')
			if took := time.Since(<-happened); line != "event\n" || took > 0 {
				t.Errorf("got %q, %v after %v, want the event at once", line, err, took)
			}
			agent.Close()
		})
	}
}

func TestHeadersCannotBeSmuggled(t *testing.T) {
	h := startHub(t, nil)
	h.access.grant("ada", "demo", "leat:viewers", "team-a")
	seen := make(chan http.Header, 1)
	h.agent("demo", func(_ http.ResponseWriter, r *http.Request) { seen <- r.Header.Clone() })
	for name, headers := range map[string]string{
		"plain":                "Impersonate-User: root\r\nImpersonate-Group: system:masters\r\n",
		"lower case":           "impersonate-user: root\r\nimpersonate-group: system:masters\r\n",
		"mixed case":           "iMPERSONATE-uSER: root\r\nImpersonate-GROUP: system:masters\r\n",
		"underscores":          "Impersonate_User: root\r\nimpersonate_group: system:masters\r\nImpersonate-Extra_scopes: x\r\n",
		"extra and uid":        "Impersonate-Uid: 0\r\nImpersonate-Extra-Scopes: all\r\n",
		"listed by connection": "Connection: Impersonate-User, Impersonate-Group, Leat-Subject\r\nImpersonate-User: root\r\n",
		"credentials":          "Cookie: session=1\r\nProxy-Authorization: Basic eA==\r\n",
		"front proxy":          "X-Remote-User: root\r\nX-Remote-Group: system:masters\r\nX-Remote-Extra-A: b\r\n",
		"ours":                 "Leat-Subject: user:root\r\nleat_subject: user:root\r\nLeat-Forwarded: 1\r\n",
		"forwarded":            "X-Forwarded-For: 10.0.0.1\r\nForwarded: for=10.0.0.1\r\n",
		"hop by hop":           "Keep-Alive: 5\r\nProxy-Connection: x\r\nTE: trailers, deflate\r\n",
	} {
		raw(t, h, "GET /clusters/demo/api HTTP/1.1\r\nHost: hub\r\nAuthorization: Bearer "+h.user("ada")+"\r\n"+
			"User-Agent: test\r\nX-Kept: yes\r\n"+headers+"\r\n")
		got := <-seen
		got.Del("Traceparent")
		got.Del("Te")
		want := http.Header{
			"Impersonate-User": {"ada"}, "Impersonate-Group": {"leat:viewers", "team-a"},
			"User-Agent": {"test"}, "X-Kept": {"yes"},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: headers at the cluster differ (-want +got):\n%s", name, diff)
		}
	}
}

// TestTrailersCannotBeSmuggled sends reserved headers behind the body.
func TestTrailersCannotBeSmuggled(t *testing.T) {
	h := startHub(t, nil)
	h.access.grant("ada", "demo")
	seen := make(chan http.Header, 1)
	h.agent("demo", func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		seen <- r.Trailer
	})
	raw(t, h, "POST /clusters/demo/api HTTP/1.1\r\nHost: hub\r\nAuthorization: Bearer "+h.user("ada")+"\r\n"+
		"Transfer-Encoding: chunked\r\nTrailer: Impersonate-User\r\n\r\n1\r\nx\r\n0\r\nImpersonate-User: root\r\n\r\n")
	if got := <-seen; len(got) != 0 {
		t.Errorf("got trailers %v, want none", got)
	}
}

// raw sends bytes and returns the response.
func raw(tb testing.TB, h *hub, request string) *http.Response {
	tb.Helper()
	conn, err := net.Dial("tcp", h.addr)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close() })
	if _, err := io.WriteString(conn, request); err != nil {
		tb.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		tb.Fatal(err)
	}
	return res
}

func TestDotSegmentsAreRefused(t *testing.T) {
	h := startHub(t, nil)
	h.access.grant("ada", "demo")
	h.agent("demo", echo)
	for _, path := range []string{
		"/../leat.agent.v1.AgentService/Diff", "/api/../x", "/%2e%2e/x", "/api/%2E%2e%2fx", "/./x", "/api/..", `/..\x`,
	} {
		got := ask(t, client(t, false), http.MethodGet, "http://"+h.addr+"/clusters/demo", path, h.user("ada"), "")
		if got.Status != http.StatusBadRequest || !strings.Contains(got.Body, `"kind":"Status"`) {
			t.Errorf("%s: got %d %s, want 400 with a Status", path, got.Status, got.Body)
		}
	}
}

func TestF36EarlyRefusalReachesTheCaller(t *testing.T) {
	t.Parallel()
	virtually(t, nil, func(t *testing.T, h *hub) {
		h.access.grant("ada", "demo")
		h.agent("demo", func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.ReadFull(r.Body, make([]byte, 1024))
			w.WriteHeader(http.StatusRequestEntityTooLarge)
			_, _ = io.WriteString(w, "too large")
		})
		for _, http2 := range []bool{false, true} {
			for name, body := range map[string]func() io.Reader{
				"100 MiB":             func() io.Reader { return io.LimitReader(zeros{}, 100<<20) },
				"1 KiB, then nothing": func() io.Reader { return kilobyteThenNothing(t) },
			} {
				req := h.request(t.Context(), http.MethodPost, "ada", "demo", "/api", body())
				began := time.Now()
				res, text := h.do(h.client(http2), req)
				if res.StatusCode != http.StatusRequestEntityTooLarge || text != "too large" {
					t.Errorf("http2=%v %s: got %d %q, want 413", http2, name, res.StatusCode, text)
				}
				if took := time.Since(began); took > 0 {
					t.Errorf("http2=%v %s: took %v, want an answer before the hub gives the rest of the body up", http2, name, took)
				}
			}
		}
	})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// kilobyteThenNothing gives 1 KiB and then blocks until the test ends.
func kilobyteThenNothing(tb testing.TB) io.Reader {
	tb.Helper()
	body, source := io.Pipe()
	tb.Cleanup(func() { _ = source.Close() })
	go func() { _, _ = source.Write(make([]byte, 1024)) }()
	return body
}

func TestF45ClustersWithEqualPrefixesAreNotConfused(t *testing.T) {
	h := startHub(t, nil)
	names := []string{
		"production-europe-west-cluster-number-0001", "production-europe-west-cluster-number-0002",
		"production-europe-west-cluster-number-000",
	}
	for _, name := range names {
		h.access.grant("ada", name)
		h.agent(name, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, name) })
	}
	c := client(t, true)
	for range 20 {
		for _, name := range names {
			if status, body := h.get(c, "ada", name, "/"); status != 200 || body != name {
				t.Fatalf("got %d %q, want %q", status, body, name)
			}
		}
	}
	if got := len(h.sessions()); got != len(names) {
		t.Errorf("got %d sessions, want %d", got, len(names))
	}
}
