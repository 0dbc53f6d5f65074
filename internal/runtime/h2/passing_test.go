// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/internal/runtime/h2"
)

// passOn returns a client of a server that passes its requests on to one that handler serves, body
// and trailer as they are, and the budget of what the former has not passed on.
func passOn(t *testing.T, bytes int64, handler http.HandlerFunc) (*h2.Client, *h2.Budget) {
	t.Helper()
	back, _ := pair(t, budget(t, 1<<30), handler)
	between := budget(t, bytes)
	near, far := loopbackPair(t)
	front, _ := over(t, near, far, budget(t, 1<<30), between, func(w http.ResponseWriter, r *http.Request) {
		out := request(t, r.Context(), r.Method, nil)
		out.Body, out.ContentLength, out.Trailer = r.Body, r.ContentLength, r.Trailer
		res, err := back.RoundTrip(out)
		if err != nil {
			w.Header().Set("Failed", err.Error())
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer func() { _ = res.Body.Close() }()
		w.WriteHeader(res.StatusCode)
		_, _ = io.Copy(w, res.Body)
	})
	return front, between
}

// TestBodiesArePassedOn has bodies of all sizes go from one connection to another, some of known
// length, some with a trailer.
func TestBodiesArePassedOn(t *testing.T) {
	t.Parallel()
	const bulk = 2 * (32<<10 - 9)
	client, between := passOn(t, 1<<30, func(w http.ResponseWriter, r *http.Request) {
		sum, n, err := sumOf(r.Body)
		_, _ = fmt.Fprint(w, r.ContentLength, n, err, sum, r.Trailer.Get("X-Sum"))
	})
	for _, size := range []int{0, 1, bulk - 1, bulk, bulk + 1, 5 * bulk, 3<<20 + 17} {
		for _, known := range []bool{false, true} {
			for _, trailing := range []bool{false, true} {
				data, sum := content(1, size)
				req := request(t, t.Context(), http.MethodPost, bytes.NewReader(data))
				length, trailer := int64(size), ""
				if !known {
					req.Body, req.ContentLength, length = io.NopCloser(struct{ io.Reader }{bytes.NewReader(data)}), -1, -1
				}
				if trailing && req.ContentLength != 0 {
					req.Trailer, trailer = http.Header{"X-Sum": {sum}}, sum
				}
				res, err := client.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				want(t, fmt.Sprintf("%d bytes, known %t, trailing %t", size, known, trailing), text(t, res.Body),
					fmt.Sprint(length, int64(size), nil, sum, trailer))
			}
		}
	}
	want(t, "unread at the end", between.Used(), 0)
}

// writerTo is a body that writes itself.
type writerTo struct {
	io.Reader

	write func(w io.Writer) (int64, error)
}

// WriteTo implements io.WriterTo.
func (b writerTo) WriteTo(w io.Writer) (int64, error) { return b.write(w) }

// TestBodyThatWritesAnotherLength has bodies write more or less than was announced, or break off:
// they must not count as whole ones.
func TestBodyThatWritesAnotherLength(t *testing.T) {
	t.Parallel()
	errBroken := errors.New("broken off")
	ended := make(chan error, 1)
	client, _ := pair(t, budget(t, 1<<30), func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		ended <- err
		<-r.Context().Done() // the client alone ends the request
	})
	const size = 200 << 10
	for name, tc := range map[string]struct {
		length, writes int64
		err            error
	}{
		"more":                    {size, size + 1, nil},
		"less":                    {size, size - 1, nil},
		"broken off":              {size, size / 2, errBroken},
		"broken off, length open": {-1, size, errBroken},
	} {
		req := request(t, t.Context(), http.MethodPost, nil)
		req.ContentLength = tc.length
		req.Body = io.NopCloser(writerTo{write: func(w io.Writer) (int64, error) {
			n, err := io.CopyN(w, zeros{}, tc.writes)
			if err == nil {
				err = tc.err
			}
			return n, err
		}})
		res, err := client.RoundTrip(req)
		if err == nil {
			_ = res.Body.Close()
			t.Errorf("%s: got an answer, want an error", name)
		}
		if tc.err != nil && !errors.Is(err, tc.err) {
			t.Errorf("%s: got %v, want %v", name, err, tc.err)
		}
		if err := receive(t, "end of the body", ended); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("%s: the server got %v, want an error", name, err)
		}
	}
}

// TestBodyIsCutWhileItIsPassedOn has bodies wait for a server that does not read them until there
// is too much: the memory of the one that goes is not lent to others while it is still being
// written.
func TestBodyIsCutWhileItIsPassedOn(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	client, between := passOn(t, 200<<10, func(w http.ResponseWriter, r *http.Request) {
		<-release
		sum, _, err := sumOf(r.Body)
		_, _ = fmt.Fprint(w, sum, err)
	})
	const uploads, size = 8, 300 << 10
	type outcome struct {
		whole  bool
		failed string
	}
	outcomes := make(chan outcome, uploads)
	for i := range uploads {
		data, sum := content(uint64(i), size)
		go func() {
			res, err := client.RoundTrip(request(t, t.Context(), http.MethodPost, bytes.NewReader(data)))
			if err != nil {
				outcomes <- outcome{failed: err.Error()}
				return
			}
			got, err := io.ReadAll(res.Body)
			_ = res.Body.Close()
			outcomes <- outcome{whole: err == nil && string(got) == fmt.Sprint(sum, nil), failed: res.Header.Get("Failed")}
		}()
	}
	await(t, "a body to be cut", func() bool { return between.Cut() > 0 })
	close(release)
	whole := 0
	for range uploads {
		o := receive(t, "outcome", outcomes)
		switch {
		case o.whole:
			whole++
		case o.failed == "":
			t.Errorf("got %+v, want a whole body, or an error that says so", o)
		}
	}
	if whole == 0 {
		t.Error("no body was passed on")
	}
	await(t, "the memory", func() bool { return between.Used() == 0 })
}

// TestBodyGoesOnBehindAFailedWrite has writers fail in the middle of a body: the rest can still be
// read, from the first byte that was not written, and the peer is granted each byte once.
func TestBodyGoesOnBehindAFailedWrite(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, bodies := rawClient(t, budget(t, 1<<30), time.Millisecond)
		client.upload(1)
		body := <-bodies
		window := settings().Windows.Initial
		data, _ := content(1, window)
		for sent := range slices.Chunk(data, 16<<10) {
			client.must(client.framer.WriteData(1, false, sent))
		}
		synctest.Wait()
		var got bytes.Buffer
		errFull := errors.New("full")
		for range 10 {
			n, err := body.(io.WriterTo).WriteTo(writerFunc(func(p []byte) (int, error) {
				got.Write(p[:1000])
				return 1000, errFull
			}))
			if n != 1000 || !errors.Is(err, errFull) {
				t.Errorf("got %d bytes, %v, want 1000, and the writer's error", n, err)
			}
		}
		if _, err := io.CopyN(&got, body, int64(len(data)-got.Len())); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Bytes(), data) {
			t.Error("the body is not what was sent")
		}
		synctest.Wait()
		if granted := client.granted(1); granted > window || granted < window*7/8 {
			t.Errorf("the client may send %d bytes more, want the %d that were read, but for what is not worth telling", granted, window)
		}
	})
}

type writerFunc func(p []byte) (int, error)

// Write implements io.Writer.
func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
