// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"io"
	"net/http"
)

// smallRead bounds one read of a request's body, and with it the frames that it is sent in.
const smallRead = 1 << 10

// smallFrames sends requests over HTTP/2 in frames of at most 1 KiB, about as much as their headers have. As long as a
// connection lives, net/http keeps a buffer for the largest frame that was read from it, and a hub has a connection of
// each agent. A request that has to be sent again has usual frames.
type smallFrames struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t smallFrames) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Body == nil || request.Body == http.NoBody {
		return t.next.RoundTrip(request)
	}
	small := request.WithContext(request.Context()) // a copy
	small.Body = smallBody{request.Body}
	return t.next.RoundTrip(small)
}

// CloseIdleConnections is called by http.Client.CloseIdleConnections.
func (t smallFrames) CloseIdleConnections() {
	if closer, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}

type smallBody struct{ io.ReadCloser }

// Read implements io.Reader.
func (b smallBody) Read(p []byte) (int, error) { return b.ReadCloser.Read(p[:min(len(p), smallRead)]) }
