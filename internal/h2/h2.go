// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package h2 is HTTP/2 (RFC 9113) for the tunnel's connections with authenticated peers: those of agents, open for
// days, each with hundreds of streams, and those of agents to API servers. Ports that anyone can reach use net/http.
// docs/adr/0028 gives the reasons, and lists which test covers which published attack.
//
// It promises that requests, answers and their errors are those of net/http, and that no peer makes a connection hold
// more than its bounds, however the peer reads or writes. [Settings] has the bounds of one connection, [Limits] those
// of all connections that share a [Budget]. Output that can wait (headers, data) waits until the peer reads. Output
// that cannot wait (resets, window updates, answers to control frames) is counted; too much of it ends the connection.
//
// A connection is open until it fails, or until both sides have announced its end and all streams have ended. If the
// peer breaks the protocol or exceeds a bound, its streams end at once. The connection then stays open for a second, so
// that the peer can read the reason.
//
// net/http hands a frame from its reader to a loop and then to a handler, and the answer back through the loop to a
// goroutine that writes it. In this package the reader passes a frame directly to the goroutine that waits for it. A
// goroutine with a frame to send writes it itself, several frames in one write where possible. A request that arrives
// alone is answered by the goroutine that has read it, while another goroutine reads on.
//
// The window of a stream is how much the peer may send before its reader has read anything. It adapts to the reader. A
// large window is memory that an idle reader holds. A small one limits a fast reader to one window per round trip:
// 512 KiB over 50 ms are 10 MiB/s. So a stream's window is small at first, and grows while it is used up within about a
// round trip. Unread bytes are counted over all connections. When there are too many, the streams whose readers have
// been idle longest end first. The connection's own window bounds nothing, so that idle readers cannot stop others.
//
// One lock guards a connection and its streams. A budget's lock comes before it: no goroutine acquires a budget's lock
// while it holds a connection's.
//
// Server push and priorities are not supported; both are deprecated. The package does not defend against
// unauthenticated peers: it has no limit for each address, and no fairness between peers beyond the bounds of one
// connection.
package h2

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrRefused is what a request fails with that the peer has certainly not begun (RFC 9113, 8.7): it can be sent again, whatever it
	// does.
	ErrRefused = errors.New("http2: the peer has not begun the request")
	// ErrFull means that the peer takes no more requests at once. Nothing was sent.
	ErrFull = errors.New("http2: the peer takes no more requests at once")
	// ErrBusy means that all connections together have used up the requests or header bytes of their [Budget].
	ErrBusy = errors.New("http2: too many connections, requests or headers at once")
	// ErrTooSlow is what a reader gets whose stream was ended because it stood still while memory was short.
	ErrTooSlow = errors.New("too much was received that nobody has read, and this reader has stood still for the longest")
	// ErrHeaderTooLarge means that the peer's header was larger than this side takes.
	ErrHeaderTooLarge = errors.New("http2: the header of the answer is too large")

	errClosed      = errors.New("http2: connection is closed")
	errLost        = errors.New("http2: the peer has closed the connection")
	errSilent      = errors.New("http2: the peer is silent, and answers no PING")
	errWriteStuck  = errors.New("http2: the peer takes no byte")
	errFlood       = errors.New("http2: the peer asks for more than it reads")
	errNoPreface   = errors.New("http2: the peer does not speak HTTP/2")
	errBodyClosed  = errors.New("http2: the body is closed")
	errAnswerOver  = errors.New("http2: the answer is over")
	errHandlerDone = errors.New("http2: the handler has returned")
	errFromPeer    = errors.New("received from peer")
)

// Settings are those of one side of a connection. All fields are required, but where something else is said.
type Settings struct {
	// Windows are how many bytes of one stream this side takes before its reader has read them.
	Windows Windows
	// FrameSize is the largest frame that this side takes, from 16 KiB to 16 MiB - 1.
	FrameSize int
	// MaxHeaderBytes limits the header of a message, as HTTP/2 counts it: 32 bytes more a field than its text.
	MaxHeaderBytes int
	// MaxStreams is how many requests a server takes at once. Clients need none.
	MaxStreams int
	// PingAfter is the silence after which this side asks whether the peer is alive, and PingTimeout how long the peer may then stay
	// silent. Their sum is how long a dead peer goes unnoticed. Anything that comes is a sign of life. A peer that has not
	// begun HTTP/2 after PingAfter is not asked: the connection ends.
	PingAfter   time.Duration
	PingTimeout time.Duration
	// WriteTimeout ends a connection that takes no byte for so long.
	WriteTimeout time.Duration
	// ContinueTimeout is how long a client's request that expects "100 Continue" waits for it before it sends its body. Servers need
	// none.
	ContinueTimeout time.Duration
}

// Bounds of settings (RFC 9113, 6.5.2), and of what a single stream may hold of the memory.
const (
	minFrameSize = 16 << 10
	maxFrameSize = 1<<24 - 1
	minWindow    = 64 << 10
	maxWindow    = 64 << 20
)

// Validate tells what contradicts HTTP/2.
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
