// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package recording

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/moby/spdystream/spdy"
)

// Bounds of a control frame, beyond which a peer is up to something else than a session.
const (
	maxControlFrame = 64 << 10
	maxStreams      = 64
)

var errNotSPDY = errors.New("the session does not speak SPDY as remotecommand does")

// streams are the channels of a SPDY connection's streams. The caller's direction fills them, and
// both read them.
type streams struct {
	mu       sync.Mutex
	channels map[uint32]byte
}

func (s *streams) channel(id uint32) (byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	channel, ok := s.channels[id]
	return channel, ok
}

func (s *streams) add(id uint32, kind string) error {
	channel, ok := map[string]byte{
		"stdin": channelStdin, "stdout": channelStdout, "stderr": channelStderr, "resize": channelResize,
	}[kind]
	if !ok {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.channels) >= maxStreams {
		return errNotSPDY
	}
	s.channels[id] = channel
	return nil
}

// spdyReader reads the frames of one direction. It holds a frame's header, and the caller's control
// frames that have headers: those are compressed with what was before.
type spdyReader struct {
	streams *streams
	emit    func(channel byte, data []byte) error
	framer  *spdy.Framer // nil if headers are not read
	source  bytes.Buffer // of the framer

	header  []byte
	left    uint32
	data    bool
	keep    bool // the frame is for the framer
	channel byte
	known   bool
}

func newSPDYReader(s *streams, emit func(byte, []byte) error, headers bool) (*spdyReader, error) {
	r := &spdyReader{streams: s, emit: emit}
	if !headers {
		return r, nil
	}
	framer, err := spdy.NewFramerWithOptions(&bytes.Buffer{}, &r.source,
		spdy.WithMaxControlFramePayloadSize(maxControlFrame), spdy.WithMaxHeaderFieldSize(maxControlFrame), spdy.WithMaxHeaderCount(100))
	if err != nil {
		return nil, fmt.Errorf("make SPDY framer: %w", err)
	}
	r.framer = framer
	return r, nil
}

// feed reads bytes as they come.
func (r *spdyReader) feed(p []byte) error {
	for len(p) > 0 {
		n, err := r.step(p)
		if err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

func (r *spdyReader) step(p []byte) (int, error) {
	const headerSize = 8
	if len(r.header) < headerSize {
		n := min(len(p), headerSize-len(r.header))
		r.header = append(r.header, p[:n]...)
		if len(r.header) < headerSize {
			return n, nil
		}
		if err := r.begin(); err != nil {
			return n, err
		}
		return n, r.endIfWhole()
	}
	n := int(min(uint32(len(p)), r.left))
	r.left -= uint32(n)
	switch {
	case r.data && r.known:
		if err := r.emit(r.channel, p[:n]); err != nil {
			return n, err
		}
	case r.keep:
		r.source.Write(p[:n])
	}
	return n, r.endIfWhole()
}

// begin reads a frame's header.
func (r *spdyReader) begin() error {
	word := binary.BigEndian.Uint32(r.header)
	r.left = binary.BigEndian.Uint32(r.header[4:]) & 0xffffff
	r.data, r.keep = word&0x80000000 == 0, false
	if r.data {
		r.channel, r.known = r.streams.channel(word)
		return nil
	}
	switch spdy.ControlFrameType(word & 0xffff) {
	case spdy.TypeSynStream, spdy.TypeSynReply, spdy.TypeHeaders:
	default:
		return nil
	}
	if r.framer == nil {
		return nil
	}
	if r.left > maxControlFrame {
		return errNotSPDY
	}
	r.keep = true
	r.source.Reset()
	r.source.Write(r.header)
	return nil
}

// endIfWhole reads a control frame that is whole, and expects the next one.
func (r *spdyReader) endIfWhole() error {
	if r.left > 0 {
		return nil
	}
	r.header = r.header[:0]
	if !r.keep {
		return nil
	}
	r.keep = false
	frame, err := r.framer.ReadFrame()
	if err != nil {
		return fmt.Errorf("%w: %w", errNotSPDY, err)
	}
	if syn, ok := frame.(*spdy.SynStreamFrame); ok {
		return r.streams.add(uint32(syn.StreamId), syn.Headers.Get("streamType"))
	}
	return nil
}
