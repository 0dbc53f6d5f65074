// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// large is the size of a body that no window and no buffer holds.
const large = 32 << 20

// TestConformanceWatch has each event arrive before the next one happens.
func TestConformanceWatch(t *testing.T) {
	conform(t, func(t *testing.T, p pairing) {
		events := make(chan string)
		r := p.connect(t, func(w http.ResponseWriter, r *http.Request) {
			control := http.NewResponseController(w)
			want(t, "flush", control.Flush(), nil) // the head comes before the first event
			for event := range events {
				if _, err := io.WriteString(w, event); err != nil {
					t.Error(err)
				}
				want(t, "flush", control.Flush(), nil)
			}
		}, options{})
		res := r.get(t, "/", http.StatusOK)
		lines := bufio.NewReader(res.Body)
		for _, size := range []int{0, 1, 100, 5000, 40_000, 3} {
			event := strings.Repeat("x", size) + "\n"
			events <- event
			got, err := lines.ReadString('\n')
			if got != event || err != nil {
				t.Fatalf("got %d bytes, %v, want the event of %d", len(got), err, len(event))
			}
		}
		close(events)
		want(t, "rest", text(t, lines), "")
	})
}

// TestConformanceFullDuplex has both directions wait for each other in turn.
func TestConformanceFullDuplex(t *testing.T) {
	conform(t, func(t *testing.T, p pairing) {
		r := p.connect(t, func(w http.ResponseWriter, r *http.Request) {
			control := http.NewResponseController(w)
			_ = control.Flush()
			buf := make([]byte, 1<<10)
			for {
				n, err := r.Body.Read(buf)
				_, _ = w.Write(bytes.ToUpper(buf[:n]))
				_ = control.Flush()
				if err != nil {
					want(t, "end of the body", err, io.EOF)
					return
				}
			}
		}, options{})
		out, in := io.Pipe()
		res := r.do(t, r.request(t, http.MethodPost, "/", out))
		for i := range 200 {
			sent := fmt.Sprintf("turn %d", i)
			if _, err := io.WriteString(in, sent); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, len(sent))
			if _, err := io.ReadFull(res.Body, got); err != nil {
				t.Fatal(err)
			}
			want(t, "echo", string(got), strings.ToUpper(sent))
		}
		_ = in.Close()
		want(t, "rest", text(t, res.Body), "")
	})
}

// TestConformanceHalfClose has the answer begin when the upload has ended, and the upload continue
// when the answer has been half read.
func TestConformanceHalfClose(t *testing.T) {
	conform(t, func(t *testing.T, p pairing) {
		r := p.connect(t, func(w http.ResponseWriter, r *http.Request) {
			sum, _, err := sumOf(r.Body)
			if err != nil {
				t.Error(err)
			}
			_, _ = io.WriteString(w, sum)
		}, options{})
		data, sum := content(1, 3<<20+17)
		want(t, "sum", text(t, r.do(t, r.request(t, http.MethodPost, "/", bytes.NewReader(data))).Body), sum)
	})
}

// TestConformanceLargeBodies sends in both directions at once more than anything holds.
func TestConformanceLargeBodies(t *testing.T) {
	conform(t, func(t *testing.T, p pairing) {
		sums := make(chan string, 1)
		r := p.connect(t, func(w http.ResponseWriter, r *http.Request) {
			var sending sync.WaitGroup
			defer sending.Wait()
			sending.Go(func() {
				data, _ := content(2, large)
				if _, err := w.Write(data); err != nil {
					t.Errorf("write: %v", err)
				}
			})
			sum, _, err := sumOf(r.Body)
			if err != nil {
				t.Errorf("read: %v", err)
			}
			sums <- sum
		}, options{})
		data, up := content(1, large)
		_, down := content(2, large)
		res := r.do(t, r.request(t, http.MethodPost, "/", bytes.NewReader(data)))
		sum, size, err := sumOf(res.Body)
		want(t, "error", err, nil)
		want(t, "size", size, large)
		want(t, "answer", sum, down)
		want(t, "upload", receive(t, "upload", sums), up)
	})
}

