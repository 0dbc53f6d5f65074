// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package recording

import "encoding/binary"

// Channels of the remotecommand protocols over WebSocket, of which each message's first byte is
// one.
const (
	channelStdin  = 0
	channelStdout = 1
	channelStderr = 2
	channelResize = 4
)

// websocket reads the frames of one direction (RFC 6455). It holds a frame's header and nothing
// else.
type websocket struct {
	header  []byte // of the frame that begins, as far as it has come
	left    uint64 // of the frame's payload
	mask    [4]byte
	at      int // in the mask
	control bool
	begins  bool // the message's channel has not come yet
	channel byte
	emit    func(channel byte, data []byte) error
}

// feed reads bytes as they come. Whatever they are, it does not fail; the error is emit's.
func (w *websocket) feed(p []byte) error {
	for len(p) > 0 {
		if w.left == 0 {
			p = w.readHeader(p)
			continue
		}
		n := int(min(uint64(len(p)), w.left))
		err := w.payload(p[:n])
		w.left -= uint64(n)
		p = p[n:]
		if err != nil {
			return err
		}
	}
	return nil
}

// readHeader takes one byte more until the header is whole.
func (w *websocket) readHeader(p []byte) []byte {
	w.header = append(w.header, p[0])
	if len(w.header) < 2 {
		return p[1:]
	}
	need, short := 2, w.header[1]&0x7f
	switch short {
	case 126:
		need += 2
	case 127:
		need += 8
	}
	masked := w.header[1]&0x80 != 0
	if masked {
		need += 4
	}
	if len(w.header) < need {
		return p[1:]
	}
	switch short {
	case 126:
		w.left = uint64(binary.BigEndian.Uint16(w.header[2:]))
	case 127:
		w.left = binary.BigEndian.Uint64(w.header[2:])
	default:
		w.left = uint64(short)
	}
	w.mask, w.at = [4]byte{}, 0
	if masked {
		copy(w.mask[:], w.header[need-4:])
	}
	opcode := w.header[0] & 0x0f
	w.control = opcode >= 8 // such frames may come between the frames of a message
	if !w.control && opcode != 0 {
		w.begins = true
	}
	w.header = w.header[:0]
	return p[1:]
}

func (w *websocket) payload(p []byte) error {
	if w.control {
		return nil
	}
	plain := make([]byte, len(p))
	for i, b := range p {
		plain[i] = b ^ w.mask[w.at&3]
		w.at++
	}
	if w.begins {
		w.channel, w.begins = plain[0], false
		plain = plain[1:]
	}
	if len(plain) == 0 {
		return nil
	}
	return w.emit(w.channel, plain)
}
