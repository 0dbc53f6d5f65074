// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2_test

import (
	"bytes"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/leatdev/leat/internal/runtime/h2"
)

// script is a peer's input in a fuzz test: frames that are nearly good, so that they come further
// than bytes at random.
type script struct {
	rest   []byte
	out    bytes.Buffer
	framer *http2.Framer
	block  bytes.Buffer
	enc    *hpack.Encoder
}

// frames makes frames of bytes.
func frames(data []byte) []byte {
	s := &script{rest: data}
	s.framer = http2.NewFramer(&s.out, nil)
	s.framer.AllowIllegalWrites = true
	s.enc = hpack.NewEncoder(&s.block)
	for len(s.rest) > 0 && s.out.Len() < 1<<20 {
		s.frame()
	}
	return s.out.Bytes()
}

func (s *script) byte() byte {
	if len(s.rest) == 0 {
		return 0
	}
	b := s.rest[0]
	s.rest = s.rest[1:]
	return b
}

func (s *script) bytes() []byte {
	n := min(int(s.byte()), len(s.rest))
	b := s.rest[:n]
	s.rest = s.rest[n:]
	return b
}

// word is a number that is often near a limit.
func (s *script) word() uint32 {
	limits := [...]uint32{0, 1, 5, 1000, 65535, 1 << 20, 1<<31 - 1, 1 << 31, 1<<32 - 1}
	if b := s.byte(); int(b) < len(limits) {
		return limits[b]
	}
	return uint32(s.byte())<<8 | uint32(s.byte())
}

// stream is one that there may be.
func (s *script) stream() uint32 { return uint32(s.byte() % 12) }

func (s *script) header() []byte {
	fields := [...][2]string{
		{":status", "200"},
		{":status", "103"},
		{":status", "204"},
		{":method", "POST"},
		{":method", "HEAD"},
		{":scheme", "http"},
		{":path", "/"},
		{":authority", "a"},
		{"content-length", "5"},
		{"content-length", "0"},
		{"trailer", "x-a"},
		{"x-a", "b"},
		{"expect", "100-continue"},
		{"cookie", "a=b"},
		{"te", "trailers"},
		{"X-B", "\n"},
	}
	add := func(f [2]string) { _ = s.enc.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}) }
	s.block.Reset()
	switch s.byte() % 4 {
	case 0: // a good answer
		add(fields[0])
	case 1: // a good request
		for _, f := range fields[5:8] {
			add(f)
		}
		add(fields[3])
	case 2:
		return bytes.Clone(s.bytes())
	}
	for range s.byte() % 4 {
		add(fields[int(s.byte())%len(fields)])
	}
	return bytes.Clone(s.block.Bytes())
}

// frame adds one. An invalid frame is left out.
func (s *script) frame() {
	switch s.byte() % 13 {
	case 12: // many requests or answers at once
		header, flags := s.header(), s.byte()
		for stream := range uint32(s.byte()) {
			_ = s.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*stream + 1, BlockFragment: header, EndStream: flags&1 != 0, EndHeaders: true})
			if flags&2 != 0 {
				_ = s.framer.WriteRSTStream(2*stream+1, http2.ErrCodeCancel)
			}
		}
	case 0, 1:
		flags := s.byte()
		_ = s.framer.WriteHeaders(http2.HeadersFrameParam{
			StreamID: s.stream(), BlockFragment: s.header(), EndStream: flags&1 != 0, EndHeaders: flags&6 != 0, PadLength: s.byte() / 16,
		})
	case 2:
		_ = s.framer.WriteData(s.stream(), s.byte()&1 != 0, make([]byte, s.word()%70_000))
	case 3:
		_ = s.framer.WriteDataPadded(s.stream(), s.byte()&1 != 0, s.bytes(), make([]byte, s.byte()))
	case 4:
		_ = s.framer.WriteSettings(http2.Setting{ID: http2.SettingID(s.byte() % 10), Val: s.word()})
	case 5:
		_ = s.framer.WriteWindowUpdate(s.stream(), s.word())
	case 6:
		_ = s.framer.WriteRSTStream(s.stream(), http2.ErrCode(s.byte()%16))
	case 7:
		_ = s.framer.WriteGoAway(s.stream(), http2.ErrCode(s.byte()%16), s.bytes())
	case 8:
		_ = s.framer.WritePing(s.byte()&1 != 0, [8]byte{s.byte()})
	case 9:
		_ = s.framer.WriteContinuation(s.stream(), s.byte()&1 != 0, s.header())
	case 10:
		_ = s.framer.WriteRawFrame(http2.FrameType(s.byte()), http2.Flags(s.byte()), s.stream(), s.bytes())
	case 11:
		_, _ = s.out.Write(s.bytes())
	}
}

