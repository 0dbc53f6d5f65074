// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2_test

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// seen has a handler hand over the requests that it gets.
func seen() (http.HandlerFunc, <-chan *http.Request) {
	requests := make(chan *http.Request, 1)
	return func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/alive" {
			requests <- r
		}
	}, requests
}

func TestConformanceMethods(t *testing.T) {
	conform(t, func(t *testing.T, p pairing) {
		handler, requests := seen()
		r := p.connect(t, handler, options{})
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND", "lower"} {
			res := r.do(t, r.request(t, method, "/a", nil))
			want(t, method+": status", res.StatusCode, http.StatusOK)
			want(t, "method", receive(t, method, requests).Method, method)
		}
		req := r.request(t, http.MethodGet, "/a", nil)
		req.Method = ""
		_ = r.do(t, req)
		want(t, "no method", receive(t, "no method", requests).Method, http.MethodGet)
	})
}

func TestConformanceWhatARequestIs(t *testing.T) {
	conform(t, func(t *testing.T, p pairing) {
		handler, requests := seen()
		r := p.connect(t, handler, options{})
		res := r.get(t, "/a?b", http.StatusOK)
		want(t, "answer: protocol", res.Proto, "HTTP/2.0")
		want(t, "answer: major", res.ProtoMajor, 2)
		want(t, "answer: minor", res.ProtoMinor, 0)
		want(t, "answer: status", res.Status, "200 OK")
		want(t, "answer: path of its request", res.Request.URL.Path, "/a")
		want(t, "answer: TLS", res.TLS, nil)
		req := receive(t, "request", requests)
		want(t, "protocol", req.Proto, "HTTP/2.0")
		want(t, "major", req.ProtoMajor, 2)
		want(t, "minor", req.ProtoMinor, 0)
		want(t, "remote address", req.RemoteAddr, r.farther.RemoteAddr().String())
		want(t, "TLS", req.TLS, nil)
		want(t, "URL's host", req.URL.Host, "")
		want(t, "URL's scheme", req.URL.Scheme, "")
		want(t, "length", req.ContentLength, 0)
		want(t, "server in the context", req.Context().Value(http.ServerContextKey) != nil, true)
		want(t, "address in the context", req.Context().Value(http.LocalAddrContextKey), any(r.farther.LocalAddr()))
		for name := range req.Header {
			if strings.HasPrefix(name, ":") || name == "Host" {
				t.Errorf("header %s is there", name)
			}
		}
	})
}

// TestConformancePaths has every target arrive byte for byte.
func TestConformancePaths(t *testing.T) {
	conform(t, func(t *testing.T, p pairing) {
		handler, requests := seen()
		r := p.connect(t, handler, options{})
		for _, target := range []string{
			"/", "/a/b", "/a%2Fb", "/a%2fb", "//", "//two//slashes", "/?", "/a?", "/a?b=c&b=d&b", "/a?b?c", "/%E4%BD%A0", "/a;b=c;d", "/a+b%20c",
			"/a/../b/./c", "/a?q=%zz&x=;y", "/~u!$&'()*+,;=:@", "/a%00b", "/a%25b", "/a?%2F/", "/api/v1/pods?labelSelector=a%3Db%2Cc&watch=true",
			"/" + strings.Repeat("long", 4000),
		} {
			req := r.request(t, http.MethodGet, target, nil)
			_ = r.do(t, req)
			got := receive(t, target, requests)
			want(t, "target", got.RequestURI, target)
			parsed, err := url.ParseRequestURI(target)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(parsed, got.URL); diff != "" {
				t.Errorf("%s: URL (-want +got):\n%s", target, diff)
			}
		}
		for name, test := range map[string]struct {
			method string
			url    url.URL
			want   string
		}{
			"empty":            {"GET", url.URL{}, "/"},
			"query alone":      {"GET", url.URL{RawQuery: "a=b"}, "/?a=b"},
			"raw path":         {"GET", url.URL{Path: "/a/b", RawPath: "/a%2Fb"}, "/a%2Fb"},
			"to be escaped":    {"GET", url.URL{Path: "/a b?c"}, "/a%20b%3Fc"},
			"opaque":           {"GET", url.URL{Opaque: "/x%2fy"}, "/x%2fy"},
			"opaque with host": {"GET", url.URL{Opaque: "//cluster.example/x%2fy"}, "/x%2fy"},
			"opaque and query": {"GET", url.URL{Opaque: "/x%2fy", RawQuery: "z"}, "/x%2fy?z"},
		} {
			req := r.request(t, test.method, "/", nil)
			test.url.Scheme, test.url.Host = req.URL.Scheme, req.URL.Host
			req.URL = &test.url
			_ = r.do(t, req)
			want(t, name, receive(t, name, requests).RequestURI, test.want)
		}
		star := r.request(t, http.MethodOptions, "/", nil)
		star.URL = &url.URL{Scheme: star.URL.Scheme, Host: star.URL.Host, Path: "*"}
		_ = r.do(t, star) // net/http's server answers it by itself
		for name, bad := range map[string]url.URL{"no slash": {Opaque: "x"}, "elsewhere": {Opaque: "//other.example/x"}} {
			req := r.request(t, http.MethodGet, "/", nil)
			bad.Scheme, bad.Host = req.URL.Scheme, req.URL.Host
			req.URL = &bad
			if _, err := r.client.RoundTrip(req); err == nil {
				t.Errorf("%s: was sent as %q, want an error", name, receive(t, name, requests).RequestURI)
			}
		}
		r.alive(t)
	})
}

