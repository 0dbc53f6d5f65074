// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package reverse takes agents' connections over: an agent dials the hub with an HTTP/1.1 Upgrade,
// and from then on the agent is the HTTP/2 server on that connection and the hub its client.
// docs/reference/protocol/tunnel.md describes the wire.
package reverse

import (
	"time"

	"github.com/leatdev/leat/internal/runtime/h2"
)

// DefaultSettings returns the default settings of the hub's side of agents' connections.
func DefaultSettings() h2.Settings {
	return h2.Settings{
		Windows:         h2.DefaultWindows(),
		FrameSize:       64 << 10,
		MaxHeaderBytes:  64 << 10,
		PingAfter:       20 * time.Second,
		PingTimeout:     15 * time.Second,
		WriteTimeout:    20 * time.Second,
		ContinueTimeout: 5 * time.Second,
	}
}
