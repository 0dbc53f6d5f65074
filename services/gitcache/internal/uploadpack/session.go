// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uploadpack

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

const (
	// maxAdvertised bounds the bytes of a list of refs, which is about a million refs. In memory
	// the list takes three times as much.
	maxAdvertised = 64 << 20
	// maxCapabilities bounds the bytes of the capabilities of version 2.
	maxCapabilities = 1 << 20
	// version2Wanted asks for version 2 of the protocol, as an HTTP header and as an environment
	// variable over SSH. A server that does not know it answers in the first version.
	version2Wanted = "version=2"
)

// channel carries the messages of one conversation to the upstream and back: over HTTP each request
// and answer is an exchange of its own, and over SSH all share one stream.
type channel interface {
	// open returns the first message of the upstream.
	open(ctx context.Context) (reply, error)
	// send sends a request, of version 2 of the protocol or of the first, and returns the answer.
	send(ctx context.Context, request string, isVersion2 bool) (reply, error)
	// isStateless reports whether the upstream forgets a request once it is answered.
	isStateless() bool
	// blame adds to an error what the upstream wrote beside the protocol. Nothing can be sent after
	// it.
	blame(err error) error
	io.Closer
}

// Session is one conversation with an upstream: advertise once, then fetch at most once. It is for
// one goroutine.
type Session struct {
	channel       channel // closed with the session
	wantsVersion2 bool    // the client asked for version 2
	// one is set by Advertise where the upstream speaks the first version, and two where it speaks
	// version 2.
	one *version1
	two *version2
}

// Close ends the conversation and its connections. A pack that Fetch returned cannot be read any
// longer.
func (s *Session) Close() error { return s.channel.Close() }

// Advertise lists what the upstream has.
func (s *Session) Advertise(ctx context.Context) (*Offer, error) {
	o, err := s.advertise(ctx)
	if err != nil {
		return nil, s.channel.blame(err)
	}
	return o, nil
}

// advertise reads the first message, and in version 2 of the protocol asks for the refs.
func (s *Session) advertise(ctx context.Context) (*Offer, error) {
	first, err := s.channel.open(ctx)
	if err != nil {
		return nil, err
	}
	o, err := s.readAdvertisement(first.Reader)
	if err != nil {
		return nil, first.fail(err)
	}
	first.finish()
	if s.two == nil {
		return o, nil
	}
	listed, err := s.channel.send(ctx, s.two.listRequest(), true)
	if err != nil {
		return nil, err
	}
	if o, err = s.two.readRefs(&packets{r: listed.Reader, limit: maxAdvertised}); err != nil {
		return nil, listed.fail(err)
	}
	listed.finish()
	return o, nil
}

// readAdvertisement reads the first message of the upstream, which over HTTP begins with the name
// of the service. In the first version of the protocol it is the offer. In version 2 the offer is
// nil and has to be asked for.
func (s *Session) readAdvertisement(r *bufio.Reader) (*Offer, error) {
	if _, err := r.Peek(1); errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: an empty answer", ErrBroken)
	}
	p := &packets{r: r, limit: maxAdvertised}
	line, m, err := p.next()
	if strings.HasPrefix(line, "# service=") {
		if line, m, err = p.next(); err == nil && m == flush {
			line, m, err = p.next()
		}
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("read advertisement: %w", err)
	case s.wantsVersion2 && line == "version 2":
		p.limit, s.two = maxCapabilities, &version2{}
		return nil, s.two.readCapabilities(p)
	}
	s.one = &version1{}
	return s.one.readRefs(p, line, m)
}

// Fetch returns the pack that answers the request. The caller closes it before the session. The
// pack ends with io.EOF only where the upstream ended it; whether it is complete is for its reader
// to decide.
func (s *Session) Fetch(ctx context.Context, r Request) (io.ReadCloser, error) {
	sent, err := s.fetch(ctx, r)
	if err != nil {
		return nil, s.channel.blame(err)
	}
	return sent, nil
}

// fetch asks for the pack in one request, except in the first version of the protocol over HTTP.
// Some servers of that kind demand to acknowledge what both sides have before they are told that
// the client is done. Most answer with the pack at once; others are asked once more for it.
func (s *Session) fetch(ctx context.Context, r Request) (io.ReadCloser, error) {
	if s.two != nil {
		answer, err := s.channel.send(ctx, s.two.fetchRequest(r), true)
		if err != nil {
			return nil, err
		}
		return s.two.openPack(answer)
	}
	haves := r.Haves
	if len(haves) > 0 && s.channel.isStateless() && s.one.acknowledges() {
		answer, err := s.channel.send(ctx, s.one.request(r, haves, false), false)
		if err != nil {
			return nil, err
		}
		round, err := s.one.readRound(answer.Reader)
		if err != nil {
			return nil, answer.fail(err)
		}
		if round.packFollows {
			return s.one.openPack(answer), nil
		}
		answer.finish()
		haves = round.common
	}
	answer, err := s.channel.send(ctx, s.one.request(r, haves, true), false)
	if err != nil {
		return nil, err
	}
	return s.one.openFinal(answer)
}