func TestConformanceAuthority(t *testing.T) {
	conform(t, func(t *testing.T, p pairing) {
		handler, requests := seen()
		r := p.connect(t, handler, options{})
		for _, test := range []struct{ scheme, url, host, want string }{
			{"http", "a.example", "", "a.example"},
			{"https", "a.example", "", "a.example"},
			{"http", "a.example:8080", "", "a.example:8080"},
			{"http", "a.example", "b.example:99", "b.example:99"},
			{"http", "[::1]:80", "", "[::1]:80"},
			{"http", "bücher.example", "", "xn--bcher-kva.example"},
		} {
			req := r.request(t, http.MethodGet, "/", nil)
			u, err := url.Parse(test.scheme + "://" + test.url + "/")
			if err != nil {
				t.Fatal(err)
			}
			req.URL, req.Host = u, test.host
			_ = r.do(t, req)
			want(t, test.url+" "+test.host, receive(t, test.url, requests).Host, test.want)
		}
		req := r.request(t, http.MethodGet, "/", nil)
		req.Header.Set("Host", "header.example") // net/http ignores it
		_ = r.do(t, req)
		got := receive(t, "header", requests)
		want(t, "host beside a header", got.Host, "cluster.example")
		wantList(t, "header", got.Header["Host"])
	})
}

func TestConformanceRequestHeaders(t *testing.T) {
	conform(t, func(t *testing.T, p pairing) {
		handler, requests := seen()
		r := p.connect(t, handler, options{})
		many := http.Header{}
		for i := range 500 {
			many.Set(fmt.Sprintf("X-Many-%d", i), strings.Repeat("v", i%50))
		}
		for name, test := range map[string]struct{ sent, want http.Header }{
			"one":            {http.Header{"X-A": {"b"}}, nil},
			"several":        {http.Header{"Impersonate-Group": {"c", "a", "b", "a"}}, nil},
			"empty":          {http.Header{"X-Empty": {""}, "X-Empties": {"", "a", ""}}, nil},
			"no value":       {http.Header{"X-None": {}}, http.Header{}},
			"commas":         {http.Header{"Accept": {"a, b", "c;q=0.1,d"}}, nil},
			"bytes":          {http.Header{"X-Bytes": {"ä\xff\x80 \t~"}}, nil},
			"odd case":       {http.Header{"x-lower": {"a"}, "X-UPPER": {"b"}}, http.Header{"X-Lower": {"a"}, "X-Upper": {"b"}}},
			"odd characters": {http.Header{"X_a!#$%&'*+.^`|~": {"a"}}, nil},
			"large":          {http.Header{"X-Large": {strings.Repeat("x", 60000)}}, nil},
			"many":           {many, nil},
			"known":          {http.Header{"Authorization": {"Bearer a"}, "Range": {"bytes=0-"}, "Accept-Encoding": {"gzip"}, "If-None-Match": {`"a"`}}, nil},
			"forwarded":      {http.Header{"X-Forwarded-For": {"1.2.3.4"}, "Via": {"1.1 a"}, "Traceparent": {"00-a"}}, nil},
			"te":             {http.Header{"Te": {"trailers"}}, nil},
			"one cookie":     {http.Header{"Cookie": {"a=1"}}, nil},
			"cookies":        {http.Header{"Cookie": {"a=1; b=2; c=3"}}, nil},
			"more cookies":   {http.Header{"Cookie": {"a=1; b=2", "c=3"}}, http.Header{"Cookie": {"a=1; b=2; c=3"}}},
			"an agent":       {http.Header{"User-Agent": {"kubectl/v1"}}, nil},
			"no agent":       {http.Header{"User-Agent": {""}}, http.Header{}},
			"nil agent":      {http.Header{"User-Agent": nil}, nil},
		} {
			req := r.request(t, http.MethodGet, "/", nil)
			req.Header = test.sent.Clone()
			if _, agent := req.Header["User-Agent"]; !agent {
				req.Header.Set("User-Agent", "")
			}
			_ = r.do(t, req)
			got := receive(t, name, requests).Header
			expected := test.want
			switch {
			case name == "nil agent":
				if agents := got["User-Agent"]; len(agents) > 1 || len(agents) == 1 && agents[0] == "" {
					t.Errorf("nil agent: got %q, want one that says something, or none", agents)
				}
				continue
			case expected == nil:
				expected = http.Header{}
				for k, v := range test.sent {
					expected[http.CanonicalHeaderKey(k)] = v
				}
			}
			if diff := cmp.Diff(expected, got); diff != "" {
				t.Errorf("%s (-want +got):\n%.2000s", name, diff)
			}
		}
		r.alive(t)
	})
}

