// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// appendRaw appends a frame.
func appendRaw(b []byte, kind http2.FrameType, flags http2.Flags, stream uint32, payload ...byte) []byte {
	b = append(b, byte(len(payload)>>16), byte(len(payload)>>8), byte(len(payload)), byte(kind), byte(flags))
	return append(binary.BigEndian.AppendUint32(b, stream), payload...)
}

// block encodes a header twice. The second encoding refers to the first wherever HPACK can.
func block(fields ...string) (first, again []byte) {
	var b bytes.Buffer
	enc := hpack.NewEncoder(&b)
	encode := func() []byte {
		b.Reset()
		for i := 0; i+1 < len(fields); i += 2 {
			_ = enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
		}
		return bytes.Clone(b.Bytes())
	}
	first = encode()
	return first, encode()
}

// requests returns a function that appends the HEADERS frame of a connection's i-th request.
func requests(method, path string, flags http2.Flags, fields ...string) func(b []byte, i int) []byte {
	first, again := block(append([]string{":method", method, ":scheme", "http", ":authority", "a", ":path", path}, fields...)...)
	return func(b []byte, i int) []byte {
		header := again
		if i == 0 {
			header = first
		}
		return appendRaw(b, http2.FrameHeaders, flags|http2.FlagHeadersEndHeaders, streamOf(i), header...)
	}
}

// streamOf returns the id of a connection's i-th request.
func streamOf(i int) uint32 { return uint32(2*i + 1) }

// only appends the first n of a connection's requests, and then window updates, which request
// nothing.
func only(n int, request func(b []byte, i int) []byte) func(b []byte, i int) []byte {
	return func(b []byte, i int) []byte {
		if i < n {
			return request(b, i)
		}
		return appendRaw(b, http2.FrameWindowUpdate, 0, 0, 0, 0, 0, 1)
	}
}

func word(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }

// fragments returns a function that appends an unfinished HEADERS frame, and then CONTINUATION
// frames of size bytes.
func fragments(size int) func(b []byte, i int) []byte {
	piece := bytes.Repeat([]byte{0x88}, size) // ":status: 200", the shortest field there is
	return func(b []byte, i int) []byte {
		if i == 0 {
			return appendRaw(b, http2.FrameHeaders, http2.FlagHeadersEndStream, 1)
		}
		return appendRaw(b, http2.FrameContinuation, 0, 1, piece...)
	}
}

// promise appends the head of a HEADERS frame without any of the header itself.
func promise(b []byte, _ int) []byte {
	return append(b, 1, 0xff, 0xb8, byte(http2.FrameHeaders), 0, 0, 0, 0, 1)
}

// literals appends an unfinished HEADERS frame, and then CONTINUATION frames with one literal field
// each, which the receiver must keep.
func literals(b []byte, i int) []byte {
	const size = 900
	if i == 0 {
		return appendRaw(b, http2.FrameHeaders, http2.FlagHeadersEndStream, 1)
	}
	field := append([]byte{0, 1, 'x', 127, byte((size-127)&127 | 128), (size - 127) >> 7}, bytes.Repeat([]byte{'v'}, size)...)
	return appendRaw(b, http2.FrameContinuation, 0, 1, field...)
}

// hang does not answer until the client has canceled the request.
func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// redirect answers as http.ServeMux does: Location contains the query.
func redirect(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Location", r.URL.String())
	w.WriteHeader(http.StatusMovedPermanently)
}

// written is the body that handlers write. It is a global, so that no connection's memory contains
// it.
var written [8 << 20]byte

// writeOf returns a handler that writes an endless body in pieces of size bytes.
func writeOf(size int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for {
			if _, err := w.Write(written[:size]); err != nil {
				return
			}
		}
	}
}

const bigWindow = 1<<31 - 1

func wide(more ...http2.Setting) []http2.Setting {
	return append([]http2.Setting{{ID: http2.SettingInitialWindowSize, Val: bigWindow}}, more...)
}

// Most attacks consist of the same messages again and again, which are encoded once.
var (
	plainRequest      = requests(http.MethodGet, "/", http2.FlagHeadersEndStream)
	unfinishedRequest = requests(http.MethodPost, "/", 0)
	largeHints, _     = block(":status", "103", "link", strings.Repeat("l", 12<<10))
)

