// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
)

// TestBodyClosedBeforeItIsRead has a connection end between a request's headers and its body, whose
// next byte never comes: HTTP/2 closes the body, and begins to read it nevertheless.
func TestBodyClosedBeforeItIsRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table := newTable()
		var read, written error
		add(t, table, "demo", "x", &fakeConn{send: func(req *http.Request) (*http.Response, error) {
			_ = req.Body.Close()
			_, read = req.Body.Read(make([]byte, 1))
			_, written = req.Body.(io.WriterTo).WriteTo(io.Discard)
			return nil, errors.New("broken")
		}})
		stream, err := open(table, "ada")
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Release()
		silent, caller := io.Pipe()
		defer func() { _ = caller.Close() }()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://kubernetes/", writingPipe{silent})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.RoundTrip(req); err == nil || read == nil || written == nil {
			t.Errorf("got %v, read %v and written %v, want all to fail", err, read, written)
		}
	})
}

// writingPipe is a body that writes itself.
type writingPipe struct{ *io.PipeReader }

// WriteTo implements io.WriterTo.
func (p writingPipe) WriteTo(w io.Writer) (int64, error) { return io.Copy(w, p.PipeReader) }
