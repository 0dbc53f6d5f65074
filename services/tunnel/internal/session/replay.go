// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"errors"
	"io"
	"net/http"
	"sync"
)

// errRevoked is the error of a failed attempt that reads from a body that has passed on to the next
// attempt.
var errRevoked = errors.New("request body belongs to another attempt")

// guardedBody is the body of a first attempt. It notices the first read, and it can be taken away
// as long as there was none, so that two attempts never share a body.
type guardedBody struct {
	body io.ReadCloser

	mu      sync.Mutex
	touched bool
	closed  bool // by its attempt
	revoked bool
}

// guard returns the request with its body guarded. A request without a body has a nil guard, which
// is always revocable.
func guard(req *http.Request) (*http.Request, *guardedBody) {
	if req.Body == nil || req.Body == http.NoBody {
		return req, nil
	}
	body := &guardedBody{body: req.Body}
	guarded := *req
	guarded.Body = body
	if _, ok := req.Body.(io.WriterTo); ok {
		guarded.Body = guardedWriterTo{body}
	}
	return &guarded, body
}

// guardedWriterTo guards a body that writes itself.
type guardedWriterTo struct{ *guardedBody }

// WriteTo implements io.WriterTo.
func (b guardedWriterTo) WriteTo(w io.Writer) (int64, error) {
	if err := b.touch(); err != nil {
		return 0, err
	}
	return io.Copy(w, b.body)
}

// Read implements io.Reader.
func (b *guardedBody) Read(p []byte) (int, error) {
	if err := b.touch(); err != nil {
		return 0, err
	}
	return b.body.Read(p)
}

// touch notices that the body is read, unless it must not be any more.
func (b *guardedBody) touch() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.revoked || b.closed {
		return errRevoked
	}
	b.touched = true
	return nil
}

// Close implements io.Closer. It leaves the body open while it is untouched, because another
// attempt may want it; the server that the request came from closes it in the end. This attempt
// does not get to read it any more: it may close the body before it begins to read, and would then
// wait for bytes that no attempt needs.
func (b *guardedBody) Close() error {
	b.mu.Lock()
	b.closed = true
	touched := b.touched
	b.mu.Unlock()
	if !touched {
		return nil
	}
	return b.body.Close()
}

// revoke takes the body away from its attempt and reports whether none of it was read.
func (b *guardedBody) revoke() bool {
	if b == nil {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.revoked = true
	return !b.touched
}

// Repeatable reports whether sending a request again that may have been carried out already does no
// harm and gives the same answer. A repeated DELETE would be harmless, too, but would answer "not
// found" to who has just deleted. An upgraded connection begins with a GET, too, and then a
// command.
func Repeatable(req *http.Request) bool {
	if req.Header.Get("Leat-Upgrade") != "" {
		return false
	}
	switch req.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	default:
		return false
	}
}
