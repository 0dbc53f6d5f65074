// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"net/http"
	"strings"
)

// The marks that distinguish the protocols.
const (
	http2Head   = "PRI * HTTP/2.0\r\n\r\n" // which is followed by
	http2Rest   = "SM\r\n\r\n"
	headEnd     = "\r\n\r\n"
	largestHead = 1 << 20
)

// Sizes and types of the inspected frames.
const (
	http2Header = 9
	http2Ping   = 6
	wsPing      = 9
	wsPong      = 10
)

// framer follows the bytes of one direction far enough to drop keep-alive frames: a head of
// HTTP/1.1 that may request or grant an Upgrade, then HTTP/2 or WebSocket. It forwards anything
// else unchanged.
type framer struct {
	state  func(f *framer, in []byte) []byte // consumes some of in; nil: begin
	head   []byte                            // the part of a head or header read so far
	out    []byte
	left   int // of the current payload
	eat    bool
	opaque bool
}

// feed takes bytes and returns those to forward, in newly allocated memory.
func (f *framer) feed(in []byte, eat bool) []byte {
	f.out, f.eat = make([]byte, 0, len(in)+http2Header), eat
	if f.state == nil {
		f.state = (*framer).begin
	}
	for len(in) > 0 {
		if f.opaque {
			f.out = append(f.out, in...)
			break
		}
		in = f.state(f, in)
	}
	return f.out
}

// begin distinguishes HTTP/2 from a head. The length of a first HTTP/2 frame begins with a zero, a
// head with a capital letter.
func (f *framer) begin(in []byte) []byte {
	switch first := in[0]; {
	case first == 0:
		f.next((*framer).http2)
	case first >= 'A' && first <= 'Z':
		f.next((*framer).text)
	default:
		f.opaque = true
	}
	return in
}

// text forwards a head unchanged, and looks for its end.
func (f *framer) text(in []byte) []byte {
	before := len(f.head)
	f.head = append(f.head, in...)
	from := max(0, before-len(headEnd)+1)
	i := bytes.Index(f.head[from:], []byte(headEnd))
	if i < 0 {
		f.out = append(f.out, in...)
		f.opaque = len(f.head) > largestHead
		return nil
	}
	f.head = f.head[:from+i+len(headEnd)]
	consumed := len(f.head) - before
	f.out = append(f.out, in[:consumed]...)
	f.after()
	return in[consumed:]
}

// after decides what follows a head.
func (f *framer) after() {
	if string(f.head) == http2Head {
		f.left = len(http2Rest)
		f.payload(false, (*framer).http2)
		return
	}
	switch protocol := upgradeOf(f.head); {
	case strings.EqualFold(protocol, "websocket"):
		f.next((*framer).webSocket)
	case protocol != "":
		f.next((*framer).begin)
	default:
		f.opaque = true
	}
}

// upgradeOf returns the protocol that a request asks for or a 101 grants, or "".
func upgradeOf(head []byte) string {
	reader := bufio.NewReader(bytes.NewReader(head))
	if bytes.HasPrefix(head, []byte("HTTP/")) {
		response, err := http.ReadResponse(reader, nil)
		if err != nil || response.StatusCode != http.StatusSwitchingProtocols {
			return ""
		}
		_ = response.Body.Close()
		return response.Header.Get("Upgrade")
	}
	request, err := http.ReadRequest(reader)
	if err != nil {
		return ""
	}
	return request.Header.Get("Upgrade")
}

func (f *framer) next(state func(*framer, []byte) []byte) {
	f.state, f.head = state, f.head[:0]
}

// http2 reads a frame's header.
func (f *framer) http2(in []byte) []byte {
	in = f.gather(in, http2Header)
	if len(f.head) < http2Header {
		return in
	}
	f.left = int(f.head[0])<<16 | int(f.head[1])<<8 | int(f.head[2])
	f.frame(f.eat && f.head[3] == http2Ping, (*framer).http2)
	return in
}

// webSocket reads a frame's header, which is two bytes long or more.
func (f *framer) webSocket(in []byte) []byte {
	if in = f.gather(in, 2); len(f.head) < 2 {
		return in
	}
	length, extra := int(f.head[1]&0x7f), 0
	switch length {
	case 126:
		extra = 2
	case 127:
		extra = 8
	}
	size := 2 + extra
	if f.head[1]&0x80 != 0 {
		size += 4 // the mask
	}
	if in = f.gather(in, size); len(f.head) < size {
		return in
	}
	switch extra {
	case 2:
		length = int(binary.BigEndian.Uint16(f.head[2:]))
	case 8:
		length = int(binary.BigEndian.Uint64(f.head[2:]))
	}
	f.left = length
	opcode := f.head[0] & 0x0f
	f.frame(f.eat && (opcode == wsPing || opcode == wsPong), (*framer).webSocket)
	return in
}

// gather fills the head up to n bytes and returns the rest of in.
func (f *framer) gather(in []byte, n int) []byte {
	missing := min(n-len(f.head), len(in))
	if missing <= 0 {
		return in
	}
	f.head = append(f.head, in[:missing]...)
	return in[missing:]
}

// frame begins the payload of the frame whose header is complete.
func (f *framer) frame(drop bool, then func(*framer, []byte) []byte) {
	if !drop {
		f.out = append(f.out, f.head...)
	}
	f.payload(drop, then)
}

// payload takes f.left bytes and continues with then.
func (f *framer) payload(drop bool, then func(*framer, []byte) []byte) {
	if f.left == 0 {
		f.next(then)
		return
	}
	f.next(func(f *framer, in []byte) []byte {
		n := min(f.left, len(in))
		if !drop {
			f.out = append(f.out, in[:n]...)
		}
		if f.left -= n; f.left == 0 {
			f.next(then)
		}
		return in[n:]
	})
}
