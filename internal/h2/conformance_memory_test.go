// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// The memory oracle sends the same bytes to net/http and to this package, and compares how much memory the two then
// hold. It counts bytes sent and bytes held, never time.

const (
	// oracleFloor is the difference below which two results count as equal: a Go heap cannot be measured more exactly.
	oracleFloor = 3 << 20
	// oracleChunk is how many bytes one connection sends before the next one's turn.
	oracleChunk = 4 << 10
	// slowly is how many bytes a slow reader reads after each chunk that it has sent.
	slowly = 64
	// stalled is how long a side may accept nothing before the test assumes that it has stopped reading. It affects
	// only how long the test takes, not any result.
	stalled = 200 * time.Millisecond
)

// reading says how an attacker reads what the other side sends.
type reading int

const (
	readsAll reading = iota
	readsNone
	readsSlowly
)

// attack describes what a peer sends. Its connections send in turn, from one goroutine.
type attack struct {
	conns    int
	bytes    int // what all connections send together, without the connections' openings
	options  options
	settings []http2.Setting
	reads    reading
	// paced makes a connection wait for its handlers before each chunk, so that no request is refused because there are
	// too many. Once the handlers wait for the peer, the connection stops pacing.
	paced bool
	// each is how many bytes we may hold for each connection, regardless of what net/http holds; zero: no such limit.
	each int
	// handler answers requests in an attack on a server.
	handler http.HandlerFunc
	// ask makes requests from the client of a connection, in an attack on a client. The function that it returns is
	// called before each chunk.
	ask func(ctx context.Context, requests http.RoundTripper) (more func())
	// say appends what a connection sends as its i-th message.
	say func(b []byte, i int) []byte
}

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

// only appends the first n of a connection's requests, and then window updates, which request nothing.
func only(n int, request func(b []byte, i int) []byte) func(b []byte, i int) []byte {
	return func(b []byte, i int) []byte {
		if i < n {
			return request(b, i)
		}
		return appendRaw(b, http2.FrameWindowUpdate, 0, 0, 0, 0, 0, 1)
	}
}

func word(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }

// fragments returns a function that appends an unfinished HEADERS frame, and then CONTINUATION frames of size bytes.
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

// literals appends an unfinished HEADERS frame, and then CONTINUATION frames with one literal field each, which the
// receiver must keep.
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

// written is the body that handlers write. It is a global, so that no connection's memory contains it.
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