// TestConformanceSmallFrames sends a body a few bytes at a time, each flushed.
func TestConformanceSmallFrames(t *testing.T) {
	conform(t, func(t *testing.T, p pairing) {
		data, sum := content(1, 20_000)
		r := p.connect(t, func(w http.ResponseWriter, r *http.Request) {
			got, _, err := sumOf(r.Body)
			if err != nil {
				t.Error(err)
			}
			want(t, "upload", got, sum)
			for rest := data; len(rest) > 0; {
				n := min(len(rest), rand.IntN(9)+1)
				_, _ = w.Write(rest[:n])
				rest = rest[n:]
				_ = http.NewResponseController(w).Flush()
			}
		}, options{})
		rest := data
		res := r.do(t, r.request(t, http.MethodPost, "/", newReader(func(p []byte) (int, error) {
			if len(rest) == 0 {
				return 0, io.EOF
			}
			n := copy(p[:min(len(p), rand.IntN(9)+1)], rest)
			rest = rest[n:]
			return n, nil
		})))
		got, _, err := sumOf(res.Body)
		want(t, "error", err, nil)
		want(t, "answer", got, sum)
	})
}

// TestConformanceManyStreams has all of them keep their bytes apart.
func TestConformanceManyStreams(t *testing.T) {
	conform(t, func(t *testing.T, p pairing) {
		r := p.connect(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Stream", r.Header.Get("X-Stream"))
			buf := make([]byte, 1+rand.IntN(64<<10))
			_, _ = io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{r.Body}, buf)
		}, options{})
		r.alive(t) // the client knows how many the server takes
		var streams sync.WaitGroup
		for i := range uint64(200) {
			streams.Go(func() {
				for turn := range uint64(3) {
					data, sum := content(i*3+turn, rand.IntN(100<<10))
					req := r.request(t, http.MethodPost, "/", bytes.NewReader(data))
					req.Header.Set("X-Stream", sum)
					res, err := r.client.RoundTrip(req)
					if err != nil {
						t.Error(err)
						return
					}
					got, size, err := sumOf(res.Body)
					_ = res.Body.Close()
					if err != nil || got != sum || res.Header.Get("X-Stream") != sum {
						t.Errorf("stream %d: got %d bytes, %v, want %d with the same sum", i, size, err, len(data))
					}
				}
			})
		}
		streams.Wait()
	})
}

// TestConformanceOneAfterAnother has a client use the server's only place again as soon as it sees
// the end of an answer.
func TestConformanceOneAfterAnother(t *testing.T) {
	conform(t, func(t *testing.T, p pairing) {
		r := p.connect(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/body" {
				_, _ = io.WriteString(w, "body")
			}
		}, options{maxStreams: 1})
		r.alive(t) // the client knows the server's limit
		for i := range 500 {
			res, err := r.client.RoundTrip(r.request(t, http.MethodGet, []string{"/", "/body"}[i%2], nil))
			if err != nil {
				t.Fatalf("request %d: %v", i, err)
			}
			if _, err := io.Copy(io.Discard, res.Body); err != nil {
				t.Fatalf("answer %d: %v", i, err)
			}
			_ = res.Body.Close()
		}
	})
}

