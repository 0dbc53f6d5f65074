// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package hop

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/leatdev/leat/services/tunnel/internal/relay"
)

// Caller returns a client for what a replica itself is asked, and the URL to begin with. It shares
// the connections of [Client] and sends this service's token, to that replica only.
func (c *Client) Caller(replica relay.Replica) (*http.Client, string, error) {
	peer, err := url.Parse(replica.URL)
	if err != nil || peer.Host == "" {
		return nil, "", fmt.Errorf("%w: its URL is %q", relay.ErrUnreachable, replica.URL)
	}
	return &http.Client{
		Transport:     authorized{client: c, replica: replica, host: peer.Host},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, strings.TrimRight(replica.URL, "/"), nil
}

// authorized sends this service's token for one replica, and only to that replica's host.
type authorized struct {
	client  *Client
	replica relay.Replica
	host    string
}

// RoundTrip implements http.RoundTripper.
func (a authorized) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Host != a.host {
		return nil, errors.New("call another replica: the request is for " + req.URL.Host)
	}
	_, token, err := a.client.introduce(req.Context(), a.replica)
	if err != nil {
		return nil, fmt.Errorf("call another replica: %w", err)
	}
	out := req.Clone(req.Context())
	out.Header.Set("Authorization", "Bearer "+token)
	return a.client.brief.RoundTrip(out)
}
