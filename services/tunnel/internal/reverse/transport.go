// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package reverse takes agents' connections over: an agent dials the hub with an HTTP/1.1 Upgrade, and from then on the
// agent is the HTTP/2 server on that connection and the hub its client. docs/protocol/tunnel.md describes the wire.
package reverse

import (
	"fmt"
	"net/http"
	"time"

	"golang.org/x/net/http2"

	"github.com/leatdev/leat/internal/flow"
)

// Settings tune the HTTP/2 client side of agents' connections. All fields are required.
type Settings struct {
	// Windows are how many bytes of one response the hub takes from an agent before its reader has read them: at first, and when the
	// reader keeps up with a distant agent.
	Windows flow.Windows
	// FrameSize is the largest frame that the hub accepts.
	FrameSize int
	// MaxHeaderBytes limits the headers of a response.
	MaxHeaderBytes int
	// PingAfter is the silence after which the hub asks whether the agent is alive, and PingTimeout how long the agent
	// may take to answer. Their sum is how long a dead agent goes unnoticed.
	PingAfter   time.Duration
	PingTimeout time.Duration
	// WriteTimeout ends a connection that takes no byte for so long.
	WriteTimeout time.Duration
	// ContinueTimeout is how long a request that expects "100 Continue" waits for it before it sends its body.
	ContinueTimeout time.Duration
}

// Bounds of a stream's window: what HTTP/2 begins with unless it is told otherwise, and what a single stream may hold of the memory.
const (
	minWindow = 64 << 10
	maxWindow = 64 << 20
)

// DefaultSettings are the settings of a replica that is told nothing else.
func DefaultSettings() Settings {
	return Settings{
		Windows:         flow.DefaultWindows(),
		FrameSize:       64 << 10,
		MaxHeaderBytes:  64 << 10,
		PingAfter:       20 * time.Second,
		PingTimeout:     15 * time.Second,
		WriteTimeout:    20 * time.Second,
		ContinueTimeout: 5 * time.Second,
	}
}

// http2Transport returns the transport that makes HTTP/2 clients of connections. It never dials.
func (s Settings) http2Transport() (*http2.Transport, error) {
	if w := s.Windows; w.Initial < minWindow || w.Max < w.Initial || w.Max > maxWindow {
		return nil, fmt.Errorf("choose windows: a stream's is %d bytes at first and %d at most, want at least %d at first and at most %d",
			w.Initial, w.Max, minWindow, maxWindow)
	}
	transport, err := http2.ConfigureTransports(&http.Transport{
		DisableCompression:     true, // what the caller accepts and what the cluster sends pass as they are
		MaxResponseHeaderBytes: int64(s.MaxHeaderBytes),
		ExpectContinueTimeout:  s.ContinueTimeout,
		HTTP2: &http.HTTP2Config{
			MaxReceiveBufferPerStream:     s.Windows.Stream(),
			MaxReceiveBufferPerConnection: s.Windows.Connection(),
			MaxReadFrameSize:              s.FrameSize,
			SendPingTimeout:               s.PingAfter,
			PingTimeout:                   s.PingTimeout,
			WriteByteTimeout:              s.WriteTimeout,
		},
	})
	if err != nil {
		return nil, fmt.Errorf("configure http2 transport: %w", err)
	}
	return transport, nil
}
