// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestConformanceStatuses(t *testing.T) {
	conform(t, func(t *testing.T, p pairing) {
		r := p.connect(t, func(w http.ResponseWriter, r *http.Request) {
			status, err := strconv.Atoi(r.URL.Path[1:])
			if err != nil {
				t.Error(err)
			}
			w.WriteHeader(status)
		}, options{})
		for _, status := range []int{200, 201, 202, 206, 226, 299, 301, 302, 307, 400, 401, 403, 404, 409, 410, 418, 422, 429, 431, 500, 503, 504, 599, 999} {
			res := r.get(t, fmt.Sprint("/", status), status)
			want(t, "status", strings.TrimSpace(res.Status), strings.TrimSpace(fmt.Sprint(status, " ", http.StatusText(status))))
			want(t, "length", res.ContentLength, 0)
			want(t, "body", text(t, res.Body), "")
		}
	})
}

// TestConformanceAnswersWithoutABody has the answers to HEAD, and answers without a body by their
// status, declare any length.
func TestConformanceAnswersWithoutABody(t *testing.T) {
	conform(t, func(t *testing.T, p pairing) {
		written := make(chan error, 1)
		r := p.connect(t, func(w http.ResponseWriter, r *http.Request) {
			status, _ := strconv.Atoi(r.URL.Query().Get("status"))
			if length := r.URL.Query().Get("length"); length != "" {
				w.Header().Set("Content-Length", length)
			}
			w.Header().Set("Etag", `"a"`)
			w.WriteHeader(status)
			_, err := io.WriteString(w, r.URL.Query().Get("write"))
			written <- err
		}, options{})
		for _, test := range []struct {
			method, query string
			status        int
			length        string
			err           error
		}{
			{"HEAD", "status=200&length=1234", 200, "1234", nil},
			{"HEAD", "status=200&length=1234&write=hello", 200, "1234", nil},
			{"HEAD", "status=404&length=0", 404, "0", nil},
			{"GET", "status=204", 204, "", nil},
			{"GET", "status=204&write=hello", 204, "", http.ErrBodyNotAllowed},
			{"GET", "status=304", 304, "", nil},
			{"GET", "status=304&length=1234", 304, "1234", nil},
			{"GET", "status=304&write=hello", 304, "", http.ErrBodyNotAllowed},
			{"DELETE", "status=204", 204, "", nil},
		} {
			res := r.do(t, r.request(t, test.method, "/?"+test.query, nil))
			what := test.method + " " + test.query
			want(t, what+": status", res.StatusCode, test.status)
			want(t, what+": Content-Length", res.Header.Get("Content-Length"), test.length)
			if test.status != http.StatusNotModified || test.length == "" || p.client.name != wellKnown.name {
				want(t, what+": body", text(t, res.Body), "") // x/net's client misses the body of a 304 that declares its length
			}
			want(t, what+": etag", res.Header.Get("Etag"), `"a"`)
			if err := receive(t, what, written); !errors.Is(err, test.err) && strings.Contains(test.query, "write") {
				t.Errorf("%s: writing: got %v, want %v", what, err, test.err)
			}
			if test.length != "" && test.method == http.MethodHead {
				want(t, what+": length", fmt.Sprint(res.ContentLength), test.length)
			}
		}
	})
}

// TestConformanceAnswerLength has the client know as much about a body's length as the handler.
func TestConformanceAnswerLength(t *testing.T) {
	conform(t, func(t *testing.T, p pairing) {
		handlers := map[string]struct {
			handle func(w http.ResponseWriter)
			length int64
			size   int
		}{
			"announced":    {func(w http.ResponseWriter) { w.Header().Set("Content-Length", "5"); _, _ = io.WriteString(w, "hello") }, 5, 5},
			"small":        {func(w http.ResponseWriter) { _, _ = io.WriteString(w, "hello") }, 5, 5},
			"small, twice": {func(w http.ResponseWriter) { _, _ = io.WriteString(w, "hel"); _, _ = io.WriteString(w, "lo") }, 5, 5},
			"none":         {func(http.ResponseWriter) {}, 0, 0},
			"a status":     {func(w http.ResponseWriter) { w.WriteHeader(http.StatusOK) }, 0, 0},
			"flushed": {func(w http.ResponseWriter) {
				_ = http.NewResponseController(w).Flush()
				_, _ = io.WriteString(w, "hello")
			}, -1, 5},
			"written, flush": {func(w http.ResponseWriter) {
				_, _ = io.WriteString(w, "hello")
				_ = http.NewResponseController(w).Flush()
			}, -1, 5},
			"large": {func(w http.ResponseWriter) { _, _ = w.Write(make([]byte, 1<<20)) }, -1, 1 << 20},
			"large announced": {func(w http.ResponseWriter) {
				w.Header().Set("Content-Length", "1048576")
				_, _ = w.Write(make([]byte, 1<<20))
			}, 1 << 20, 1 << 20},
		}
		r := p.connect(t, func(w http.ResponseWriter, r *http.Request) { handlers[r.URL.Query().Get("case")].handle(w) }, options{})
		for name, test := range handlers {
			res := r.get(t, "/?case="+strings.ReplaceAll(name, " ", "+"), http.StatusOK)
			want(t, name+": length", res.ContentLength, test.length)
			want(t, name+": size", len(text(t, res.Body)), test.size)
			n, err := res.Body.Read(make([]byte, 1))
			want(t, name+": read behind the end", fmt.Sprint(n, err), "0 EOF")
		}
	})
}

