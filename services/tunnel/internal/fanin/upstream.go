// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fanin

import (
	"bytes"
	"context"
	"io"
	"net/http"
)

// maxSharedError is the longest error that is kept for all viewers that wait for it.
const maxSharedError = 1 << 20

// Sizes of the buffer for reading a feed: quiet feeds hold little, busy ones read much at once.
const (
	smallRead = 4 << 10
	largeRead = 32 << 10
)

// request is a feed's request to the cluster. One goroutine runs it, from the feed's beginning
// until the feed has no reader any more.
type request struct {
	pool *pool
	feed *feed
	key  string
	open Opener
}

// run sends the request, records the events that follow, and removes the feed from the pool when it
// is no longer read. The cluster's watch has ended before its viewers learn that.
func (r *request) run(req *http.Request) {
	ended := r.carry(req)
	r.feed.cancel()
	r.feed.release()
	r.feed.end(ended)
	<-r.feed.unread
	r.pool.remove(r.key, r.feed)
}

// carry returns how the feed ended, after giving the right to the request back.
func (r *request) carry(req *http.Request) error {
	ctx, f := req.Context(), r.feed
	upstream, err := r.open(ctx)
	if err != nil {
		f.setAnswer(answer{err: &OpenError{Err: err}}, false)
		return io.EOF
	}
	defer upstream.Release()
	f.markAsked()
	res, err := upstream.RoundTrip(req)
	if err != nil {
		f.setAnswer(answer{err: err}, false)
		return io.EOF
	}
	defer res.Body.Close()
	a := answer{res: res, connection: upstream.Connection()}
	framing := framingOf(res)
	if res.StatusCode == http.StatusOK && framing != framingNone {
		f.setAnswer(a, framing == framingJSON)
		return r.read(ctx, res.Body, framing)
	}
	a.isError = res.StatusCode >= http.StatusBadRequest && readError(&a)
	a.isOpeners = !a.isError
	f.setAnswer(a, false)
	if a.isOpeners {
		<-ctx.Done() // the opener reads the body
	}
	return io.EOF
}

// readError reads the body of an error, unless it is too long to be kept or breaks off: then it
// puts what it has read back in front of the body, and reports false.
func readError(a *answer) bool {
	res := a.res
	head, err := io.ReadAll(io.LimitReader(res.Body, maxSharedError+1))
	if err == nil && len(head) <= maxSharedError && len(res.Trailer) == 0 {
		a.errorBody = head
		return true
	}
	rest := io.Reader(res.Body)
	if err != nil {
		rest = brokenReader{err}
	}
	res.Body = &rejoined{Reader: io.MultiReader(bytes.NewReader(head), rest), Closer: res.Body}
	return false
}

// rejoined is a body of which something was read.
type rejoined struct {
	io.Reader
	io.Closer
}

// brokenReader is the rest of a body that broke off.
type brokenReader struct{ err error }

// Read implements io.Reader.
func (r brokenReader) Read([]byte) (int, error) { return 0, r.err }

// read records the cluster's events until they end, and returns how.
func (r *request) read(ctx context.Context, body io.Reader, framing framing) error {
	cut := &splitter{framing: framing, max: r.feed.params.FrameBytes}
	buffer := make([]byte, smallRead)
	for {
		if err := r.feed.awaitRoom(ctx); err != nil {
			return err
		}
		n, err := body.Read(buffer)
		r.feed.record(func(emit func(entry)) {
			cut.add(buffer[:n], emit)
			if err != nil {
				cut.rest(emit)
			}
		})
		if err != nil {
			return err
		}
		r.pool.sweep()
		buffer = resize(buffer, n)
	}
}

// resize returns the buffer for the next read after one of n bytes.
func resize(buffer []byte, n int) []byte {
	switch {
	case n == len(buffer) && n < largeRead:
		return make([]byte, largeRead)
	case n < smallRead && len(buffer) > smallRead:
		return make([]byte, smallRead)
	}
	return buffer
}
