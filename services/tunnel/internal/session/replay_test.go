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

// TestBodyClosedBeforeItIsRead has a connection end between a request's headers and its body, whose next byte never comes: HTTP/2
// closes the body, and begins to read it nevertheless.
func TestBodyClosedBeforeItIsRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table := newTable()
		var read error
		add(t, table, "demo", "x", &fakeConn{send: func(req *http.Request) (*http.Response, error) {
			_ = req.Body.Close()
			_, read = req.Body.Read(make([]byte, 1))
			return nil, errors.New("broken")
		}})
		stream, err := open(table, "ada")
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Release()
		silent, caller := io.Pipe()
		defer func() { _ = caller.Close() }()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://kubernetes/", silent)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.RoundTrip(req); err == nil || read == nil {
			t.Errorf("got %v, and read %v, want both to fail", err, read)
		}
	})
}