// TestConformanceAnswerLengthIsWrong has the client not believe in a body that is not as long as
// announced.
func TestConformanceAnswerLengthIsWrong(t *testing.T) {
	conform(t, func(t *testing.T, p pairing) {
		written := make(chan error, 1)
		r := p.connect(t, func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/short":
				w.Header().Set("Content-Length", "10")
				_, _ = io.WriteString(w, "hello")
			case "/empty":
				w.Header().Set("Content-Length", "10")
			case "/long":
				w.Header().Set("Content-Length", "5")
				_, err := io.WriteString(w, "hello, world")
				written <- err // bytes that fit its buffer the server may read later
			case "/longer":
				w.Header().Set("Content-Length", "5")
				_, _ = io.WriteString(w, "hello")
				_ = http.NewResponseController(w).Flush()
				_, err := io.WriteString(w, ", world")
				written <- err
			}
		}, options{})
		for _, path := range []string{"/short", "/empty"} {
			res, err := r.client.RoundTrip(r.request(t, http.MethodGet, path, nil))
			if err == nil {
				wantCut(t, path, res.Body)
			}
			r.alive(t)
		}
		for _, path := range []string{"/long", "/longer"} {
			res, err := r.client.RoundTrip(r.request(t, http.MethodGet, path, nil))
			if err == nil { // what fits may arrive, nothing else
				if all, err := io.ReadAll(res.Body); err == nil && string(all) != "hello" && path == "/longer" || len(all) > 5 {
					t.Errorf("%s: got %q, %v, want at most what was announced", path, all, err)
				}
			}
			if err := receive(t, path, written); err == nil && path == "/longer" {
				t.Errorf("%s: writing: got no error", path)
			}
			r.alive(t)
		}
	})
}

// TestConformanceAnswerHeaders has them arrive as they were set.
func TestConformanceAnswerHeaders(t *testing.T) {
	conform(t, func(t *testing.T, p pairing) {
		many := http.Header{}
		for i := range 500 {
			many.Set(fmt.Sprintf("X-Many-%d", i), strings.Repeat("v", i%50))
		}
		for name, test := range map[string]struct{ set, want http.Header }{
			"one":      {http.Header{"X-A": {"b"}}, nil},
			"several":  {http.Header{"Warning": {`299 - "b"`, `299 - "a"`}, "Vary": {"a", "b, c"}}, nil},
			"cookies":  {http.Header{"Set-Cookie": {"a=1; Path=/", "b=2", "a=3"}}, nil},
			"empty":    {http.Header{"X-Empty": {""}, "X-Empties": {"", "a", ""}}, nil},
			"odd case": {http.Header{"x-lower": {"a"}, "X-UPPER": {"b"}}, http.Header{"X-Lower": {"a"}, "X-Upper": {"b"}}},
			"bytes":    {http.Header{"X-Bytes": {"ä\xff\x80 ~"}}, nil},
			"large":    {http.Header{"X-Large": {strings.Repeat("x", 60000)}}, nil},
			"many":     {many, nil},
			"known":    {http.Header{"Www-Authenticate": {"Bearer"}, "Location": {"/a b"}, "Retry-After": {"1"}, "Content-Encoding": {"gzip"}}, nil},
			"hops": {
				http.Header{"Connection": {"keep-alive"}, "Transfer-Encoding": {"chunked"}, "X-A": {"b"}},
				http.Header{"X-A": {"b"}},
			},
		} {
			r := p.connect(t, func(w http.ResponseWriter, _ *http.Request) {
				header := w.Header()
				for k, v := range test.set {
					header[k] = v
				}
				header["Date"], header["Content-Type"] = nil, nil
			}, options{})
			res := r.get(t, "/", http.StatusOK)
			expected := test.want
			if expected == nil {
				expected = test.set.Clone()
			}
			expected.Set("Content-Length", "0")
			if diff := cmp.Diff(expected, res.Header); diff != "" {
				t.Errorf("%s (-want +got):\n%.2000s", name, diff)
			}
		}
	})
}

