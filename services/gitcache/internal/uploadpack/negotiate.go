// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uploadpack

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
)

// capNoDone lets an upstream that is ready send the pack without being told "done".
const capNoDone capability.Capability = "no-done"

// maxAcks bounds the acknowledgements of one round: one for each offered object, and as many again
// for servers that repeat some.
const maxAcks = 2 * maxHaves

// multiAck reports whether the upstream acknowledges every object that both sides have.
func multiAck(req *packp.UploadPackRequest) bool {
	return req.Capabilities.Supports(capability.MultiACKDetailed) || req.Capabilities.Supports(capability.MultiACK)
}

// encodeRequest writes wants and haves, and either "done" or what asks for acknowledgements first.
func encodeRequest(w io.Writer, req *packp.UploadPackRequest, haves []plumbing.Hash, done bool) error {
	if err := req.UploadRequest.Encode(w); err != nil {
		return fmt.Errorf("send wants: %w", err)
	}
	lines := pktline.NewEncoder(w)
	for _, have := range haves {
		if err := lines.Encodef("have %s\n", have); err != nil {
			return fmt.Errorf("send haves: %w", err)
		}
	}
	if !done {
		if err := lines.Flush(); err != nil {
			return fmt.Errorf("send haves: %w", err)
		}
		return nil
	}
	if err := lines.EncodeString("done\n"); err != nil {
		return fmt.Errorf("send done: %w", err)
	}
	return nil
}

// answer is what an upstream says to wants and haves.
type answer struct {
	common []plumbing.Hash // of our haves, what it has too
	pack   bool            // the pack follows
}

// readRound reads the answer to a request without "done". It ends with NAK, or, where the upstream
// is ready and may do so unasked, with a last ACK and the pack.
func readRound(r *bufio.Reader, noDone bool) (answer, error) {
	var a answer
	ready := false
	lines := pktline.NewScanner(r)
	for lines.Scan() {
		ack, err := parseAck(lines.Bytes())
		if err != nil {
			return a, err
		}
		switch {
		case ack.nak && ready && noDone: // the last ACK is still to come
		case ack.nak:
			return a, nil
		case ack.last:
			a.pack = true
			return a, nil
		case len(a.common) == maxAcks:
			return a, fmt.Errorf("%w: more acknowledgements than there was to acknowledge", ErrBroken)
		default:
			a.common = append(a.common, ack.hash)
			ready = ready || ack.ready
		}
	}
	return a, brokenOff(lines.Err())
}

// readFinal reads the acknowledgements before the pack. Some servers repeat the last one.
func readFinal(r *bufio.Reader) error {
	lines := pktline.NewScanner(r)
	for lines.Scan() {
		ack, err := parseAck(lines.Bytes())
		if err != nil {
			return err
		}
		if (ack.nak || ack.last) && !moreAcks(r) {
			return nil
		}
	}
	return brokenOff(lines.Err())
}

func moreAcks(r *bufio.Reader) bool {
	ahead, err := r.Peek(7)
	return err == nil && (bytes.Equal(ahead[4:], []byte("ACK")) || bytes.Equal(ahead[4:], []byte("NAK")))
}

func brokenOff(err error) error {
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("read acknowledgements: %w", err)
}

type ack struct {
	nak, last, ready bool
	hash             plumbing.Hash
}

func parseAck(line []byte) (ack, error) {
	words := strings.Fields(string(line))
	switch {
	case len(words) == 1 && words[0] == "NAK":
		return ack{nak: true}, nil
	case len(words) == 2 && words[0] == "ACK" && plumbing.IsHash(words[1]):
		return ack{last: true, hash: plumbing.NewHash(words[1])}, nil
	case len(words) == 3 && words[0] == "ACK" && plumbing.IsHash(words[1]):
		return ack{hash: plumbing.NewHash(words[1]), ready: words[2] == "ready"}, nil
	}
	return ack{}, &strayError{string(line), "an acknowledgement"}
}

// decodePack reads past the acknowledgements and returns the pack that follows. Closing it closes
// body.
func decodePack(r *bufio.Reader, body io.Closer, req *packp.UploadPackRequest) (io.ReadCloser, error) {
	if err := readFinal(r); err != nil {
		return nil, errors.Join(err, body.Close())
	}
	return openPack(r, body, req), nil
}

// openPack reads the pack out of the channel it comes in, if any.
func openPack(r io.Reader, body io.Closer, req *packp.UploadPackRequest) io.ReadCloser {
	switch {
	case req.Capabilities.Supports(capability.Sideband64k):
		r = sideband.NewDemuxer(sideband.Sideband64k, r)
	case req.Capabilities.Supports(capability.Sideband):
		r = sideband.NewDemuxer(sideband.Sideband, r)
	}
	return readCloser{r, body}
}

type readCloser struct {
	io.Reader
	io.Closer
}
