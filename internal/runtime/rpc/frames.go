// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"io"
	"net/http"
)

const (
	// smallRead bounds one read of a request's body, and with it the frames that it is sent in. It is about as much as
	// the headers have.
	smallRead = 1 << 10
	// longRead is that of a body that is longer than longBody, or of unknown length: each frame costs both ends some
	// time, and a long body would take three times as long.
	longRead = 4 << 10
	longBody = 16 << 10
)

// smallFrames sends requests over HTTP/2 in small frames. As long as a connection lives, net/http keeps a buffer for
// the largest frame that was read from it, and a hub has a connection of each agent. A request that has to be sent
// again has usual frames.
type smallFrames struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t smallFrames) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Body == nil || request.Body == http.NoBody {
		return t.next.RoundTrip(request)
	}
	small := request.WithContext(request.Context()) // a copy
	most := longRead
	if request.ContentLength > 0 && request.ContentLength <= longBody {
		most = smallRead
	}
	small.Body = smallBody{request.Body, most}
	return t.next.RoundTrip(small)
}

// CloseIdleConnections is called by http.Client.CloseIdleConnections.
func (t smallFrames) CloseIdleConnections() {
	if closer, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}

type smallBody struct {
	io.ReadCloser

	most int
}

// Read implements io.Reader.
func (b smallBody) Read(p []byte) (int, error) { return b.ReadCloser.Read(p[:min(len(p), b.most)]) }
