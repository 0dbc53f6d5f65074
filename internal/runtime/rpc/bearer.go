// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"fmt"
	"net/http"

	"github.com/leatdev/leat/internal/runtime/identity"
)

// bearerTransport adds the token to requests for one host. It sits below Connect, where an error
// can still prevent a stream from being opened, and where plain requests pass too.
type bearerTransport struct {
	next   http.RoundTripper
	tokens identity.TokenSource
	host   string
}

// RoundTrip sends a request unchanged if it goes to another host or has its own Authorization.
func (t *bearerTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Host != t.host || request.Header.Get("Authorization") != "" {
		return t.next.RoundTrip(request)
	}
	token, err := t.tokens.Token(request.Context())
	if err != nil {
		if request.Body != nil {
			_ = request.Body.Close() // a transport closes the body also when it fails
		}
		return nil, fmt.Errorf("obtain token: %w", err)
	}
	request = request.Clone(request.Context())
	request.Header.Set("Authorization", "Bearer "+token)
	return t.next.RoundTrip(request)
}

// CloseIdleConnections is called by http.Client.CloseIdleConnections.
func (t *bearerTransport) CloseIdleConnections() {
	if closer, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}