// serverAttacks lists the attacks of clients on a server, by name.
var serverAttacks = map[string]attack{
	"rapid reset": {conns: 4, bytes: 512 << 10, handler: hang, say: func(b []byte, i int) []byte {
		b = plainRequest(b, i)
		return appendRaw(b, http2.FrameRSTStream, 0, streamOf(i), word(uint32(http2.ErrCodeCancel))...)
	}},
	"made you reset": {conns: 4, bytes: 512 << 10, handler: hang, say: func(b []byte, i int) []byte {
		b = plainRequest(b, i)
		return appendRaw(b, http2.FrameWindowUpdate, 0, streamOf(i), word(0)...)
	}},
	"made you reset, unread": {conns: 4, bytes: 1 << 20, reads: readsNone, handler: hang, say: func(b []byte, i int) []byte {
		b = plainRequest(b, i)
		return appendRaw(b, http2.FrameWindowUpdate, 0, streamOf(i), word(0)...)
	}},
	"CONTINUATION, 1,000 bytes each": {conns: 8, bytes: 2 << 20, handler: hang, say: fragments(1000)},
	"CONTINUATION, empty":            {conns: 8, bytes: 2 << 20, handler: hang, say: fragments(0)},
	"CONTINUATION, 9 bytes each":     {conns: 8, bytes: 2 << 20, handler: hang, say: fragments(9)},
	"CONTINUATION, never ended":      {conns: 64, bytes: 64 * 56 << 10, handler: hang, say: literals},
	"PING, read": {conns: 4, bytes: 1 << 20, handler: hang, say: func(b []byte, _ int) []byte {
		return appendRaw(b, http2.FramePing, 0, 0, make([]byte, 8)...)
	}},
	"PING, unread": {conns: 4, bytes: 1 << 20, reads: readsNone, handler: hang, say: func(b []byte, _ int) []byte {
		return appendRaw(b, http2.FramePing, 0, 0, make([]byte, 8)...)
	}},
	"SETTINGS, read": {conns: 4, bytes: 512 << 10, handler: hang, say: func(b []byte, i int) []byte {
		return appendRaw(b, http2.FrameSettings, 0, 0, 0, 4, 0, 0, byte(i), 1)
	}},
	"SETTINGS, unread": {conns: 4, bytes: 1 << 20, reads: readsNone, handler: hang, say: func(b []byte, i int) []byte {
		return appendRaw(b, http2.FrameSettings, 0, 0, 0, 4, 0, 0, byte(i), 1)
	}},
	"HPACK references": {
		conns: 8, bytes: 64 << 10, handler: hang,
		say: only(100, requests(http.MethodGet, "/", http2.FlagHeadersEndStream, repeat(14, "x-a", strings.Repeat("a", 3800))...)),
	},
	"HPACK bombs": {
		conns: 8, bytes: 1 << 20, handler: hang,
		say: only(50, requests(http.MethodGet, "/", http2.FlagHeadersEndStream, repeat(1700, "x-a", "b")...)),
	},
	"HPACK bombs, answered": {
		conns: 64, bytes: 1 << 20, handler: redirect,
		say: requests(http.MethodHead, "/", http2.FlagHeadersEndStream, repeat(1700, "x-a", "b")...),
	},
	"idle connections": {conns: 200, handler: hang},
	"idle connections, used once": {
		conns: 150, bytes: 150 * 8 << 10, handler: redirect,
		say: only(1, requests(http.MethodHead, "/?"+strings.Repeat("q", 3800), http2.FlagHeadersEndStream, "x-a", strings.Repeat("a", 30_000))),
	},
	"idle connections, unfinished HEADERS": {
		conns: 150, bytes: 150, options: options{frameSize: 1 << 20, maxHeader: 64 << 10}, handler: hang,
		say: promise, each: 48 << 10,
	},
	"zero windows": {
		conns: 4, bytes: 64 << 10, handler: writeOf(32 << 10), settings: []http2.Setting{{ID: http2.SettingInitialWindowSize}},
		say: only(500, requests(http.MethodGet, "/", http2.FlagHeadersEndStream)),
	},
	"slow reader of heads": {
		conns: 2, bytes: 384 << 10, reads: readsSlowly, paced: true, handler: redirect,
		settings: []http2.Setting{{ID: http2.SettingHeaderTableSize}},
		say:      requests(http.MethodHead, "/?"+strings.Repeat("q", 3800), http2.FlagHeadersEndStream),
	},
	"slow reader of informational heads": {
		conns: 2, bytes: 32 << 10, reads: readsSlowly, settings: []http2.Setting{{ID: http2.SettingHeaderTableSize}},
		handler: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Link", strings.Repeat("l", 4000))
			for range 100 {
				w.WriteHeader(http.StatusEarlyHints)
			}
		},
		say: only(1000, requests(http.MethodHead, "/", http2.FlagHeadersEndStream)),
	},
	"slow reader of trailers": {
		conns: 2, bytes: 384 << 10, reads: readsSlowly, paced: true, settings: wide(http2.Setting{ID: http2.SettingHeaderTableSize}),
		handler: func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusOK)
			w.Header().Set(http.TrailerPrefix+"X-T", strings.Repeat("t", 4000))
		},
		say: requests(http.MethodGet, "/", http2.FlagHeadersEndStream),
	},
	"slow reader of bodies": {
		conns: 8, bytes: 64 << 10, reads: readsSlowly, settings: wide(), handler: writeOf(32 << 10),
		say: only(100, requests(http.MethodGet, "/", http2.FlagHeadersEndStream)),
	},
	"slow reader of large frames": {
		conns: 8, bytes: 64 << 10, reads: readsSlowly, settings: wide(http2.Setting{ID: http2.SettingMaxFrameSize, Val: 1<<24 - 1}),
		handler: writeOf(len(written)), say: only(4, requests(http.MethodGet, "/", http2.FlagHeadersEndStream)),
	},
	"slow reader of resets": {
		conns: 2, bytes: 2 << 20, reads: readsSlowly, handler: func(http.ResponseWriter, *http.Request) {},
		say: requests(http.MethodPost, "/", 0),
	},
	"endless streams": {conns: 2, bytes: 128 << 10, handler: hang, say: only(1000, func(b []byte, i int) []byte {
		return appendRaw(unfinishedRequest(b, i), http2.FrameData, 0, streamOf(i), 1)
	})},
}

