// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// leftoverLife is how long the rest of a body stays in memory after its handler has returned. The
// server needs microseconds to write an answer that its peer has room for. Closing the body before
// that would reset the stream, and the answer would be lost.
const leftoverLife = 100 * time.Millisecond

// leftover is the body of a request over HTTP/2 whose handler may return before it has read the
// body to its end. net/http keeps the rest until the answer is written, which a peer without room
// for the answer can put off.
type leftover struct {
	io.ReadCloser

	ended atomic.Bool
}

// watchBody replaces the body of a request and returns the replacement. It returns nil for a
// request without a body, whose Body net/http sets over HTTP/2 anyway, and for HTTP/1.1, where a
// connection holds one body, in a buffer of 4 KiB.
func watchBody(r *http.Request) *leftover {
	if r.ProtoMajor != 2 || r.ContentLength == 0 || r.Body == nil {
		return nil
	}
	body := &leftover{ReadCloser: r.Body}
	r.Body = body
	return body
}

// Read implements io.Reader.
func (l *leftover) Read(p []byte) (int, error) {
	n, err := l.ReadCloser.Read(p)
	if err != nil {
		l.ended.Store(true)
	}
	return n, err
}

// drop closes the body after [leftoverLife], unless it was read to its end. The handler has
// returned.
func (l *leftover) drop() {
	if l != nil && !l.ended.Load() {
		time.AfterFunc(leftoverLife, func() { _ = l.Close() })
	}
}
