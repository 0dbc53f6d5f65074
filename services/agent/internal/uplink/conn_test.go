// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uplink

import (
	"log/slog"
	"testing"
)

// TestF43ServerForTheHubHasNoLimitForWholeRequests looks at what the server of a connection was made with: one limit would
// end all streams of all people at once.
func TestF43ServerForTheHubHasNoLimitForWholeRequests(t *testing.T) {
	t.Parallel()
	u, err := New(Params{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	c := &conn{uplink: u}
	c.link = newLink(c)
	server := c.newServer(t.Context())
	if server.ReadTimeout != 0 || server.WriteTimeout != 0 {
		t.Errorf("got limits of %v for reading and %v for writing, want none", server.ReadTimeout, server.WriteTimeout)
	}
	if server.HTTP2.WriteByteTimeout <= 0 || server.HTTP2.SendPingTimeout <= 0 {
		t.Errorf("got %v for writes and pings after %v, want some: a hub that is gone must be noticed",
			server.HTTP2.WriteByteTimeout, server.HTTP2.SendPingTimeout)
	}
}