func repeat(times int, fields ...string) (all []string) {
	for range times {
		all = append(all, fields...)
	}
	return all
}

// answers is like requests, for the heads of answers.
func answers(flags http2.Flags, fields ...string) func(b []byte, i int) []byte {
	first, again := block(fields...)
	return func(b []byte, i int) []byte {
		header := again
		if i == 0 {
			header = first
		}
		return appendRaw(b, http2.FrameHeaders, flags|http2.FlagHeadersEndHeaders, streamOf(i), header...)
	}
}

// onStream returns a function that appends the frames of say, all for one stream.
func onStream(stream uint32, say func(b []byte, i int) []byte) func(b []byte, i int) []byte {
	return func(b []byte, i int) []byte {
		from := len(b)
		b = say(b, i)
		binary.BigEndian.PutUint32(b[from+5:], stream)
		return b
	}
}

// asks returns a function that makes n requests and leaves their answers unread.
func asks(n int, req func() *http.Request) func(ctx context.Context, requests http.RoundTripper) func() {
	return func(ctx context.Context, requests http.RoundTripper) func() {
		for range n {
			go leave(ctx, requests, req())
		}
		return func() {}
	}
}

// leave makes a request and reads nothing of its answer.
func leave(ctx context.Context, requests http.RoundTripper, req *http.Request) {
	res, err := requests.RoundTrip(req.WithContext(ctx))
	if err != nil {
		return
	}
	<-ctx.Done()
	_ = res.Body.Close()
}

func getRequest() *http.Request {
	req, _ := http.NewRequestWithContext(context.Background(), http.MethodGet, origin+"/", nil) // the address is valid
	return req
}

func postRequest() *http.Request {
	req, _ := http.NewRequestWithContext(context.Background(), http.MethodPost, origin+"/", newReader(noEnd))
	return req
}

// cancels returns a function that makes requests with large headers and cancels them at once.
func cancels(ctx context.Context, requests http.RoundTripper) func() {
	path := "/?" + strings.Repeat("q", 4000)
	return func() {
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(ctx, 5*time.Millisecond)
				defer cancel()
				req, _ := http.NewRequestWithContext(ctx, http.MethodGet, origin+path, nil)
				leave(ctx, requests, req)
			})
		}
		all.Wait()
	}
}