// TestConformanceMoreThanTheServerTakes has requests above the server's limit wait, or fail, and
// never begin.
func TestConformanceMoreThanTheServerTakes(t *testing.T) {
	conform(t, func(t *testing.T, p pairing) {
		const limit = 5
		var running, most atomic.Int64
		begun, proceed := make(chan struct{}, 5*limit), make(chan struct{})
		r := p.connect(t, func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/alive" {
				return
			}
			if now := running.Add(1); now > most.Load() {
				most.Store(now)
			}
			defer running.Add(-1)
			begun <- struct{}{}
			<-proceed
		}, options{maxStreams: limit})
		r.alive(t) // the client knows the server's limit
		answers := make(chan error, 5*limit)
		ask := func() {
			res, err := r.client.RoundTrip(r.request(t, http.MethodGet, "/", nil))
			if err == nil {
				_ = res.Body.Close()
			}
			answers <- err
		}
		for range limit {
			go ask()
		}
		for range limit {
			_ = receive(t, "request", begun)
		}
		for range 4 * limit {
			go ask()
		}
		close(proceed)
		failed := 0
		for range 5 * limit {
			if err := receive(t, "answer", answers); err != nil {
				failed++
			}
		}
		if failed > 4*limit {
			t.Errorf("%d requests failed, want at most those above the limit", failed)
		}
		if n := most.Load(); n > limit {
			t.Errorf("got %d requests at once, want at most %d", n, limit)
		}
		r.alive(t)
	})
}

// TestConformanceStalledReaders has stalled readers stop no others.
func TestConformanceStalledReaders(t *testing.T) {
	conform(t, func(t *testing.T, p pairing) {
		const stalled = 50
		full := make(chan struct{}, 2*stalled)
		proceed := make(chan struct{})
		r := p.connect(t, func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/down":
				_ = http.NewResponseController(w).Flush()
				full <- struct{}{}
				_, _ = io.Copy(w, newReader(noEnd))
			case "/up":
				_ = http.NewResponseController(w).Flush()
				full <- struct{}{}
				<-proceed
			default:
				_, _ = io.Copy(w, r.Body)
			}
		}, options{})
		for range stalled {
			r.get(t, "/down", http.StatusOK)
			r.do(t, r.request(t, http.MethodPost, "/up", newReader(noEnd)))
		}
		for range 2 * stalled {
			<-full
		}
		for i := range 20 {
			data, sum := content(uint64(i), 1<<20)
			got, _, err := sumOf(r.do(t, r.request(t, http.MethodPost, "/", bytes.NewReader(data))).Body)
			if err != nil || got != sum {
				t.Errorf("beside stalled readers: got %v, %v, want all bytes", got, err)
			}
		}
		close(proceed)
	})
}

// TestConformanceEarlyAnswer has an answer arrive while the upload still runs, which then ends.
func TestConformanceEarlyAnswer(t *testing.T) {
	conform(t, func(t *testing.T, p pairing) {
		r := p.connect(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/alive" {
				return
			}
			_, _ = r.Body.Read(make([]byte, 100))
			w.WriteHeader(http.StatusRequestEntityTooLarge)
			_, _ = io.WriteString(w, strings.Repeat("too large", 20_000))
		}, options{})
		for range 20 {
			body := newReader(noEnd)
			res := r.do(t, r.request(t, http.MethodPost, "/", body))
			want(t, "status", res.StatusCode, http.StatusRequestEntityTooLarge)
			want(t, "body", len(text(t, res.Body)), 9*20_000)
			_ = receive(t, "upload's end", body.closed)
			r.alive(t)
		}
	})
}

// TestConformanceUnreadUploads leaves many of them behind, and looks whether the connection still
// takes others.
func TestConformanceUnreadUploads(t *testing.T) {
	conform(t, func(t *testing.T, p pairing) {
		r := p.connect(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/read" {
				_, _ = io.Copy(w, r.Body)
			}
		}, options{})
		unread := make([]byte, 1<<20)
		for range 300 {
			res := r.do(t, r.request(t, http.MethodPost, "/", bytes.NewReader(unread[:rand.IntN(len(unread))])))
			want(t, "status", res.StatusCode, http.StatusOK)
		}
		data, sum := content(1, 16<<20)
		got, _, err := sumOf(r.do(t, r.request(t, http.MethodPost, "/read", bytes.NewReader(data))).Body)
		if err != nil || got != sum {
			t.Errorf("afterwards: got %v, want all bytes", err)
		}
	})
}

