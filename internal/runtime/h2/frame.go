// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"encoding/binary"

	"golang.org/x/net/http2"
)

// Lengths of a frame's head and of payloads (RFC 9113, 4.1 and 6) that x/net/http2 does not name.
const (
	frameHeadLen = 9
	settingLen   = 6
	pingLen      = 8
	wordLen      = 4
	priorityLen  = 5
	// reservedBit precedes stream ids and increments. It has no meaning.
	reservedBit = 1 << 31
	maxStreamID = 1<<31 - 1
)

// The questions that this package's PINGs ask. The answer contains the same number.
const (
	pingAlive     byte = iota + 1 // is the peer alive?
	pingGoAway                    // has it read the GOAWAY before the PING?
	pingRoundTrip                 // how long does a byte take to it and back?
)

// frame is the head of a frame. Payloads are read where they are used: data goes to where it is
// kept, and a header is decoded in the buffer that it was read to. So this package does not have a
// type for each kind of frame, as x/net/http2 has, nor an allocation for each frame.
type frame struct {
	length int
	kind   http2.FrameType
	flags  http2.Flags
	id     uint32 // of the stream; zero for the connection
}

// parseFrame returns the head of a frame from its first frameHeadLen bytes.
func parseFrame(p []byte) frame {
	return frame{
		length: int(p[0])<<16 | int(p[1])<<8 | int(p[2]), kind: http2.FrameType(p[3]), flags: http2.Flags(p[4]),
		id: binary.BigEndian.Uint32(p[5:]) &^ reservedBit,
	}
}

// validate returns an error for a frame of the wrong length, or that concerns a stream and should
// not, or the other way round (RFC 9113, 6). It knows the frame's head only. No client of this
// package allows push.
func (f frame) validate() error {
	isOfConnection := f.kind == http2.FrameSettings || f.kind == http2.FramePing || f.kind == http2.FrameGoAway
	mayBeEither := f.kind == http2.FrameWindowUpdate
	if isOfConnection != (f.id == 0) && !mayBeEither || f.kind == http2.FramePushPromise {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	isValid := true
	switch f.kind {
	case http2.FrameWindowUpdate, http2.FrameRSTStream:
		isValid = f.length == wordLen
	case http2.FramePing:
		isValid = f.length == pingLen
	case http2.FrameGoAway:
		isValid = f.length >= 2*wordLen
	case http2.FrameSettings:
		isValid = f.length%settingLen == 0 && (f.length == 0 || !f.flags.Has(http2.FlagSettingsAck))
	default: // any length
	}
	if !isValid {
		return http2.ConnectionError(http2.ErrCodeFrameSize)
	}
	return nil
}

func appendFrame(b []byte, f frame) []byte {
	b = append(b, byte(f.length>>16), byte(f.length>>8), byte(f.length), byte(f.kind), byte(f.flags))
	return binary.BigEndian.AppendUint32(b, f.id)
}

func appendSettings(b []byte, settings ...http2.Setting) []byte {
	b = appendFrame(b, frame{length: settingLen * len(settings), kind: http2.FrameSettings})
	for _, s := range settings {
		b = binary.BigEndian.AppendUint16(b, uint16(s.ID))
		b = binary.BigEndian.AppendUint32(b, s.Val)
	}
	return b
}

func appendSettingsAck(b []byte) []byte {
	return appendFrame(b, frame{kind: http2.FrameSettings, flags: http2.FlagSettingsAck})
}

func appendWindowUpdate(b []byte, id uint32, increment int) []byte {
	b = appendFrame(b, frame{length: wordLen, kind: http2.FrameWindowUpdate, id: id})
	return binary.BigEndian.AppendUint32(b, uint32(increment))
}

func appendReset(b []byte, id uint32, code http2.ErrCode) []byte {
	b = appendFrame(b, frame{length: wordLen, kind: http2.FrameRSTStream, id: id})
	return binary.BigEndian.AppendUint32(b, uint32(code))
}

// appendPing appends one of the package's own questions.
func appendPing(b []byte, question byte) []byte {
	return append(appendFrame(b, frame{length: pingLen, kind: http2.FramePing}), 'l', 'e', 'a', 't', 0, 0, 0, question)
}

// appendPong appends the answer to the peer's PING, which has the same payload.
func appendPong(b, payload []byte) []byte {
	return append(appendFrame(b, frame{length: pingLen, kind: http2.FramePing, flags: http2.FlagPingAck}), payload...)
}

func appendGoAway(b []byte, last uint32, code http2.ErrCode) []byte {
	b = appendFrame(b, frame{length: 2 * wordLen, kind: http2.FrameGoAway})
	b = binary.BigEndian.AppendUint32(b, last)
	return binary.BigEndian.AppendUint32(b, uint32(code))
}

// appendBlock appends a header block: a HEADERS frame, and CONTINUATION frames if the block is
// longer than the largest frame that the peer takes.
func appendBlock(b []byte, id uint32, block []byte, end bool, largest int) []byte {
	f := frame{kind: http2.FrameHeaders, id: id}
	if end {
		f.flags = http2.FlagHeadersEndStream
	}
	for {
		f.length = min(len(block), largest)
		if f.length == len(block) {
			f.flags |= http2.FlagHeadersEndHeaders
		}
		b = append(appendFrame(b, f), block[:f.length]...)
		if block = block[f.length:]; len(block) == 0 {
			return b
		}
		f.kind, f.flags = http2.FrameContinuation, 0
	}
}

func appendData(b []byte, id uint32, data []byte, end bool) []byte {
	f := frame{length: len(data), kind: http2.FrameData, id: id}
	if end {
		f.flags = http2.FlagDataEndStream
	}
	return append(appendFrame(b, f), data...)
}