var many = []http2.Setting{{ID: http2.SettingMaxConcurrentStreams, Val: 1000}}

// clientAttacks lists the attacks of servers on a client, by name.
var clientAttacks = map[string]attack{
	"informational answers": {
		conns: 4, bytes: 2 << 20, settings: many, ask: asks(10, getRequest),
		say: onStream(1, answers(0, ":status", "103", "link", strings.Repeat("l", 3800))),
	},
	"informational answers, large": {
		conns: 4, bytes: 2 << 20, settings: many, ask: asks(10, getRequest),
		say: func(b []byte, i int) []byte {
			return appendRaw(b, http2.FrameHeaders, http2.FlagHeadersEndHeaders, streamOf(i%10), largeHints...)
		},
	},
	"CONTINUATION, 1,000 bytes each": {conns: 8, bytes: 2 << 20, ask: asks(1, getRequest), say: fragments(1000)},
	"CONTINUATION, empty":            {conns: 8, bytes: 2 << 20, ask: asks(1, getRequest), say: fragments(0)},
	"CONTINUATION, 9 bytes each":     {conns: 8, bytes: 2 << 20, ask: asks(1, getRequest), say: fragments(9)},
	"PING, unread": {conns: 2, bytes: 512 << 10, reads: readsNone, ask: asks(1, getRequest), say: func(b []byte, _ int) []byte {
		return appendRaw(b, http2.FramePing, 0, 0, make([]byte, 8)...)
	}},
	"SETTINGS, unread": {conns: 2, bytes: 512 << 10, reads: readsNone, ask: asks(1, getRequest), say: func(b []byte, i int) []byte {
		return appendRaw(b, http2.FrameSettings, 0, 0, 0, 4, 0, 0, byte(i), 1)
	}},
	"SETTINGS, with streams": {conns: 4, bytes: 256 << 10, settings: many, ask: asks(100, getRequest), say: func(b []byte, i int) []byte {
		return appendRaw(b, http2.FrameSettings, 0, 0, 0, 4, 0, 0, byte(i), 1)
	}},
	"HPACK bombs": {
		conns: 8, bytes: 1 << 20, settings: many, ask: asks(50, getRequest),
		say: only(50, answers(0, append([]string{":status", "200"}, repeat(1700, "x-a", "b")...)...)),
	},
	"answers never asked for": {conns: 4, bytes: 1 << 20, settings: many, ask: asks(1, getRequest), say: answers(0, ":status", "200")},
	"answers to requests gone by": {
		conns: 4, bytes: 1 << 20, settings: many, ask: asks(1, getRequest),
		say: onStream(1, answers(http2.FlagHeadersEndStream, ":status", "200", "x-a", strings.Repeat("a", 3800))),
	},
	"promises": {conns: 4, bytes: 1 << 20, ask: asks(1, getRequest), say: func(b []byte, i int) []byte {
		return appendRaw(b, http2.FramePushPromise, http2.FlagPushPromiseEndHeaders, 1, append(word(uint32(2*i+2)), 0x82)...)
	}},
	"unfinished HEADERS": {
		conns: 150, bytes: 150, options: options{frameSize: 1 << 20, maxHeader: 64 << 10}, ask: asks(1, getRequest),
		say: promise, each: 48 << 10,
	},
	"zero windows": {
		conns: 2, bytes: 16 << 10, settings: append([]http2.Setting{{ID: http2.SettingInitialWindowSize}}, many...),
		ask: asks(100, postRequest), say: only(0, nil),
	},
	"slow reader of heads": {
		conns: 2, bytes: 192 << 10, reads: readsSlowly, settings: append([]http2.Setting{{ID: http2.SettingHeaderTableSize}}, many...),
		ask: cancels, say: only(0, nil),
	},
	"slow reader of large frames": {
		conns: 4, bytes: 16 << 10, reads: readsSlowly,
		settings: append(wide(http2.Setting{ID: http2.SettingMaxFrameSize, Val: 1<<24 - 1}), many...), ask: asks(10, postRequest), say: only(0, nil),
	},
}
