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

// packets are what version 2 of the protocol is made of: lines with their length before them, and
// marks between them. go-git's reader knows lines and one of the marks.
const (
	packetHeader = 4
	maxPacket    = 65520

	flushPacket     = "0000"
	delimiterPacket = "0001"
)

// mark is what ends a list of lines.
type mark int

const (
	noMark    mark = iota
	flush          // the end of a message
	delimiter      // the end of a section
)

func writePacket(b *strings.Builder, line string) {
	fmt.Fprintf(b, "%04x%s\n", len(line)+packetHeader+1, line)
}

// readHeader returns the length of a packet's content, or the mark that the packet is.
func readHeader(r io.Reader) (int, mark, error) {
	var header [packetHeader]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return 0, noMark, brokenBy(err)
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

// brokenBy makes an end in the middle be seen as such.
func brokenBy(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// readLine returns a line without its end, or a mark. What the upstream reports as an error is one.
func readLine(r *bufio.Reader) (string, mark, error) {
	n, m, err := readHeader(r)
	if err != nil || m != noMark {
		return "", m, err
	}
	data := make([]byte, n)
	if _, err := io.ReadFull(r, data); err != nil {
		return "", noMark, brokenBy(err)
	}
	line := strings.TrimSuffix(string(data), "\n")
	if said, ok := strings.CutPrefix(line, "ERR "); ok {
		return "", noMark, &remoteError{said: said, cause: ErrBroken}
	}
	return line, noMark, nil
}

// The channels of a pack.
const (
	channelPack     = 1
	channelProgress = 2
	channelError    = 3
)

// packReader reads a pack out of its channel. It ends where the upstream says so, and not before.
type packReader struct {
	r    *bufio.Reader
	left int // of the current packet
	done bool
	io.Closer
}

// Read implements io.Reader.
func (p *packReader) Read(into []byte) (int, error) {
	for p.left == 0 {
		if p.done {
			return 0, io.EOF
		}
		if err := p.next(); err != nil {
			return 0, err
		}
	}
	n, err := p.r.Read(into[:min(len(into), p.left)])
	p.left -= n
	return n, brokenBy(err)
}

// next goes on to the next packet.
func (p *packReader) next() error {
	n, m, err := readHeader(p.r)
	if err != nil {
		return err
	}
	if p.done = m != noMark; p.done {
		return nil
	}
	channel, err := p.r.ReadByte()
	if err != nil {
		return brokenBy(err)
	}
	n--
	switch {
	case n < 0:
		return fmt.Errorf("%w: packet without a channel", ErrBroken)
	case channel == channelPack:
		p.left = n
		return nil
	case channel == channelProgress:
		_, err := p.r.Discard(n)
		return brokenBy(err)
	case channel == channelError:
		said := make([]byte, n)
		_, err := io.ReadFull(p.r, said)
		return &remoteError{said: strings.TrimSpace(string(said)), cause: errors.Join(ErrBroken, err)}
	}
	return fmt.Errorf("%w: channel %d", ErrBroken, channel)
}
