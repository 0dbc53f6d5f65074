// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"fmt"
	"time"

	"golang.org/x/net/http2"
)

// Settings are those of one side of a connection. All fields are required unless their comment
// says otherwise.
type Settings struct {
	// Windows are how many bytes of one stream this side takes before its reader has read them.
	Windows Windows
	// FrameSize is the largest frame that this side takes, from 16 KiB to 16 MiB - 1.
	FrameSize int
	// MaxHeaderBytes limits the header of a message, as HTTP/2 counts it: the text of each field
	// and 32 bytes.
	MaxHeaderBytes int
	// MaxStreams is how many requests a server takes at once. Clients do not need it.
	MaxStreams int
	// PingAfter is the silence after which this side asks whether the peer is alive, and
	// PingTimeout how long the peer may then stay silent. Their sum is how long a dead peer goes
	// unnoticed. Anything that comes is a sign of life. A peer that has not begun HTTP/2 after
	// PingAfter is not asked: the connection ends.
	PingAfter   time.Duration
	PingTimeout time.Duration
	// WriteTimeout ends a connection whose peer does not take any byte for so long.
	WriteTimeout time.Duration
	// ContinueTimeout is how long a client's request that expects "100 Continue" waits for it
	// before it sends its body. Servers do not need it.
	ContinueTimeout time.Duration
}

// Bounds of settings (RFC 9113, 6.5.2), and of the memory of one stream.
const (
	minFrameSize = 16 << 10
	maxFrameSize = 1<<24 - 1
	minWindow    = 64 << 10
	maxWindow    = 64 << 20
)

// Validate returns an error for settings that contradict HTTP/2.
func (s Settings) Validate() error {
	if w := s.Windows; w.Initial < minWindow || w.Max < w.Initial || w.Max > maxWindow {
		return fmt.Errorf("choose windows: a stream's is %d bytes at first and %d at most, want at least %d at first and at most %d",
			w.Initial, w.Max, minWindow, maxWindow)
	}
	if s.FrameSize < minFrameSize || s.FrameSize > maxFrameSize {
		return fmt.Errorf("choose frame size: it is %d bytes, want %d to %d", s.FrameSize, minFrameSize, maxFrameSize)
	}
	return nil
}

// toAnnounce returns what the peer has to know of the settings.
func (s Settings) toAnnounce() []http2.Setting {
	return []http2.Setting{
		{ID: http2.SettingInitialWindowSize, Val: uint32(s.Windows.Initial)},
		{ID: http2.SettingMaxFrameSize, Val: uint32(s.FrameSize)},
		{ID: http2.SettingMaxHeaderListSize, Val: uint32(s.MaxHeaderBytes)},
	}
}

// peerSettings are what the peer has announced, without what concerns frames alone (see [output]).
type peerSettings struct {
	window      int // how much it takes on a stream at first
	streams     int // how many streams it takes at once
	headerBytes int // how large it takes headers
}

// defaultPeer is what holds until the peer has announced its settings. The protocol has no limit of
// streams; the limit here is what the least generous of usual servers take.
var defaultPeer = peerSettings{window: initialConnectionWindow, streams: 100, headerBytes: maxConnectionWindow}