// TestConformanceWhatTheServerAdds has it guess what the handler leaves open, and leave alone what
// it forbids.
func TestConformanceWhatTheServerAdds(t *testing.T) {
	conform(t, func(t *testing.T, p pairing) {
		r := p.connect(t, func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/nil":
				w.Header()["Content-Type"], w.Header()["Date"] = nil, nil
			case "/own":
				w.Header().Set("Content-Type", "a/b")
				w.Header().Set("Date", "today")
			case "/encoded":
				w.Header().Set("Content-Encoding", "gzip")
			}
			_, _ = io.WriteString(w, "<html></html>")
			w.Header().Set("X-Late", "too late")
		}, options{})
		header := r.get(t, "/guess", http.StatusOK).Header
		want(t, "guessed type", header.Get("Content-Type"), "text/html; charset=utf-8")
		if _, err := http.ParseTime(header.Get("Date")); err != nil {
			t.Errorf("date: %v", err)
		}
		header = r.get(t, "/nil", http.StatusOK).Header
		want(t, "type of its own", len(header["Content-Type"]), 0)
		want(t, "date of its own", len(header["Date"]), 0)
		header = r.get(t, "/own", http.StatusOK).Header
		wantList(t, "type", header["Content-Type"], "a/b")
		wantList(t, "date", header["Date"], "today")
		want(t, "type of what is encoded", len(r.get(t, "/encoded", http.StatusOK).Header["Content-Type"]), 0)
	})
}

// TestConformanceHeaderIsSettled has a handler not change what it has sent.
func TestConformanceHeaderIsSettled(t *testing.T) {
	conform(t, func(t *testing.T, p pairing) {
		r := p.connect(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-A", "early")
			w.WriteHeader(http.StatusAccepted)
			w.Header().Set("X-A", "late")
			w.Header().Set("X-B", "late")
			w.WriteHeader(http.StatusTeapot)
			_, _ = io.WriteString(w, "hello")
		}, options{})
		res := r.get(t, "/", http.StatusAccepted)
		wantList(t, "header", res.Header["X-A"], "early")
		wantList(t, "late header", res.Header["X-B"])
		want(t, "body", text(t, res.Body), "hello")
	})
}

func TestConformanceAnswerTrailers(t *testing.T) {
	conform(t, func(t *testing.T, p pairing) {
		r := p.connect(t, func(w http.ResponseWriter, r *http.Request) {
			size, err := strconv.Atoi(r.URL.Query().Get("size"))
			if err != nil {
				t.Error(err)
			}
			w.Header().Set("Trailer", "X-Sum, X-Never")
			w.Header().Add("Trailer", "X-Two, X-Marked, X-Both")
			if r.URL.Query().Get("length") != "" {
				w.Header().Set("Content-Length", r.URL.Query().Get("size"))
			}
			w.WriteHeader(http.StatusOK)
			_, _ = w.Write(bytes.Repeat([]byte("x"), size))
			if r.URL.Query().Get("flush") != "" {
				_ = http.NewResponseController(w).Flush()
			}
			w.Header().Set("X-Sum", "abc")
			w.Header()["X-Two"] = []string{"1", "2"}
			w.Header().Set("X-Other", "not announced")
			w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
			w.Header().Set(http.TrailerPrefix+"X-Marked", "too")
			w.Header().Set("X-Both", "no")
			w.Header().Set(http.TrailerPrefix+"X-Both", "yes")
		}, options{})
		for _, query := range []string{"size=0", "size=0&flush=1", "size=1", "size=1&flush=1", "size=5&length=1", "size=1000000"} {
			res := r.get(t, "/?"+query, http.StatusOK)
			var announced []string
			for name := range res.Trailer {
				announced = append(announced, name)
			}
			slices.Sort(announced)
			if !strings.Contains(query, "size=0") {
				wantList(t, query+": announced", announced, "X-Both", "X-Marked", "X-Never", "X-Sum", "X-Two")
			}
			_ = text(t, res.Body)
			wantList(t, query+": X-Sum", res.Trailer["X-Sum"], "abc")
			wantList(t, query+": X-Two", res.Trailer["X-Two"], "1", "2")
			wantList(t, query+": Grpc-Status", res.Trailer["Grpc-Status"], "0")
			wantList(t, query+": X-Marked", res.Trailer["X-Marked"], "too")
			wantList(t, query+": X-Both", res.Trailer["X-Both"], "yes")
			wantList(t, query+": X-Never", res.Trailer["X-Never"])
			wantList(t, query+": X-Other", res.Trailer["X-Other"])
			wantList(t, query+": X-Sum among the headers", res.Header["X-Sum"])
		}
	})
}

