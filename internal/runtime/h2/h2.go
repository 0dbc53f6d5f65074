// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package h2 is HTTP/2 (RFC 9113) for the tunnel's connections with authenticated peers:
// connections of agents, open for days, each with hundreds of streams, and agents' connections to
// API servers. Ports that anyone can reach use net/http. docs/adr/0028 gives the reasons, and lists
// which test covers which published attack.
//
// # Promises
//
// Requests, answers and their errors are as in net/http. No peer makes a connection hold more than
// its bounds, however the peer reads or writes: [Settings] has the bounds of one connection,
// [Limits] the bounds of all connections that share a [Budget]. Output that can wait (headers,
// data) waits until the peer reads. Output that cannot wait (resets, window updates, answers to
// control frames) is counted; too much of it ends the connection.
//
// # States
//
// A connection is open, leaving, ending, lingering, or closed. It is leaving when one side has sent
// GOAWAY: a client no longer begins requests, and a server still serves what the client has sent
// before it has read the GOAWAY. It is ending when no later stream counts: it closes when all
// streams have ended and everything is written. If the peer breaks the protocol or exceeds a bound,
// all streams end at once, and the connection lingers for a second, so that the peer can read the
// reason. A peer that does not begin, falls silent, or takes no byte closes it without that second.
//
// A stream has two directions, each of which is open until its side has sent the last byte. The
// connection removes a stream when both directions are finished, or when it ends with an error: a
// reset by either side, or the end of the connection. Bytes that have arrived can still be read
// after either, unless this side has dropped them.
//
// # Who does what
//
// net/http hands a frame from its reader to a loop and then to a handler, and the answer back
// through the loop to a goroutine that writes it. In this package the reader passes a frame
// directly to the goroutine that waits for it. A goroutine with a frame to send writes it itself,
// several frames in one write where possible. A request that arrives alone is answered by the
// goroutine that has read it, while another goroutine reads on.
//
// Calls between the parts of a connection run one way: [Client] and [Server] use conn, conn uses
// the reader of frames, the reader uses streams, and streams use their shared parts (mux): output,
// flow control, and the connection's account at the budget. Four interfaces lead back up. role
// holds the differences of a client and a server, streamHandler is the request that a stream
// carries, ender ends the connection after a failed write, and member is a connection as its budget
// knows it.
//
// The window of a stream is how much the peer may send before its reader has read anything. It
// adapts to the reader. A large window is memory that an idle reader holds. A small one limits a
// fast reader to one window per round trip: 512 KiB over 50 ms are 10 MiB/s. So a stream's window
// is small at first, and grows while it is used up within about a round trip. Unread bytes are
// counted over all connections. When there are too many, the streams whose readers have been idle
// longest end first. The connection's own window bounds nothing, so that idle readers cannot stop
// others.
//
// # Locks
//
// One lock, mux.mu, guards a connection and its streams: a frame usually concerns a stream, the
// output and the flow control together, and one lock for them keeps a small request cheap. Methods
// with the suffix Locked require it. Some release it while they wait or write, see their comments;
// the fields of the reader need no lock, since one goroutine reads at a time. A budget's lock comes
// before mux.mu: no goroutine acquires a budget's lock while it holds a connection's. The lock that
// joins records below TLS comes last.
//
// # What the package does not do
//
// Server push and priorities are not supported; both are deprecated. The package does not defend
// against unauthenticated peers: it has no limit for each address, no end for idle connections, and
// no fairness between peers beyond the bounds of one connection.
package h2

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrRefused means that the peer has certainly not begun the request (RFC 9113, 8.7). So the
	// request can be sent again, whatever it does.
	ErrRefused = errors.New("http2: the peer has not begun the request")
	// ErrFull means that the peer takes no more requests at once. Nothing was sent.
	ErrFull = errors.New("http2: the peer takes no more requests at once")
	// ErrBusy means that all connections together have used up the requests or header bytes of
	// their [Budget].
	ErrBusy = errors.New("http2: too many connections, requests or headers at once")
	// ErrTooSlow is the error of a reader whose stream was ended because it had been idle for the
	// longest time when memory was short.
	ErrTooSlow = errors.New("too many received bytes are unread, and this reader has been idle for the longest time")
	// ErrHeaderTooLarge means that the header of an answer is larger than this side accepts.
	ErrHeaderTooLarge = errors.New("http2: the header of the answer is too large")

	errClosed      = errors.New("http2: connection is closed")
	errLost        = errors.New("http2: the peer has closed the connection")
	errSilent      = errors.New("http2: the peer is silent and does not answer PING")
	errWriteStuck  = errors.New("http2: the peer does not take any byte")
	errFlood       = errors.New("http2: the peer asks for more than it reads")
	errNoPreface   = errors.New("http2: the peer does not speak HTTP/2")
	errBodyClosed  = errors.New("http2: the body is closed")
	errAnswerOver  = errors.New("http2: the answer is over")
	errHandlerDone = errors.New("http2: the handler has returned")
	errFromPeer    = errors.New("received from peer")
	errMalformed   = errors.New("http2: malformed request")
)

// Settings are the settings of one side of a connection. All fields are required unless their
// comment makes them optional.
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
		return fmt.Errorf("choose windows: %d bytes at first and %d at most, want %d to %d in this order",
			w.Initial, w.Max, minWindow, maxWindow)
	}
	if s.FrameSize < minFrameSize || s.FrameSize > maxFrameSize {
		return fmt.Errorf("choose frame size: it is %d bytes, want %d to %d", s.FrameSize, minFrameSize, maxFrameSize)
	}
	return nil
}

// peerSettings are the settings that the peer has announced, without the ones that concern frames
// alone (see [output]). Before that a peer takes as many streams as the least generous of usual
// servers.
type peerSettings struct {
	window      int // how much it takes on a stream at first
	streams     int // how many streams it takes at once
	headerBytes int // how large it takes headers
}