// serverAttacks lists the attacks of clients on a server, by name.
var serverAttacks = map[string]attack{
	"rapid reset": {conns: 4, bytes: 512 << 10, handler: hang, say: func(b []byte, i int) []byte {
		b = requests(http.MethodGet, "/", http2.FlagHeadersEndStream)(b, i)
		return appendRaw(b, http2.FrameRSTStream, 0, streamOf(i), word(uint32(http2.ErrCodeCancel))...)
	}},
	"made you reset": {conns: 4, bytes: 512 << 10, handler: hang, say: func(b []byte, i int) []byte {
		b = requests(http.MethodGet, "/", http2.FlagHeadersEndStream)(b, i)
		return appendRaw(b, http2.FrameWindowUpdate, 0, streamOf(i), word(0)...)
	}},
	"made you reset, unread": {conns: 4, bytes: 1 << 20, reads: readsNone, handler: hang, say: func(b []byte, i int) []byte {
		b = requests(http.MethodGet, "/", http2.FlagHeadersEndStream)(b, i)
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
		return appendRaw(requests(http.MethodPost, "/", 0)(b, i), http2.FrameData, 0, streamOf(i), 1)
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
			first, _ := block(":status", "103", "link", strings.Repeat("l", 12<<10))
			return appendRaw(b, http2.FrameHeaders, http2.FlagHeadersEndHeaders, streamOf(i%10), first...)
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

// TestSecMemory runs each attack and requires that this package holds at most 1.5 times what net/http holds after the
// same bytes. It does not run beside other tests, whose memory it would count. On a busy machine one side may be
// delayed before it has read what it was sent. Therefore an attack counts as successful only if it succeeds several
// times in a row.
func TestSecMemory(t *testing.T) { //nolint:paralleltest // it measures the heap
	for side, attacks := range map[string]map[string]attack{"server": serverAttacks, "client": clientAttacks} {
		for name, a := range attacks {
			t.Run(side+"/"+name, func(t *testing.T) {
				const tries = 3
				var excess string
				for range tries {
					if excess = a.compare(t); excess == "" {
						return
					}
				}
				t.Error(excess)
			})
		}
	}
}

// compare attacks all implementations, and returns what is wrong with ours, or "" if nothing is.
func (a attack) compare(t *testing.T) (excess string) {
	t.Helper()
	held := map[string]int{}
	for _, under := range implementations {
		t.Run(under.name, func(t *testing.T) { held[under.name] = a.run(t, under) })
	}
	known, own := held[wellKnown.name], held[ours.name]
	t.Logf("%6.1f MiB held by net/http, %6.1f MiB by us", mib(known), mib(own))
	if limit := a.conns * a.each; limit > 0 && own > limit {
		return fmt.Sprintf("we hold %.1f MiB, want at most %d KiB for each connection", mib(own), a.each>>10)
	}
	if own > known+known/2+oracleFloor {
		return fmt.Sprintf("we hold %.1f MiB, want at most 1.5 times net/http's %.1f MiB and %d MiB", mib(own), mib(known), oracleFloor>>20)
	}
	return ""
}

func mib(bytes int) float64 { return float64(bytes) / (1 << 20) }

// run returns the largest amount of memory that an implementation held at any of several points of an attack.
func (a attack) run(t *testing.T, under implementation) (most int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	before := live()
	assaults := make([]*assault, a.conns)
	for i := range assaults {
		assaults[i] = a.begin(t, ctx, under)
	}
	const looks = 2
	for range looks {
		for sent, more := 0, true; more && sent < a.bytes/looks; {
			more = false
			for _, each := range assaults {
				n := each.send(a, min(oracleChunk, max(a.bytes/a.conns/looks, 1)))
				sent, more = sent+n, more || n > 0
			}
		}
		for _, each := range assaults {
			each.ended = !each.near.awaitTaken() || each.ended
		}
		most = max(most, live()-before)
	}
	runtime.KeepAlive(assaults)
	return most
}

// assault is one connection of an attack.
type assault struct {
	conn  net.Conn
	near  *counted // the attacked side's end
	more  func()
	said  int
	ended bool

	running atomic.Int64 // handlers that have not returned
	stuck   bool
}

// serve returns a handler that counts its running calls.
func (s *assault) serve(handler http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.running.Add(1)
		defer s.running.Add(-1)
		handler(w, r)
	}
}

// pace blocks until nearly all handlers have returned.
func (s *assault) pace() {
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for began := time.Now(); !s.stuck && (s.near.taken.Load() < s.near.sent.Load() || s.running.Load() > 100); {
		s.stuck = time.Since(began) > stalled
		<-look.C
	}
}

// begin opens a connection to the attacked side.
func (a attack) begin(t *testing.T, ctx context.Context, under implementation) *assault {
	t.Helper()
	far, near := loopbackPair(t)
	for _, err := range []error{far.(*net.TCPConn).SetReadBuffer(4 << 10), near.(*net.TCPConn).SetWriteBuffer(4 << 10)} { // so that the kernel keeps little
		if err != nil {
			t.Fatal(err)
		}
	}
	s := &assault{conn: far, near: &counted{Conn: near}, more: func() {}}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var opening bytes.Buffer
	framer := http2.NewFramer(&opening, far)
	var client requester
	if a.ask == nil {
		_ = under.server(t, s.near, s.serve(a.handler), a.options.defaults())
		opening.WriteString(http2.ClientPreface)
	} else {
		client = under.client(t, s.near, a.options.defaults())
		t.Cleanup(func() { _ = client.Close() })
		_, err := io.ReadFull(far, make([]byte, len(http2.ClientPreface)))
		must(err)
	}
	must(framer.WriteSettings(a.settings...))
	must(framer.WriteWindowUpdate(0, 1<<30))
	_, err := far.Write(opening.Bytes())
	must(err)
	s.near.sent.Add(int64(opening.Len()))
	for acknowledged := false; !acknowledged; { // the settings apply after the acknowledgement
		f, err := framer.ReadFrame()
		must(err)
		settings, ok := f.(*http2.SettingsFrame)
		acknowledged = ok && settings.IsAck()
	}
	if a.ask != nil {
		s.more = a.ask(ctx, client)
	}
	if a.reads == readsAll {
		go func() { _, _ = io.Copy(io.Discard, far) }()
	}
	return s
}

// send sends about size bytes and returns how many it has sent; zero if the connection has ended.
func (s *assault) send(a attack, size int) int {
	if s.ended {
		return 0
	}
	s.more()
	if a.paced {
		s.pace()
	}
	b := make([]byte, 0, 2*size)
	for len(b) < size {
		b = a.say(b, s.said)
		s.said++
	}
	_ = s.conn.SetWriteDeadline(time.Now().Add(stalled))
	n, err := s.conn.Write(b)
	s.near.sent.Add(int64(n))
	s.ended = err != nil
	if a.reads == readsSlowly {
		_ = s.conn.SetReadDeadline(time.Now().Add(time.Millisecond))
		_, _ = s.conn.Read(make([]byte, slowly))
	}
	return n
}

// counted is a connection that counts the bytes read from it.
type counted struct {
	net.Conn

	sent, taken atomic.Int64
	closed      atomic.Bool
}

// Read implements net.Conn.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.taken.Add(int64(n))
	return n, err
}

// Close implements net.Conn.
func (c *counted) Close() error {
	c.closed.Store(true)
	return c.Conn.Close()
}

// awaitTaken blocks until everything sent was read, and reports whether it was. It returns early if the connection has
// ended or nothing more is read.
func (c *counted) awaitTaken() bool {
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	last, since := c.taken.Load(), time.Now()
	for !c.closed.Load() && c.taken.Load() < c.sent.Load() && time.Since(since) < stalled {
		<-look.C
		if now := c.taken.Load(); now != last {
			last, since = now, time.Now()
		}
	}
	return c.taken.Load() >= c.sent.Load()
}

// live returns the bytes of objects and goroutine stacks in use, without those that only await collection.
func live() int {
	var m runtime.MemStats
	const alike = 128 << 10
	for last := -1; ; {
		runtime.GC()
		runtime.ReadMemStats(&m)
		now := int(m.HeapAlloc + m.StackInuse)
		if last >= 0 && now < last+alike && now > last-alike {
			return now
		}
		last = now
	}
}
