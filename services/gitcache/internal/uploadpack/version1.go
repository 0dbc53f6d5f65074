// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uploadpack

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/pack"
)

// version1 writes and reads the messages of the first version of the protocol. The server lists all
// refs unasked, and the list begins with its capabilities.
type version1 struct {
	capabilities []string // words, such as "ofs-delta" and "agent=git/2.45"
}

// The capabilities that the client asks for only where the server has them.
const (
	capMultiAck = "multi_ack_detailed" // acknowledge every object that both sides have
	capNoDone   = "no-done"            // send the pack as soon as the server is ready, without "done"
	capSideband = "side-band-64k"
)

// has reports whether the server has a capability, with a value or without.
func (v *version1) has(name string) bool {
	return slices.ContainsFunc(v.capabilities, func(word string) bool { return word == name || strings.HasPrefix(word, name+"=") })
}

// readRefs reads the list of refs, of which line is the first.
func (v *version1) readRefs(p *packets, line string, m mark) (*Offer, error) {
	line, capabilities, _ := strings.Cut(line, "\x00")
	v.capabilities = strings.Fields(capabilities)
	if slices.Contains(v.capabilities, "object-format=sha256") {
		return nil, errUnsupported
	}
	o := &Offer{}
	for m == noMark {
		err := addAdvertised(o, line)
		if err == nil {
			line, m, err = p.next()
		}
		if err != nil {
			return nil, fmt.Errorf("read advertised refs: %w", err)
		}
	}
	for _, word := range v.capabilities {
		if branch, ok := strings.CutPrefix(word, "symref=HEAD:"); ok {
			o.pointHead(branch)
		}
	}
	return o.complete(), nil
}

// addAdvertised reads "<id> <name>". The name of a tag is followed, on a line of its own, by
// "<id> <name>^{}" with the object that the tag leads to. An empty repository, and the edge of a
// shallow one, have lines that name no ref.
func addAdvertised(o *Offer, line string) error {
	id, name, found := strings.Cut(line, " ")
	if id == "shallow" {
		return nil
	}
	if !found || len(id) != 40 || !pack.IsName(id) {
		return &strayError{line, "a ref"}
	}
	tag, isPeeled := strings.CutSuffix(name, "^{}")
	if !isPeeled {
		o.add(mirror.Ref{Name: name, Object: id, Commit: id})
	} else if last := len(o.Refs) - 1; last >= 0 && o.Refs[last].Name == tag {
		o.Refs[last].Commit = id
	}
	return nil
}

// request returns a request for a pack. With done, the server sends the pack at once. Without, it
// acknowledges haves first.
func (v *version1) request(r Request, haves []string, done bool) string {
	var b strings.Builder
	for i, id := range r.Wants {
		words := []string{"want", id}
		if i == 0 {
			words = append(words, v.choose(r.Thin)...)
		}
		writePacket(&b, strings.Join(words, " "))
	}
	b.WriteString(flushPacket)
	for _, id := range haves {
		writePacket(&b, "have "+id)
	}
	if done {
		writePacket(&b, "done")
	} else {
		b.WriteString(flushPacket)
	}
	return b.String()
}

// choose returns the capabilities that the client uses, of each list the first that the server has.
func (v *version1) choose(thin bool) []string {
	wanted := [][]string{{capMultiAck, "multi_ack"}, {capSideband, "side-band"}, {"ofs-delta"}, {"no-progress"}}
	if thin {
		wanted = append(wanted, []string{"thin-pack"})
	}
	if v.has(capMultiAck) {
		wanted = append(wanted, []string{capNoDone})
	}
	var chosen []string
	for _, names := range wanted {
		if i := slices.IndexFunc(names, v.has); i >= 0 {
			chosen = append(chosen, names[i])
		}
	}
	if v.has("agent") {
		chosen = append(chosen, "agent="+agentWord)
	}
	return chosen
}

// acknowledges reports whether the server acknowledges every object that both sides have.
func (v *version1) acknowledges() bool { return v.has(capMultiAck) || v.has("multi_ack") }

// maxAcknowledged bounds the bytes of acknowledgements: a line for each offered commit, and as many
// again for servers that repeat some.
const maxAcknowledged = 2 * maxHaves * 64

// acknowledged is an answer to haves.
type acknowledged struct {
	common      []string // the commits that the server has, too
	packFollows bool
}

// readRound reads the answer to a request without "done". The answer ends with NAK. A server that
// is ready, and may send the pack without "done", ends with a last ACK and the pack.
func (v *version1) readRound(r *bufio.Reader) (acknowledged, error) {
	var got acknowledged
	isReady, canSkipDone := false, v.has(capMultiAck) && v.has(capNoDone)
	p := packets{r: r, limit: maxAcknowledged}
	for {
		ack, err := readAck(&p)
		switch {
		case err != nil:
			return got, err
		case ack.isNak && isReady && canSkipDone: // the last ACK is still to come
		case ack.isNak:
			return got, nil
		case ack.isLast:
			got.packFollows = true
			return got, nil
		default:
			got.common = append(got.common, ack.id)
			isReady = isReady || ack.isReady
		}
	}
}

// openFinal returns the pack that follows the acknowledgements of a request with "done".
func (v *version1) openFinal(answer reply) (io.ReadCloser, error) {
	p := packets{r: answer.Reader, limit: maxAcknowledged}
	for {
		ack, err := readAck(&p)
		if err != nil {
			return nil, answer.fail(err)
		}
		if (ack.isNak || ack.isLast) && !hasAnotherAck(answer.Reader) {
			return v.openPack(answer), nil
		}
	}
}

// hasAnotherAck reports whether an acknowledgement comes next: some servers repeat the last one.
func hasAnotherAck(r *bufio.Reader) bool {
	ahead, err := r.Peek(packetHeader + 3)
	return err == nil && (bytes.Equal(ahead[packetHeader:], []byte("ACK")) || bytes.Equal(ahead[packetHeader:], []byte("NAK")))
}

// openPack returns the pack that comes next, in a sideband if the server has that. Closing the pack
// closes the answer.
func (v *version1) openPack(answer reply) io.ReadCloser {
	if v.has(capSideband) || v.has("side-band") {
		return &sideband{r: answer.Reader, Closer: answer}
	}
	return answer
}

// ack is one line that answers haves.
type ack struct {
	isNak, isLast, isReady bool
	id                     string
}

// readAck reads NAK, "ACK <id>", which is the last one, or "ACK <id> <status>".
func readAck(p *packets) (ack, error) {
	line, m, err := p.next()
	if err == nil && m != noMark {
		err = fmt.Errorf("%w: acknowledgements end early", ErrBroken)
	}
	if err != nil {
		return ack{}, fmt.Errorf("read acknowledgements: %w", err)
	}
	words := strings.Fields(line)
	switch {
	case len(words) == 1 && words[0] == "NAK":
		return ack{isNak: true}, nil
	case len(words) == 2 && words[0] == "ACK" && pack.IsName(words[1]):
		return ack{isLast: true, id: words[1]}, nil
	case len(words) == 3 && words[0] == "ACK" && pack.IsName(words[1]):
		return ack{id: words[1], isReady: words[2] == "ready"}, nil
	}
	return ack{}, &strayError{line, "an acknowledgement"}
}
