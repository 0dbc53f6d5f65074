// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uploadpack

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Both versions of the protocol are made of packets: lines with their length in front, and marks
// between them.
const (
	packetHeader = 4
	maxPacket    = 65520

	flushPacket     = "0000"
	delimiterPacket = "0001"
)

// agent is the name of this client for upstreams, and agentWord the same without spaces, as a
// capability has it.
const (
	agent     = "git/2.0 (leat)"
	agentWord = "git/2.0-(leat)"
)

// mark is a packet without content, which ends a list of lines.
type mark int

const (
	noMark    mark = iota
	flush          // the end of a message
	delimiter      // the end of a section
)

// writePacket writes a line with its length, which counts itself.
func writePacket(b *strings.Builder, line string) {
	writeRaw(b, line+"\n")
}

// writeRaw writes a text with its length, which counts itself.
func writeRaw(b *strings.Builder, text string) {
	fmt.Fprintf(b, "%04x%s", len(text)+packetHeader, text)
}

// packets reads the lines and marks of one message of at most limit bytes. Every byte comes from
// the upstream: a length beyond the packet size of Git, an end in the middle, and a message beyond
// the limit are errors that match ErrBroken or io.ErrUnexpectedEOF.
type packets struct {
	r     *bufio.Reader
	limit int
	read  int
}

// next returns a line without its end, or a mark. A line by which the upstream reports an error is
// returned as a *remoteError.
func (p *packets) next() (string, mark, error) {
	n, m, err := readHeader(p.r)
	if err != nil || m != noMark {
		return "", m, err
	}
	if p.read += n + packetHeader; p.read > p.limit {
		return "", noMark, fmt.Errorf("%w: a message of more than %d bytes", ErrBroken, p.limit)
	}
	data := make([]byte, n)
	if _, err := io.ReadFull(p.r, data); err != nil {
		return "", noMark, cutOff(err)
	}
	line := strings.TrimSuffix(string(data), "\n")
	if said, ok := strings.CutPrefix(line, "ERR "); ok {
		return "", noMark, &remoteError{said: said, cause: ErrBroken}
	}
	return line, noMark, nil
}

// readHeader returns the length of a packet's content, or the mark that the packet is.
func readHeader(r io.Reader) (int, mark, error) {
	var header [packetHeader]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return 0, noMark, cutOff(err)
	}
	n, err := strconv.ParseUint(string(header[:]), 16, 16)
	switch {
	case err != nil || n == 2 || n == 3 || n > maxPacket:
		return 0, noMark, &strayError{string(header[:]), "the length of a packet"}
	case n == 0:
		return 0, flush, nil
	case n == 1:
		return 0, delimiter, nil
	}
	return int(n) - packetHeader, noMark, nil
}

// cutOff turns an end in the middle of an answer into an error.
func cutOff(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// reply is an answer of the upstream. Its reader may hold more than one message: lines are read
// with packets, and a pack that follows them directly.
type reply struct {
	*bufio.Reader
	body io.Closer
	// isSeparate reports whether the answer is a stream of its own, which ends with it.
	isSeparate bool
}

// newReply returns a reply whose Close closes body.
func newReply(r io.Reader, body io.Closer, isSeparate bool) reply {
	return reply{Reader: bufio.NewReaderSize(r, maxPacket), body: body, isSeparate: isSeparate}
}

// Close ends the reading of the answer.
func (r reply) Close() error { return r.body.Close() }

// fail closes an answer that could not be read, and returns why not.
func (r reply) fail(err error) error { return errors.Join(err, r.Close()) }

// maxRest is how much of an answer is read only to keep its connection.
const maxRest = 4 << 10

// finish closes an answer that was read to its end. Over HTTP, a connection is used again only if
// the rest of the answer was read as well.
func (r reply) finish() {
	if r.isSeparate {
		_, _ = io.Copy(io.Discard, io.LimitReader(r.Reader, maxRest))
	}
	_ = r.Close() // the answer is complete
}

// The channels of a sideband.
const (
	channelPack     = 1
	channelProgress = 2
	channelError    = 3
)

// sideband reads a pack out of its channel, and ends at the mark by which the upstream ends it. An
// end of the answer before that is an error.
type sideband struct {
	r    *bufio.Reader
	left int // of the current packet
	done bool
	io.Closer
	// progress gets the words about the progress. Nil: they are dropped.
	progress io.Writer
}

// Read implements io.Reader.
func (s *sideband) Read(into []byte) (int, error) {
	for s.left == 0 {
		if s.done {
			return 0, io.EOF
		}
		if err := s.next(); err != nil {
			return 0, err
		}
	}
	n, err := s.r.Read(into[:min(len(into), s.left)])
	s.left -= n
	return n, cutOff(err)
}

// next reads the head of the next packet.
func (s *sideband) next() error {
	n, m, err := readHeader(s.r)
	if err != nil {
		return err
	}
	if s.done = m != noMark; s.done {
		return nil
	}
	channel, err := s.r.ReadByte()
	if err != nil {
		return cutOff(err)
	}
	n--
	switch {
	case n < 0:
		return fmt.Errorf("%w: packet without a channel", ErrBroken)
	case channel == channelPack:
		s.left = n
		return nil
	case channel == channelProgress && s.progress != nil:
		_, err := io.CopyN(s.progress, s.r, int64(n))
		return cutOff(err)
	case channel == channelProgress:
		_, err := s.r.Discard(n)
		return cutOff(err)
	case channel == channelError:
		said := make([]byte, n)
		_, err := io.ReadFull(s.r, said)
		return &remoteError{said: strings.TrimSpace(string(said)), cause: errors.Join(ErrBroken, err)}
	}
	return fmt.Errorf("%w: channel %d", ErrBroken, channel)
}
