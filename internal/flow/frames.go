// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package flow

import "encoding/binary"

// What is needed of HTTP/2's frames (RFC 9113, 4.1 and 6).
const (
	frameHeaderLen = 9
	frameData      = 0x0
	frameHeaders   = 0x1
	frameRST       = 0x3
	frameSettings  = 0x4
	frameWindow    = 0x8

	flagEndStream = 0x1
	flagAck       = 0x1

	settingInitialWindow = 0x4
	settingLen           = 6
	windowLen            = 4
)

// preface is the number of bytes that a client sends before its first frame.
const preface = 24

// frame is the head of a frame.
type frame struct {
	length int
	kind   byte
	flags  byte
	stream uint32
}

func (f frame) endsStream() bool {
	return f.kind == frameRST || (f.kind == frameData || f.kind == frameHeaders) && f.flags&flagEndStream != 0
}

// frames follows a stream of frames through pieces of any size.
type frames struct {
	skip int // bytes left before the next frame's head
	head [frameHeaderLen]byte
	have int // bytes of head that are there
}

// follow calls visit for each frame whose head ends in p. The payload is what p has of it, none of it when the frame ends elsewhere:
// visit may change it.
func (s *frames) follow(p []byte, visit func(f frame, payload []byte)) {
	for len(p) > 0 {
		if s.skip > 0 {
			n := min(s.skip, len(p))
			s.skip, p = s.skip-n, p[n:]
			continue
		}
		n := copy(s.head[s.have:], p)
		s.have, p = s.have+n, p[n:]
		if s.have < frameHeaderLen {
			return
		}
		f := frame{
			length: int(s.head[0])<<16 | int(s.head[1])<<8 | int(s.head[2]), kind: s.head[3], flags: s.head[4],
			stream: binary.BigEndian.Uint32(s.head[5:]) & 0x7fffffff,
		}
		s.have, s.skip = 0, f.length
		var payload []byte
		if len(p) >= f.length {
			payload = p[:f.length]
		}
		visit(f, payload)
	}
}