// TestConformanceHeadersAreCompressed sends what fits the table and what does not, again and again:
// both sides' tables stay the same.
func TestConformanceHeadersAreCompressed(t *testing.T) {
	conform(t, func(t *testing.T, p pairing) {
		r := p.connect(t, func(w http.ResponseWriter, r *http.Request) {
			for name, values := range r.Header {
				if strings.HasPrefix(name, "X-") {
					w.Header()[name] = values
				}
			}
		}, options{})
		for i := range 300 {
			req := r.request(t, http.MethodGet, "/", nil)
			for j := range i % 20 {
				req.Header.Set(fmt.Sprintf("X-%d", j), strings.Repeat(string(rune('a'+(i*j)%26)), (i*j)%700))
			}
			req.Header.Set("X-Turn", fmt.Sprint(i))
			res := r.do(t, req)
			for name, values := range req.Header {
				wantList(t, fmt.Sprint(name, " in turn ", i), res.Header[name], values...)
			}
		}
	})
}

// TestConformanceConnectionHeaders keeps HTTP/1.1's connection headers out of HTTP/2.
func TestConformanceConnectionHeaders(t *testing.T) {
	conform(t, func(t *testing.T, p pairing) {
		handler, requests := seen()
		r := p.connect(t, handler, options{})
		for name, values := range map[string][]string{
			"Connection": {"keep-alive"}, "Keep-Alive": {"timeout=5"}, "Proxy-Connection": {"keep-alive"}, "Transfer-Encoding": {"chunked"},
		} {
			req := r.request(t, http.MethodGet, "/", nil)
			req.Header[name] = values
			_ = r.do(t, req)
			wantList(t, name, receive(t, name, requests).Header[name])
		}
		for name, value := range map[string]string{"Upgrade": "websocket", "Connection": "Upgrade", "Transfer-Encoding": "gzip"} {
			req := r.request(t, http.MethodGet, "/", nil)
			req.Header.Set(name, value)
			if res, err := r.client.RoundTrip(req); err == nil {
				t.Errorf("%s: %s: got %s, want an error", name, value, res.Status)
			}
		}
		r.alive(t)
	})
}

func TestConformanceInvalidRequestHeaders(t *testing.T) {
	conform(t, func(t *testing.T, p pairing) {
		handler, requests := seen()
		r := p.connect(t, handler, options{})
		for name, header := range map[string]http.Header{
			"line break": {"X-A": {"a\nb"}}, "return": {"X-A": {"a\rX-B: c"}}, "zero": {"X-A": {"a\x00"}},
			"space in the name": {"X A": {"b"}}, "colon": {":path": {"/other"}}, "empty name": {"": {"b"}}, "name beyond ASCII": {"X-Ä": {"b"}},
		} {
			req := r.request(t, http.MethodGet, "/", nil)
			req.Header = header
			if _, err := r.client.RoundTrip(req); err == nil {
				t.Errorf("%s: went through as %q, want an error", name, receive(t, name, requests).Header)
			}
		}
		r.alive(t)
	})
}

// TestConformanceLargeHeaders has headers up to the limit pass, and those above it fail without
// harm to others.
func TestConformanceLargeHeaders(t *testing.T) {
	conform(t, func(t *testing.T, p pairing) {
		const limit, pieces = 64 << 10, 8 << 10
		r := p.connect(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/large" {
				for i := range limit/pieces + 1 {
					w.Header().Set(fmt.Sprint("X-Large-", i), strings.Repeat("x", pieces))
				}
			}
		}, options{maxHeader: limit})
		r.alive(t) // the client knows the server's limit
		for range 3 {
			req := r.request(t, http.MethodGet, "/", nil)
			req.Header.Set("X-Large", strings.Repeat("x", limit+8<<10))
			res, err := r.client.RoundTrip(req)
			if err == nil && res.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
				t.Errorf("request: got %s, want an error or 431", res.Status)
			}
			r.alive(t)
			if res, err := r.client.RoundTrip(r.request(t, http.MethodGet, "/large", nil)); err == nil {
				t.Errorf("answer: got %s with %d headers, want an error", res.Status, len(res.Header))
			}
			r.alive(t)
		}
	})
}

