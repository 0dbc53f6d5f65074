// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kubeproxy

import (
	"encoding/binary"
	"errors"
	"strings"
)

// Close codes of WebSocket (RFC 6455, 7.4.1, and its registry).
const (
	closeGoingAway       = 1001
	closePolicyViolation = 1008
	closeBadGateway      = 1014
)

// closeFrame is the first byte of a WebSocket frame that closes the connection.
const closeFrame = 0x88

// farewell is the last message to a caller, with the reason why a session ends early. WebSocket has
// one, which may be sent only between two frames, so farewell follows where the frames end. Other
// protocols have none.
type farewell struct {
	websocket bool
	header    [14]byte // of the frame that is coming in
	have      int      // bytes of it
	body      uint64   // bytes of the frame still to come
	closed    bool     // the cluster has sent its own last message
}

func newFarewell(protocol string) *farewell {
	return &farewell{websocket: strings.EqualFold(protocol, "websocket")}
}

// follow records bytes on their way to the caller.
func (f *farewell) follow(p []byte) {
	if !f.websocket {
		return
	}
	for len(p) > 0 {
		if skip := min(f.body, uint64(len(p))); skip > 0 {
			f.body -= skip
			p = p[skip:]
			continue
		}
		f.header[f.have] = p[0]
		f.have++
		p = p[1:]
		if f.have >= 2 && f.have == headerLength(f.header[1]) {
			f.closed = f.closed || f.header[0]&0x0f == closeFrame&0x0f
			f.body, f.have = bodyLength(f.header), 0
		}
	}
}

// headerLength returns the length of a frame's header, which its second byte determines.
func headerLength(second byte) int {
	length := 2
	switch second & 0x7f {
	case 126:
		length += 2
	case 127:
		length += 8
	}
	if second&0x80 != 0 {
		length += 4 // the mask
	}
	return length
}

func bodyLength(header [14]byte) uint64 {
	switch short := header[1] & 0x7f; short {
	case 126:
		return uint64(binary.BigEndian.Uint16(header[2:]))
	case 127:
		return binary.BigEndian.Uint64(header[2:])
	default:
		return uint64(short)
	}
}

// message returns the bytes to write before the connection is closed for this cause. It is empty if
// nothing can be sent.
func (f *farewell) message(cause error) []byte {
	if !f.websocket || f.closed || f.have > 0 || f.body > 0 {
		return nil
	}
	code, reason := closeBadGateway, "the connection to the cluster's agent was lost"
	switch {
	case errors.Is(cause, errDrained):
		code, reason = closeGoingAway, "this replica of the hub shuts down; connect again"
	case errors.Is(cause, errRevoked):
		code, reason = closePolicyViolation, "the permission was withdrawn"
	}
	frame := []byte{closeFrame, byte(2 + len(reason))}
	frame = binary.BigEndian.AppendUint16(frame, uint16(code))
	return append(frame, reason...)
}
