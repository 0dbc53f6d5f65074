// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"

	"github.com/leatdev/leat/internal/kit/wake"
)

// UploadBuffer is how many bytes of a request's body a client reads at once. While it sends a body
// that does not write itself, it holds a buffer of this size.
const UploadBuffer = 4 * bulk

var (
	errTooLong = errors.New("http2: the request's body is longer than its Content-Length")
	copyPool   sync.Pool // of *[UploadBuffer]byte
)

// upload sends the body of a client's request. A goroutine of its own runs it, and the answer does
// not wait for it: a server may answer before it has read everything.
type upload struct {
	to     *stream
	req    *http.Request
	length int64 // -1: not known; 0: there is no body, and the following fields are not used

	continued chan struct{} // closed when the body may be sent; the connection's lock guards closing
	stopped   chan struct{} // closed when the rest of the body is not wanted
	stopping  sync.Once
	closing   sync.Once
}

func (u *upload) init(to *stream, req *http.Request) {
	u.to, u.req, u.length = to, req, bodyLength(req)
	if u.hasBody() {
		u.continued, u.stopped = make(chan struct{}), make(chan struct{})
	}
}

// bodyLength returns the length of a request's body, or -1 if it is not known.
func bodyLength(req *http.Request) int64 {
	switch {
	case req.Body == nil || req.Body == http.NoBody:
		return 0
	case req.ContentLength != 0:
		return req.ContentLength
	}
	return -1
}

func (u *upload) hasBody() bool { return u.length != 0 }

// allowLocked lets the body be sent: the server has said "100 Continue".
func (u *upload) allowLocked() {
	if u.continued != nil && !wake.IsClosed(u.continued) {
		close(u.continued)
	}
}

// stop ends the upload if it is running. Closing the body unblocks a goroutine that reads it, and
// may wait for that. So another goroutine closes it: callers may hold the connection's lock.
func (u *upload) stop() {
	if u.hasBody() {
		u.stopping.Do(func() {
			close(u.stopped)
			go u.closeBody()
		})
	}
}

// closeBody closes the request's body, once. It may wait for a goroutine that reads it.
func (u *upload) closeBody() {
	if u.hasBody() {
		u.closing.Do(func() { _ = u.req.Body.Close() })
	}
}

// run sends the body. If the body fails while the server still wants it, the request ends, and
// RoundTrip or the reader of the answer gets the body's error.
func (u *upload) run() {
	err := u.send()
	u.closeBody()
	select {
	case <-u.stopped: // the rest is not wanted, and its failure does not concern the answer
	default:
		if err != nil {
			u.to.fail(http2.ErrCodeCancel, err)
		}
	}
}

// send sends the body and what follows it. The last bytes carry the end of the stream if there is
// no trailer. A body whose length is announced must have exactly that many bytes: the end of a
// longer one is found before its last bytes are sent, because the server would take them for the
// whole body.
func (u *upload) send() error {
	if !u.awaitContinue() {
		return errAnswerOver
	}
	if body, ok := u.req.Body.(io.WriterTo); ok && (u.length < 0 || u.length > bulk) {
		return u.pass(body)
	}
	buffer, free := u.buffer()
	defer free()
	left := u.length
	for {
		n, err := u.req.Body.Read(buffer)
		if left >= 0 {
			if left -= int64(n); left < 0 {
				return errTooLong
			}
			if left == 0 && err == nil {
				err = u.expectEnd()
			}
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if err != nil && left > 0 {
			return io.ErrUnexpectedEOF
		}
		if _, sending := u.to.send(buffer[:n], err != nil && len(u.req.Trailer) == 0); sending != nil {
			return sending
		}
		if err != nil {
			return u.sendTrailer()
		}
	}
}

// buffer returns a buffer for a body and a function that frees it. The buffer is small if the peer
// accepts only small frames, because an upload holds its buffer for as long as the peer reads
// nothing.
func (u *upload) buffer() (buffer []byte, free func()) {
	m := u.to.mux
	m.mu.Lock()
	largest := m.out.frameSize
	m.mu.Unlock()
	if largest < bulk {
		return make([]byte, minFrameSize), func() {}
	}
	lent, ok := copyPool.Get().(*[UploadBuffer]byte)
	if !ok {
		lent = new([UploadBuffer]byte)
	}
	return lent[:], func() { copyPool.Put(lent) }
}

// pass sends a body that writes itself, as bodies of this package do: their bytes go from one
// connection's inbox to the other's output without a buffer between them. Small bodies are read
// instead, so that their end leaves together with them.
func (u *upload) pass(body io.WriterTo) error {
	to := &uploadWriter{to: u.to, left: u.length}
	if _, err := body.WriteTo(to); err != nil {
		return err
	}
	if to.left > 0 {
		return io.ErrUnexpectedEOF
	}
	if len(u.req.Trailer) > 0 {
		return u.sendTrailer()
	}
	_, err := u.to.send(nil, true)
	return err
}

// uploadWriter sends what a body writes to it.
type uploadWriter struct {
	to   *stream
	left int64 // how much is to come; negative if it is not known
}

// Write implements io.Writer.
func (w *uploadWriter) Write(p []byte) (int, error) {
	if w.left >= 0 {
		if int64(len(p)) > w.left {
			return 0, errTooLong
		}
		w.left -= int64(len(p))
	}
	return w.to.send(p, false)
}

// expectEnd reads the end of a body of which everything was read.
func (u *upload) expectEnd() error {
	var one [1]byte
	if n, err := io.ReadFull(u.req.Body, one[:]); n == 0 {
		return err
	}
	return errTooLong
}

// sendTrailer sends the request's trailer, if there is one.
func (u *upload) sendTrailer() error {
	if len(u.req.Trailer) == 0 {
		return nil
	}
	for name, values := range u.req.Trailer {
		if err := validateField(name, values); err != nil {
			return err
		}
	}
	m := u.to.mux
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := u.to.awaitHeaderTurnLocked(); err != nil || u.to.out.isDone {
		return errAnswerOver
	}
	m.out.encoder.begin()
	for name, values := range u.req.Trailer {
		for _, value := range values {
			m.out.encoder.add(lower(name), value)
		}
	}
	u.to.sendTrailerLocked()
	return nil
}

// awaitContinue blocks until the server wants the body, or ContinueTimeout has passed. It reports
// false if the server does not want it.
func (u *upload) awaitContinue() bool {
	timeout := u.to.mux.settings.ContinueTimeout
	if timeout == 0 || !httpguts.HeaderValuesContainsToken(u.req.Header["Expect"], "100-continue") {
		return true
	}
	late := time.NewTimer(timeout)
	defer late.Stop()
	select {
	case <-u.continued:
	case <-late.C:
	case <-u.stopped:
		return false
	}
	return true
}
