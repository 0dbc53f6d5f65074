// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import "net/http"

const (
	// smallWrite bounds the frames of a response, of which net/http writes what it has buffered as one.
	smallWrite = 1 << 10
	// longWrite is how much net/http buffers of a response over HTTP/2. What is longer than longMessage is sent in
	// frames of that size: each frame costs both ends some time.
	longWrite   = 4 << 10
	longMessage = 16 << 10
)

// SmallFrames returns a handler that does what next does, and sends its messages in small frames. As long
// as a connection lives, net/http keeps a buffer for the largest HTTP/2 frame that was written to
// it. It is for streams that send little after one large message.
func SmallFrames(next http.Handler) http.Handler { return &smallFrames{next} }

// smallFrames is a type of its own, like other handlers around streams: http.HandlerFunc needs a second frame on the
// stack, which a stream keeps for as long as it lasts.
type smallFrames struct{ next http.Handler }

// ServeHTTP implements http.Handler.
func (h *smallFrames) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.next.ServeHTTP(smallWriter{w}, r)
}

type smallWriter struct{ http.ResponseWriter }

// Write implements io.Writer. What is written at once and fits into a frame waits for more, or for Flush.
func (w smallWriter) Write(p []byte) (written int, err error) {
	most := smallWrite
	if len(p) > longMessage {
		most = longWrite
	}
	for {
		n, err := w.ResponseWriter.Write(p[written:min(written+most, len(p))])
		if written += n; err != nil || written == len(p) {
			return written, err
		}
		if err := http.NewResponseController(w.ResponseWriter).Flush(); err != nil {
			return written, err
		}
	}
}

// Flush implements http.Flusher.
func (w smallWriter) Flush() { _ = http.NewResponseController(w.ResponseWriter).Flush() }

// Unwrap lets http.ResponseController reach the server's own writer.
func (w smallWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
