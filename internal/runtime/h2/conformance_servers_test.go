// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/net/http2"
)

// verdict is a client's reaction to a server that breaks the protocol, or does not.
type verdict int

const (
	passes  verdict = iota // the request is answered
	resets                 // the request fails, and nothing else
	ends                   // the connection ends, and the request fails
	ignores                // the peer answers afterwards, as if nothing had been
	fails                  // the request fails, and what becomes of the connection is open
	either                 // the request ends, one way or the other
)

// breach is a server's output instead of an answer on a stream.
type breach struct {
	say  func(p *peer, stream uint32)
	want verdict
	// lenient means that x/net's client lets it pass, or does not see it.
	lenient bool
}

// badHead is a breach by the header of the answer alone.
func badHead(fields ...string) breach {
	return breach{say: func(p *peer, stream uint32) { p.head(stream, true, fields...) }, want: resets}
}

// control is a breach by one frame.
func control(want verdict, kind http2.FrameType, flags http2.Flags, on int, payload ...byte) breach {
	return breach{want: want, say: func(p *peer, stream uint32) {
		if on >= 0 {
			stream = uint32(on)
		}
		p.raw(kind, flags, stream, payload...)
	}}
}

// lenient is a breach that only we look at.
func lenient(b breach) breach {
	b.lenient = true
	return b
}

const this = -1 // the stream of the request

var ok = []string{":status", "200"}