// TestConformanceRequestLength has the handler know as much about a body's length as the client.
func TestConformanceRequestLength(t *testing.T) {
	conform(t, func(t *testing.T, p pairing) {
		type body struct {
			length int64
			text   string
			err    error
		}
		bodies := make(chan body, 1)
		r := p.connect(t, func(_ http.ResponseWriter, r *http.Request) {
			text, err := io.ReadAll(r.Body)
			bodies <- body{r.ContentLength, string(text), err}
		}, options{})
		unknown := func(s string) io.Reader { return io.MultiReader(strings.NewReader(s)) }
		for name, test := range map[string]struct {
			body   io.Reader
			length int64
			want   int64
		}{
			"none":              {nil, 0, 0},
			"explicitly none":   {http.NoBody, 0, 0},
			"known":             {strings.NewReader("hello"), 5, 5},
			"unknown":           {unknown("hello"), -1, -1},
			"unknown by zero":   {unknown("hello"), 0, -1},
			"unknown and empty": {unknown(""), -1, -1},
		} {
			req := r.request(t, http.MethodPost, "/", test.body)
			req.ContentLength = test.length
			_ = r.do(t, req)
			got := receive(t, name, bodies)
			if name == "unknown and empty" && got.length == 0 {
				continue // what has ended with its head is known
			}
			want(t, name+": length", got.length, test.want)
			want(t, name+": error", got.err, nil)
			if test.want != 0 && name != "unknown and empty" {
				want(t, name+": body", got.text, "hello")
			}
		}
	})
}

// TestConformanceRequestLengthIsWrong has neither side believe in a body that is not as long as
// announced.
func TestConformanceRequestLengthIsWrong(t *testing.T) {
	conform(t, func(t *testing.T, p pairing) {
		read := make(chan error, 1)
		r := p.connect(t, func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/alive" {
				return
			}
			_, err := io.Copy(io.Discard, r.Body)
			read <- err
		}, options{})
		for _, length := range []int64{4, 6} {
			req := r.request(t, http.MethodPost, "/", io.MultiReader(strings.NewReader("hello")))
			req.ContentLength = length
			res, err := r.client.RoundTrip(req)
			if err == nil && length < 5 {
				t.Errorf("%d for 5 bytes: the client got %s, want an error", length, res.Status)
			}
			if length < 5 || p.client.name != wellKnown.name { // x/net's client leaves a server that takes it at its word
				r.alive(t)
			}
			select { // a client that knows before it sends anything sends nothing
			case err := <-read:
				if err == nil {
					t.Errorf("%d for 5 bytes: the handler has read it to its end, want an error", length)
				}
			default:
			}
		}
	})
}

// TestConformanceRequestBodyFails has the handler not take a part for the whole.
func TestConformanceRequestBodyFails(t *testing.T) {
	conform(t, func(t *testing.T, p pairing) {
		read := make(chan error, 1)
		r := p.connect(t, func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/alive" {
				return
			}
			_, err := io.Copy(io.Discard, r.Body)
			read <- err
		}, options{})
		first := true
		body := newReader(func(p []byte) (int, error) {
			if !first {
				return 0, io.ErrClosedPipe
			}
			first = false
			return copy(p, "hello"), nil
		})
		res, err := r.client.RoundTrip(r.request(t, http.MethodPost, "/", body))
		if err == nil {
			t.Errorf("got %s, want an error", res.Status)
		}
		if err := receive(t, "handler", read); err == nil {
			t.Error("the handler has read the body to its end, want an error")
		}
		_ = receive(t, "close", body.closed)
		r.alive(t)
	})
}

// TestConformanceRequestBodyIsClosed has a body closed whatever becomes of the request.
func TestConformanceRequestBodyIsClosed(t *testing.T) {
	conform(t, func(t *testing.T, p pairing) {
		r := p.connect(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }, options{})
		left := 10
		body := newReader(func(p []byte) (int, error) {
			if left == 0 {
				return 0, io.EOF
			}
			left--
			return min(len(p), 1000), nil
		})
		_ = r.do(t, r.request(t, http.MethodPost, "/", body))
		_ = receive(t, "complete", body.closed)

		body = newReader(noEnd)
		req := r.request(t, http.MethodPost, "/", body)
		req.Header.Set("X-Bad", "\n")
		if _, err := r.client.RoundTrip(req); err == nil {
			t.Error("invalid: got no error")
		}
		_ = receive(t, "invalid", body.closed)
	})
}