// TestConformanceUnreadAnswers closes many of them early, and looks whether the connection still
// takes others.
func TestConformanceUnreadAnswers(t *testing.T) {
	conform(t, func(t *testing.T, p pairing) {
		ended := make(chan struct{}, 1)
		r := p.connect(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/read" {
				_, _ = io.Copy(w, r.Body)
				return
			}
			_, err := io.Copy(w, newReader(noEnd))
			if err == nil {
				t.Error("wrote all of an endless body")
			}
			<-r.Context().Done()
			ended <- struct{}{}
		}, options{})
		for range 300 {
			res := r.get(t, "/", http.StatusOK)
			if n := rand.IntN(100_000); n > 0 {
				_, _ = io.CopyN(io.Discard, res.Body, int64(n))
			}
			want(t, "close", res.Body.Close(), nil)
			if _, err := res.Body.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
				t.Errorf("reading after close: got %v, want an error", err)
			}
			_ = receive(t, "handler", ended)
		}
		data, sum := content(1, 16<<20)
		got, _, err := sumOf(r.do(t, r.request(t, http.MethodPost, "/read", bytes.NewReader(data))).Body)
		if err != nil || got != sum {
			t.Errorf("afterwards: got %v, want all bytes", err)
		}
	})
}

// TestConformanceReverseProxy puts the pair between two reverse proxies, as the tunnel does.
func TestConformanceReverseProxy(t *testing.T) {
	conform(t, func(t *testing.T, p pairing) {
		backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/abort":
				_, _ = io.WriteString(w, "begun")
				_ = http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			case "/refuse":
				http.Error(w, "no", http.StatusForbidden)
			default:
				w.Header().Set("Trailer", "X-Sum")
				w.Header().Set("X-Query", r.URL.RawQuery)
				_ = http.NewResponseController(w).EnableFullDuplex()
				sum := sha256.New()
				_, _ = io.Copy(w, io.TeeReader(r.Body, sum))
				w.Header().Set("X-Sum", hex.EncodeToString(sum.Sum(nil)))
			}
		}))
		t.Cleanup(backend.Close)
		target, err := url.Parse(backend.URL)
		if err != nil {
			t.Fatal(err)
		}
		toBackend := &http.Transport{DisableCompression: true}
		t.Cleanup(toBackend.CloseIdleConnections)
		silent := slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
		agent := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, Transport: toBackend, FlushInterval: -1, ErrorLog: silent}
		r := p.connect(t, agent.ServeHTTP, options{})
		hub := &httputil.ReverseProxy{
			Rewrite: func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "http", "cluster.example" }, Transport: r.client, FlushInterval: -1,
			ErrorLog: silent,
		}
		front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).EnableFullDuplex()
			hub.ServeHTTP(w, r)
		}))
		t.Cleanup(front.Close)
		user := &http.Client{Transport: &http.Transport{DisableCompression: true}, Timeout: patience}
		t.Cleanup(user.CloseIdleConnections)
		for _, size := range []int{0, 1, 1000, 1 << 20} {
			data, sum := content(1, size)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, front.URL+"/echo?a=b%2Fc&d", struct{ io.Reader }{bytes.NewReader(data)})
			if err != nil {
				t.Fatal(err)
			}
			res, err := user.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			got, n, err := sumOf(res.Body)
			_ = res.Body.Close()
			if err != nil || got != sum {
				t.Errorf("echo: got %d bytes, %v, want %d", n, err, size)
			}
			want(t, "query", res.Header.Get("X-Query"), "a=b%2Fc&d")
			want(t, "trailer", res.Trailer.Get("X-Sum"), sum)
		}
		res, err := user.Get(front.URL + "/abort")
		if err == nil {
			wantCut(t, "abort", res.Body)
			_ = res.Body.Close()
		}
		res, err = user.Post(front.URL+"/refuse", "", io.LimitReader(newReader(noEnd), 100<<10))
		if err != nil {
			t.Fatal(err)
		}
		want(t, "refusal", res.StatusCode, http.StatusForbidden)
		want(t, "its text", text(t, res.Body), "no\n")
		_ = res.Body.Close()
	})
}
