// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kubeproxy

import (
	"cmp"
	"errors"
	"io"
	"net/http"
	"sync/atomic"

	"github.com/leatdev/leat/internal/runtime/serve"
)

// response counts the bytes written to the caller and remembers the status.
type response struct {
	http.ResponseWriter

	status int
	bytes  int64
	began  func()          // called before the first byte of the answer; nil is not called
	moved  func(int) error // called with the number of bytes; an error ends the answer
}

// WriteHeader implements http.ResponseWriter. Informational answers may precede the one that
// counts.
func (w *response) WriteHeader(status int) {
	switch {
	case status < http.StatusOK:
		scrubHeader(w.Header()) // these headers come from the cluster, and are not scrubbed anywhere else
	case w.status == 0:
		w.begin(status)
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements io.Writer.
func (w *response) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.begin(http.StatusOK)
	}
	n, err := w.ResponseWriter.Write(p)
	w.bytes += int64(n)
	if w.moved != nil {
		err = cmp.Or(err, w.moved(n))
	}
	return n, err
}

func (w *response) begin(status int) {
	serve.KeepUntyped(w.Header())
	w.status = status
	if w.began != nil {
		w.began()
	}
}

// Unwrap lets http.ResponseController reach the server's own writer.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// upload counts the bytes read of the request's body and notices its end. The HTTP/2 client reads
// it in a goroutine of its own.
type upload struct {
	io.ReadCloser

	bytes atomic.Int64
	ended atomic.Bool
	moved func(int) error // called with the number of bytes; an error ends the body; nil is not called
}

// Read implements io.Reader.
func (u *upload) Read(p []byte) (int, error) {
	n, err := u.ReadCloser.Read(p)
	err = cmp.Or(err, u.count(n))
	if errors.Is(err, io.EOF) {
		u.ended.Store(true)
	}
	return n, err
}

// count counts bytes that were read.
func (u *upload) count(n int) error {
	u.bytes.Add(int64(n))
	if u.moved == nil {
		return nil
	}
	return u.moved(n)
}

// download is the body of the agent's response. It remembers how it broke off, and ends a drained
// watch as if the API server had ended it, which clients are used to.
type download struct {
	io.ReadCloser

	mapError func(error) error
	answered func() // called when the body is not read any further
	res      *http.Response
	failed   error
}

// Close implements io.Closer. The HTTP/2 client's own Close waits until the upload has ended, and a
// caller that waits for the end of this answer may never end it. So Close ends the request first.
//
// The trailer is known afterwards, and is sent after the body.
func (d *download) Close() error {
	d.answered()
	err := d.ReadCloser.Close()
	scrubHeader(d.res.Trailer)
	return err
}

// Read implements io.Reader.
func (d *download) Read(p []byte) (int, error) {
	n, err := d.ReadCloser.Read(p)
	if err == nil || errors.Is(err, io.EOF) {
		return n, err
	}
	d.failed = err
	return n, d.mapError(err)
}