var breaches = map[string]breach{
	"good answer": {say: (*peer).answer},
	"head alone":  {say: func(p *peer, s uint32) { p.head(s, true, ok...) }},
	"good padding": {say: func(p *peer, s uint32) {
		p.head(s, false, ok...)
		_ = p.framer.WriteDataPadded(s, true, []byte("hello"), make([]byte, 255))
	}},
	"much padding": {say: func(p *peer, s uint32) { // more than the windows, unless padding is given back
		p.head(s, false, ok...)
		for range 10_000 {
			_ = p.framer.WriteDataPadded(s, false, []byte("h"), make([]byte, 255))
		}
		p.data(s, true, nil)
	}},
	"empty data": {say: func(p *peer, s uint32) {
		p.head(s, false, ok...)
		for range 10_000 {
			p.data(s, false, nil)
		}
		p.data(s, true, nil)
	}},
	"head in pieces": {say: func(p *peer, s uint32) {
		block := p.fields(append(ok, "x-a", "b")...)
		_ = p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: s, EndStream: true, BlockFragment: block[:1]})
		for _, b := range block[1:] {
			_ = p.framer.WriteContinuation(s, false, []byte{b})
		}
		_ = p.framer.WriteContinuation(s, true, nil)
	}},
	"reset behind the end": {say: func(p *peer, s uint32) { p.answer(s); _ = p.framer.WriteRSTStream(s, http2.ErrCodeNo) }},
	"what follows the end": {lenient: true, say: func(p *peer, s uint32) {
		p.answer(s)
		p.data(s, true, []byte("more"))
		p.head(s, true, ok...)
		_ = p.framer.WriteWindowUpdate(s, 0)
		_ = p.framer.WriteWindowUpdate(s, 1<<31-1)
		_ = p.framer.WriteRSTStream(s, http2.ErrCodeProtocol)
		p.raw(http2.FramePriority, 0, s, 0, 0, 0, 0, 5)
	}},
	"head with priority": {say: func(p *peer, s uint32) {
		_ = p.framer.WriteHeaders(http2.HeadersFrameParam{
			StreamID: s, EndStream: true, EndHeaders: true, BlockFragment: p.fields(ok...), Priority: http2.PriorityParam{Weight: 5}, PadLength: 5,
		})
	}},

	"unknown frame":            control(ignores, 0xee, 0xff, this, 1, 2, 3),
	"unknown frame, no stream": control(ignores, 0xef, 0xff, 0),
	"ALTSVC":                   control(ignores, 0xa, 0, 0, 0, 0),
	"PRIORITY_UPDATE":          control(ignores, 0x10, 0, 0, 0, 0, 0, 1, 'u'),
	"PRIORITY":                 control(ignores, http2.FramePriority, 0, this, 0, 0, 0, 0, 5),
	"PRIORITY of another":      control(ignores, http2.FramePriority, 0, 77, 0, 0, 0, 0, 5),
	"unknown setting":          control(ignores, http2.FrameSettings, 0, 0, 0x77, 0x77, 0, 0, 0, 1),
	"no settings":              control(ignores, http2.FrameSettings, 0, 0),
	"pong unasked":             control(ignores, http2.FramePing, http2.FlagPingAck, 0, 1, 2, 3, 4, 5, 6, 7, 8),
	"huge header table":        control(ignores, http2.FrameSettings, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff),
	"no header table":          control(ignores, http2.FrameSettings, 0, 0, 0, 1, 0, 0, 0, 0),

	"PUSH_PROMISE":                 control(ends, http2.FramePushPromise, http2.FlagPushPromiseEndHeaders, this, 0, 0, 0, 2, 0x88),
	"PUSH_PROMISE of nothing":      control(ends, http2.FramePushPromise, http2.FlagPushPromiseEndHeaders, 9, 0, 0, 0, 2, 0x88),
	"PUSH_PROMISE, short":          control(ends, http2.FramePushPromise, http2.FlagPushPromiseEndHeaders, this),
	"DATA on a stream to come":     control(ends, http2.FrameData, 0, 1001, 1),
	"DATA on an even stream":       lenient(control(ends, http2.FrameData, 0, 2, 1)),
	"DATA without a stream":        control(ends, http2.FrameData, 0, 0, 1),
	"DATA with too much padding":   control(ends, http2.FrameData, http2.FlagDataPadded, this, 9, 1),
	"DATA with padding, empty":     control(ends, http2.FrameData, http2.FlagDataPadded, this),
	"HEADERS on a stream to come":  lenient(control(ends, http2.FrameHeaders, http2.FlagHeadersEndHeaders, 1001, 0x88)),
	"HEADERS on an even stream":    lenient(control(ends, http2.FrameHeaders, http2.FlagHeadersEndHeaders, 2, 0x88)),
	"HEADERS without a stream":     control(ends, http2.FrameHeaders, http2.FlagHeadersEndHeaders, 0, 0x88),
	"HEADERS with much padding":    lenient(control(ends, http2.FrameHeaders, http2.FlagHeadersEndHeaders|http2.FlagHeadersPadded, this, 9, 0x88)),
	"HEADERS, priority cut":        control(ends, http2.FrameHeaders, http2.FlagHeadersEndHeaders|http2.FlagHeadersPriority, this, 9),
	"CONTINUATION of nothing":      control(ends, http2.FrameContinuation, http2.FlagContinuationEndHeaders, this, 0x88),
	"RST_STREAM of one to come":    lenient(control(ends, http2.FrameRSTStream, 0, 1001, 0, 0, 0, 8)),
	"RST_STREAM without a stream":  control(ends, http2.FrameRSTStream, 0, 0, 0, 0, 0, 8),
	"RST_STREAM, short":            control(ends, http2.FrameRSTStream, 0, this, 0),
	"SETTINGS on a stream":         control(ends, http2.FrameSettings, 0, this),
	"SETTINGS, cut":                control(ends, http2.FrameSettings, 0, 0, 1, 2, 3),
	"SETTINGS, ack with content":   control(ends, http2.FrameSettings, http2.FlagSettingsAck, 0, 0, 5, 0, 0, 0x40, 0),
	"SETTINGS, window too large":   control(ends, http2.FrameSettings, 0, 0, 0, 4, 0x80, 0, 0, 0),
	"SETTINGS, frames too small":   control(ends, http2.FrameSettings, 0, 0, 0, 5, 0, 0, 0, 100),
	"SETTINGS, odd push":           control(ends, http2.FrameSettings, 0, 0, 0, 2, 0, 0, 0, 2),
	"PING on a stream":             control(ends, http2.FramePing, 0, this, 1, 2, 3, 4, 5, 6, 7, 8),
	"PING, short":                  control(ends, http2.FramePing, 0, 0, 1),
	"GOAWAY on a stream":           control(ends, http2.FrameGoAway, 0, this, 0, 0, 0, 0, 0, 0, 0, 0),
	"GOAWAY, short":                control(ends, http2.FrameGoAway, 0, 0, 0),
	"WINDOW_UPDATE by 0":           control(resets, http2.FrameWindowUpdate, 0, this, 0, 0, 0, 0),
	"WINDOW_UPDATE of all by 0":    control(ends, http2.FrameWindowUpdate, 0, 0, 0, 0, 0, 0),
	"WINDOW_UPDATE by too much":    control(resets, http2.FrameWindowUpdate, 0, this, 0x7f, 0xff, 0xff, 0xff),
	"WINDOW_UPDATE of all, much":   control(ends, http2.FrameWindowUpdate, 0, 0, 0x7f, 0xff, 0xff, 0xff),
	"WINDOW_UPDATE, short":         control(ends, http2.FrameWindowUpdate, 0, 0, 1),
	"WINDOW_UPDATE of one to come": lenient(control(ends, http2.FrameWindowUpdate, 0, 1001, 0, 0, 0, 1)),
	"frame that is too large":      control(ends, http2.FrameData, 0, this, make([]byte, 64<<10+1)...),
	"invalid index":                control(ends, http2.FrameHeaders, http2.FlagHeadersEndHeaders, this, 0xff, 0xff, 0x03),
	"header that is cut":           control(ends, http2.FrameHeaders, http2.FlagHeadersEndHeaders, this, 0x88, 0x40),
	"dynamic table too large":      control(ends, http2.FrameHeaders, http2.FlagHeadersEndHeaders, this, 0x3f, 0xff, 0xff, 0xff, 0x7f),

	"DATA first": {say: func(p *peer, s uint32) { p.data(s, true, []byte("hello")) }, want: resets},
	"head of something else in between": {want: ends, say: func(p *peer, s uint32) {
		_ = p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: s, BlockFragment: p.fields(ok...)})
		_ = p.framer.WritePing(false, [8]byte{})
	}},
	"head goes on elsewhere": {want: ends, say: func(p *peer, s uint32) {
		_ = p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: s, BlockFragment: p.fields(ok...)})
		_ = p.framer.WriteContinuation(s+2, true, nil)
	}},
	"endless head": {want: ends, say: func(p *peer, s uint32) {
		_ = p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: s, BlockFragment: p.fields(ok...)})
		for range 10_000 {
			if p.framer.WriteContinuation(s, false, p.fields("x-a", strings.Repeat("ä", 8000))) != nil {
				return
			}
		}
	}},
	"endless head of what is in the table": {want: fails, say: func(p *peer, s uint32) {
		_ = p.fields("x-large", strings.Repeat("x", 3000))
		p.head(s, false, append(ok, "x-large", strings.Repeat("x", 3000))...)
		_ = p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: s, BlockFragment: nil})
		for range 1000 { // 16 MB of frames would be 48 GB of headers
			if p.framer.WriteContinuation(s, false, bytes.Repeat([]byte{0xbe}, 16<<10)) != nil {
				return
			}
		}
	}},
	"header above the limit": {want: resets, say: func(p *peer, s uint32) {
		fields := ok
		for i := range 9 {
			fields = append(fields, fmt.Sprint("x-", i), strings.Repeat("x", 8<<10))
		}
		block := p.fields(fields...)
		_ = p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: s, BlockFragment: block[:1000]})
		for rest := block[1000:]; len(rest) > 0; {
			n := min(len(rest), 16<<10)
			_ = p.framer.WriteContinuation(s, n == len(rest), rest[:n])
			rest = rest[n:]
		}
		p.data(s, true, []byte("hello"))
	}},

	"no status":              badHead("x-a", "b"),
	"empty header":           badHead(),
	"status of letters":      badHead(":status", "abc"),
	"status of two digits":   lenient(badHead(":status", "20")),
	"status of four digits":  lenient(badHead(":status", "2000")),
	"status with a sign":     lenient(badHead(":status", "+20")),
	"negative status":        lenient(badHead(":status", "-20")),
	"empty status":           badHead(":status", ""),
	"two statuses":           lenient(badHead(":status", "200", ":status", "200")),
	"status 101":             lenient(badHead(":status", "101")),
	"informational and last": badHead(":status", "103"),
	"pseudo field behind":    badHead("x-a", "b", ":status", "200"),
	"unknown pseudo field":   badHead(":status", "200", ":what", "b"),
	"field of a request":     badHead(":status", "200", ":path", "/"),
	"upper case":             badHead(":status", "200", "X-A", "b"),
	"space in a name":        badHead(":status", "200", "x a", "b"),
	"empty name":             badHead(":status", "200", "", "b"),
	"break in a value":       badHead(":status", "200", "x-a", "b\nc: d"),
	"zero in a value":        badHead(":status", "200", "x-a", "b\x00"),

	"second head": {want: resets, lenient: true, say: func(p *peer, s uint32) { p.head(s, false, ok...); p.head(s, false, ok...) }},
	"trailer without an end": {want: resets, lenient: true, say: func(p *peer, s uint32) {
		p.head(s, false, ok...)
		p.data(s, false, []byte("hello"))
		p.head(s, false, "x-a", "b")
	}},
	"trailer with a status": {want: resets, lenient: true, say: func(p *peer, s uint32) {
		p.head(s, false, ok...)
		p.data(s, false, []byte("hello"))
		p.head(s, true, ":status", "200")
	}},
	"shorter than announced": {want: fails, say: func(p *peer, s uint32) {
		p.head(s, false, append(ok, "content-length", "10")...)
		p.data(s, true, []byte("hello"))
	}},
	"longer than announced": {want: resets, say: func(p *peer, s uint32) {
		p.head(s, false, append(ok, "content-length", "3")...)
		p.data(s, true, []byte("hello"))
	}},
	"shorter than announced, with a trailer": {want: fails, say: func(p *peer, s uint32) {
		p.head(s, false, append(ok, "content-length", "10")...)
		p.data(s, false, []byte("hello"))
		p.head(s, true, "x-a", "b")
	}},
	"two lengths": {want: either, say: func(p *peer, s uint32) {
		p.head(s, false, append(ok, "content-length", "5", "content-length", "3")...)
		p.data(s, true, []byte("hello"))
	}},
	"length that is none": {want: either, say: func(p *peer, s uint32) {
		p.head(s, false, append(ok, "content-length", "-5")...)
		p.data(s, true, []byte("hello"))
	}},
	"reset by NO_ERROR": {want: resets, say: func(p *peer, s uint32) { _ = p.framer.WriteRSTStream(s, http2.ErrCodeNo) }},
	"reset in the body": {want: resets, say: func(p *peer, s uint32) {
		p.head(s, false, ok...)
		p.data(s, false, []byte("hello"))
		_ = p.framer.WriteRSTStream(s, http2.ErrCodeNo)
	}},
	"endless informational answers": {want: fails, say: func(p *peer, s uint32) {
		for range 20_000 {
			p.head(s, false, ":status", "103", "x-a", "b")
		}
	}},
}

