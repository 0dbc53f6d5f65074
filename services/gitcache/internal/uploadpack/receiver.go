// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uploadpack

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"strings"

	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

const (
	// maxReport bounds the bytes of the answer to a push, with everything that hooks print.
	maxReport = 1 << 20
	// maxHookWords is how much of what hooks print is kept: the beginning.
	maxHookWords = 2 << 10
)

// Receiver is one conversation with git-receive-pack at an upstream, over the same channels as a
// [Session], in the first version of the protocol. It reads and writes lines; package receivepack
// knows what they mean. It is opened once, and sends at most once. It is for one goroutine.
type Receiver struct {
	channel channel // closed with the receiver
}

// DialReceiver opens a conversation. Nothing is sent before the guard has agreed.
func (c *Client) DialReceiver(ctx context.Context, p mirror.FetchParams) (*Receiver, error) {
	t, err := c.target(p.Definition)
	if err != nil {
		return nil, err
	}
	if t.isSSH() {
		s, err := c.dialSSH(ctx, p, t, string(receives)+" "+shellQuote(t.endpoint.Path), false)
		if err != nil {
			return nil, err
		}
		return &Receiver{channel: s}, nil
	}
	carrier, err := c.newAuthorizer(t, p, true)
	if err != nil {
		return nil, err
	}
	return &Receiver{channel: newHTTPChannel(carrier, receives, false)}, nil
}

// Close ends the conversation and its connections.
func (r *Receiver) Close() error { return r.channel.Close() }

// Blame adds to an error what the upstream wrote beside the protocol. Nothing can be sent after it.
func (r *Receiver) Blame(err error) error { return r.channel.blame(err) }

// Open returns the upstream's list of refs, without the name of the service that begins it over
// HTTP.
func (r *Receiver) Open(ctx context.Context) (*Lines, error) {
	first, err := r.channel.open(ctx)
	if err != nil {
		return nil, err
	}
	lines := &Lines{packets: packets{r: first.Reader, limit: maxAdvertised}, answer: first}
	if ahead, err := first.Peek(packetHeader + len("# service=")); err == nil && bytes.HasPrefix(ahead[packetHeader:], []byte("# service=")) {
		for m := noMark; m != flush; {
			if _, m, err = lines.next(); err != nil {
				return nil, first.fail(err)
			}
		}
	}
	return lines, nil
}

// Send sends a request: a list of commands and a pack. It returns the report, which comes in a
// sideband or without one.
func (r *Receiver) Send(ctx context.Context, request string, hasSideband bool) (*Lines, error) {
	answer, err := r.channel.send(ctx, request, false)
	if err != nil {
		return nil, err
	}
	lines := &Lines{answer: answer}
	bounded := bufio.NewReader(io.LimitReader(answer.Reader, maxReport))
	if hasSideband {
		bounded = bufio.NewReader(&sideband{r: bounded, Closer: answer, progress: &lines.printed})
	}
	lines.packets = packets{r: bounded, limit: maxReport}
	return lines, nil
}

// Lines are one message of the upstream.
type Lines struct {
	packets

	answer  reply
	printed words
}

// Next returns a line without its end. isEnd: the message has ended.
func (l *Lines) Next() (line string, isEnd bool, err error) {
	line, m, err := l.next()
	return line, m != noMark, err
}

// Printed returns the beginning of what hooks have printed so far.
func (l *Lines) Printed() string { return string(l.printed) }

// Finish ends the reading of a message that was read to its end, so that its connection is used
// again.
func (l *Lines) Finish() { l.answer.finish() }

// Close ends the reading.
func (l *Lines) Close() error { return l.answer.Close() }

// words keep the beginning of what is written to them.
type words []byte

// Write implements io.Writer.
func (w *words) Write(p []byte) (int, error) {
	*w = append(*w, p[:min(len(p), maxHookWords-len(*w))]...)
	return len(p), nil
}

// WriteLine appends a packet with a line to b, as Git's own client writes commands: without an end
// of line.
func WriteLine(b *strings.Builder, line string) { writeRaw(b, line) }

// WriteFlush appends the packet that ends a list.
func WriteFlush(b *strings.Builder) { b.WriteString(flushPacket) }

// Quote returns a sentence that repeats the upstream's words without credentials, to end a message
// with, or "".
func Quote(said string, def mirror.Definition) string {
	return quoted(&remoteError{said: said, cause: ErrBroken}, def)
}