// TestConformanceInformationalAnswers has them arrive before the answer, with their own headers.
func TestConformanceInformationalAnswers(t *testing.T) {
	conform(t, func(t *testing.T, p pairing) {
		proceed := make(chan struct{})
		r := p.connect(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Link", "</a>")
			w.WriteHeader(http.StatusEarlyHints)
			if r.URL.Path == "/refused" {
				// The header stays as it is from here on: net/http's server may read it still when
				// the client has reset the stream.
				<-r.Context().Done()
				return
			}
			<-proceed
			w.Header().Add("Link", "</b>")
			w.WriteHeader(http.StatusEarlyHints)
			w.Header().Del("Link")
			w.WriteHeader(http.StatusProcessing)
			w.Header().Set("X-A", "b")
			w.WriteHeader(http.StatusOK)
			_, _ = io.WriteString(w, "hello")
		}, options{})
		var got []string
		req := r.request(t, http.MethodGet, "/", nil)
		req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
			Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
				got = append(got, fmt.Sprint(code, " ", header["Link"]))
				if len(got) == 1 {
					close(proceed)
				}
				return nil
			},
		}))
		res := r.do(t, req)
		want(t, "status", res.StatusCode, http.StatusOK)
		want(t, "header", res.Header.Get("X-A"), "b")
		want(t, "header of others", len(res.Header["Link"]), 0)
		want(t, "body", text(t, res.Body), "hello")
		wantList(t, "informational answers", got, "103 [</a>]", "103 [</a> </b>]", "102 []")

		refusal := errors.New("no more of this")
		req = r.request(t, http.MethodGet, "/refused", nil)
		req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
			Got1xxResponse: func(int, textproto.MIMEHeader) error { return refusal },
		}))
		if res, err := r.client.RoundTrip(req); err == nil {
			t.Errorf("got %s, want the trace's error", res.Status)
		}
	})
}

// TestConformanceContinue has a body wait until the handler wants it.
func TestConformanceContinue(t *testing.T) {
	conform(t, func(t *testing.T, p pairing) {
		synctest.Test(t, func(t *testing.T) {
			asked := make(chan struct{}, 1)
			r := p.connectInMemory(t, func(w http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case "/read":
					time.Sleep(time.Second)
					asked <- struct{}{}
					body, err := io.ReadAll(r.Body)
					if err != nil {
						t.Error(err)
					}
					_, _ = w.Write(body)
				case "/refuse":
					w.WriteHeader(http.StatusExpectationFailed)
				case "/late":
					time.Sleep(2 * patience / 3)
					_, _ = io.Copy(w, r.Body)
				}
			}, options{continueTimeout: patience / 3})
			send := func(path string) (*http.Response, *bool, time.Duration) {
				read := new(bool)
				req := r.request(t, http.MethodPut, path, newReader(func(p []byte) (int, error) {
					if path == "/read" && !*read {
						select {
						case <-asked:
						default:
							t.Errorf("%s: the body was read before it was wanted", path)
						}
					}
					if *read {
						return 0, io.EOF
					}
					*read = true
					return copy(p, "hello"), nil
				}))
				req.ContentLength = 5
				req.Header.Set("Expect", "100-continue")
				began := time.Now()
				res := r.do(t, req)
				return res, read, time.Since(began)
			}
			res, read, took := send("/read")
			want(t, "read: status", res.StatusCode, http.StatusOK)
			want(t, "read: body", text(t, res.Body), "hello")
			want(t, "read: body was read", *read, true)
			want(t, "read: time", took, time.Second)

			res, read, took = send("/refuse")
			want(t, "refused: status", res.StatusCode, http.StatusExpectationFailed)
			want(t, "refused: body was read", *read, false)
			want(t, "refused: time", took, 0)
			_ = text(t, res.Body)

			res, read, took = send("/late")
			want(t, "late: status", res.StatusCode, http.StatusOK)
			want(t, "late: body", text(t, res.Body), "hello")
			want(t, "late: body was read", *read, true)
			want(t, "late: time", took, 2*patience/3)
		})
	})
}

// TestConformanceController has a handler's controls act as net/http documents them.
func TestConformanceController(t *testing.T) {
	conform(t, func(t *testing.T, p pairing) {
		r := p.connect(t, func(w http.ResponseWriter, _ *http.Request) {
			control := http.NewResponseController(w)
			want(t, "full duplex", control.EnableFullDuplex(), nil)
			want(t, "no read deadline", control.SetReadDeadline(time.Time{}), nil)
			want(t, "no write deadline", control.SetWriteDeadline(time.Time{}), nil)
			if _, _, err := control.Hijack(); !errors.Is(err, http.ErrNotSupported) {
				t.Errorf("hijack: got %v, want %v", err, http.ErrNotSupported)
			}
			if _, ok := w.(io.StringWriter); !ok {
				t.Error("writes no strings")
			}
			if _, ok := w.(http.Flusher); !ok {
				t.Error("does not flush")
			}
			want(t, "flush", control.Flush(), nil)
		}, options{})
		r.get(t, "/", http.StatusOK)
	})
}
