// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"net/http"
	"net/http/httputil"
	"sync"
)

// copyBuffer is how much is copied at once. Every running request that is passed on holds one such
// buffer, watches for hours, and upgraded connections hold two, so that it is not larger. With the
// head of an HTTP/2 frame it fills whole records of TLS.
const copyBuffer = 32<<10 - 9

// CopyBuffers lends the buffers for copying bodies, as an httputil.BufferPool. It is safe for
// concurrent use; the zero value is ready.
type CopyBuffers struct {
	pool sync.Pool // of *[copyBuffer]byte
}

// Get implements httputil.BufferPool.
func (b *CopyBuffers) Get() []byte {
	if buffer, ok := b.pool.Get().(*[copyBuffer]byte); ok {
		return buffer[:]
	}
	return make([]byte, copyBuffer)
}

// Put implements httputil.BufferPool.
func (b *CopyBuffers) Put(buffer []byte) {
	if len(buffer) == copyBuffer {
		b.pool.Put((*[copyBuffer]byte)(buffer))
	}
}

// KeepBody has a request that is passed on over HTTP/2 go on with its own body. The wrapper of
// httputil hides that the body can write itself (io.WriterTo), and is there for HTTP/1.1, where
// closing a body reads it to its end.
func KeepBody(p *httputil.ProxyRequest) {
	if p.In.ProtoMajor == 2 && p.Out.Body != nil {
		p.Out.Body = p.In.Body
	}
}

// asItIs writes an answer without a type without one.
type asItIs struct{ http.ResponseWriter }

// AsItIs returns a writer for an answer that comes from elsewhere: one without a Content-Type stays
// so, where a server would guess.
func AsItIs(w http.ResponseWriter) http.ResponseWriter { return &asItIs{w} }

// KeepUntyped has a server guess no type for an answer whose header this is.
func KeepUntyped(header http.Header) {
	if _, set := header["Content-Type"]; !set {
		header["Content-Type"] = nil
	}
}

// WriteHeader implements http.ResponseWriter.
func (w *asItIs) WriteHeader(status int) {
	if status >= http.StatusOK {
		KeepUntyped(w.Header())
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController reach the server's own writer.
func (w *asItIs) Unwrap() http.ResponseWriter { return w.ResponseWriter }