// seed adds scripts of all lengths.
func seed(f *testing.F) {
	f.Helper()
	for i := range uint64(300) {
		random := rand.New(rand.NewPCG(i, 1))
		script := make([]byte, 1+random.IntN(400))
		for j := range script {
			script[j] = byte(random.Uint32())
		}
		f.Add(script)
	}
}

// slowReader reads from conn in one of three ways, chosen by the script's length so that all old
// scripts have one: everything at once, a little at a time, or nothing until said is closed.
func slowReader(conn net.Conn, data []byte, said <-chan struct{}) (drained <-chan struct{}) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		switch len(data) % 3 {
		case 1:
			for piece := make([]byte, 100); ; {
				if _, err := conn.Read(piece); err != nil {
					return
				}
				select {
				case <-said:
				case <-time.After(time.Millisecond):
				}
			}
		case 2:
			<-said
		}
		_, _ = io.Copy(io.Discard, conn)
	}()
	return done
}

// wantHeld fails if a connection had more pending at once than its bound plus the largest header of
// the test's handlers and requests.
func wantHeld(t *testing.T, held int) {
	t.Helper()
	if limit := h2.MaxHeld + largeHeader + 1<<10; held > limit {
		t.Errorf("%d bytes were pending, want at most %d", held, limit)
	}
}

// largeHeader is the size of the large headers that requests and answers in the fuzz tests have.
const largeHeader = 8 << 10

// FuzzClient has a client that makes some requests end with its connection, whatever is said on it.
func FuzzClient(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		watchGoroutines(t)
		near, far := memoryPair(t)
		unread := newBudget(t)
		client := h2.NewClient(near, options{}.defaults().settings(), unread)
		defer client.Close()
		requests := []<-chan asked{
			begin(t, client, http.MethodGet, nil), begin(t, client, http.MethodPost, bytes.NewReader(make([]byte, 100_000))),
			begin(t, client, http.MethodHead, nil), begin(t, client, http.MethodPut, newReader(noEnd)),
		}
		for range 20 {
			requests = append(requests, beginLarge(t, client))
		}
		said := make(chan struct{})
		drained := slowReader(far, data, said)
		framer := http2.NewFramer(far, nil)
		_ = framer.WriteSettings(generous...)
		_, _ = far.Write(frames(data)) // it fails when the client has had enough
		close(said)
		_ = far.Close()
		for _, request := range requests {
			_ = receive(t, "request", request)
		}
		receive(t, "the connection's end", drained)
		receive(t, "the client's end", client.Done())
		wantHeld(t, client.Held())
		want(t, "streams", unread.Streams(), 0)
		want(t, "bytes of headers", unread.HeaderBytes(), 0)
		want(t, "unread bytes", unread.Used(), 0)
	})
}

// beginLarge is begin for a request with a large header.
func beginLarge(t *testing.T, client requester) <-chan asked {
	t.Helper()
	req := newRequest(t, http.MethodGet, "/", nil)
	req.Header.Set("X-Large", largeValue)
	done := make(chan asked, 1)
	go func() {
		res, err := client.RoundTrip(req)
		if err == nil {
			_ = res.Body.Close()
		}
		done <- asked{err: err}
	}()
	return done
}

var largeValue = strings.Repeat("x", largeHeader)

// FuzzServer has a server and its handlers end with their connection, whatever is said on it.
func FuzzServer(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		watchGoroutines(t)
		near, far := memoryPair(t)
		unread := newBudget(t)
		server := h2.NewServer(t.Context(), far, h2.ServerParams{
			Settings: options{}.defaults().settings(), Budget: unread, Logger: slog.New(slog.DiscardHandler),
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("X-Large", largeValue)
				if r.Method == http.MethodHead {
					w.WriteHeader(http.StatusEarlyHints)
					return
				}
				_, _ = io.Copy(w, r.Body)
				_, _ = w.Write(written[:200_000])
				w.Header().Set(http.TrailerPrefix+"X-T", largeValue)
			}),
		})
		served := make(chan error, 1)
		go func() { served <- server.Serve() }()
		said := make(chan struct{})
		drained := slowReader(near, data, said)
		framer := http2.NewFramer(near, nil)
		_, _ = io.WriteString(near, http2.ClientPreface)
		_ = framer.WriteSettings(generous...)
		_, _ = near.Write(frames(data)) // it fails when the server has had enough
		close(said)
		_ = near.Close()
		receive(t, "the connection's end", drained)
		if err := receive(t, "the server's end", served); err == nil {
			t.Error("the server does not say why it has ended")
		}
		wantHeld(t, server.Held())
		await(t, "handlers to end", func() bool { return unread.Streams() == 0 })
		want(t, "bytes of headers", unread.HeaderBytes(), 0)
		want(t, "unread bytes", unread.Used(), 0)
	})
}