// TestConformanceServersThatBreakTheProtocol has the client fail broken streams, and nothing more.
// Nothing hangs.
func TestConformanceServersThatBreakTheProtocol(t *testing.T) {
	for name, breach := range breaches {
		t.Run(name, func(t *testing.T) {
			conformClient(t, func(t *testing.T, client implementation) {
				if breach.lenient && client.name == wellKnown.name {
					t.Skip("x/net's client is lenient")
				}
				requests, p := serverPeer(t, client, http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 100})
				done := begin(t, requests, http.MethodGet, nil)
				stream := p.request()
				breach.say(p, stream)
				if breach.want == ignores {
					p.answer(stream)
				}
				got := receive(t, "request", done)
				switch breach.want {
				case passes, ignores:
					want(t, "error", got.err, nil)
					want(t, "status", got.status, http.StatusOK)
				case resets, ends, fails:
					if got.err == nil {
						t.Errorf("got %v, want an error", got)
					}
				case either:
				}
				if breach.want == ends {
					p.ended()
					return
				}
				if breach.want == fails || breach.want == either {
					return
				}
				done = begin(t, requests, http.MethodGet, nil)
				p.answer(p.request())
				want(t, "request behind it", receive(t, "request behind it", done), asked{http.StatusOK, "hello", nil})
			})
		})
	}
}
