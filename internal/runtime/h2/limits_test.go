// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/leatdev/leat/internal/runtime/h2"
)

// limited returns a budget with these limits.
func limited(t *testing.T, l h2.Limits) *h2.Budget {
	t.Helper()
	l.Unread = 1 << 20
	b, err := h2.NewBudgetOf(l)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// serveWithin serves a raw client within a budget.
func serveWithin(t *testing.T, b *h2.Budget, handler http.HandlerFunc) *peer {
	t.Helper()
	near, far := loopbackPair(t)
	server := h2.NewServer(context.WithoutCancel(t.Context()), far, h2.ServerParams{
		Settings: options{}.defaults().settings(), Budget: b, Handler: handler, Logger: slog.New(slog.DiscardHandler),
	})
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve()
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-served
	})
	p := newPeer(t, near)
	_, err := io.WriteString(near, http2.ClientPreface)
	p.must(err)
	p.must(p.framer.WriteSettings(generous...))
	go p.listen()
	return p
}

// wantReset waits for the reset of a stream.
func (p *peer) wantReset(stream uint32, code http2.ErrCode) {
	p.t.Helper()
	f := p.hear("reset", func(f heardFrame) bool { return f.Type == http2.FrameRSTStream })
	want(p.t, "reset stream", f.StreamID, stream)
	want(p.t, "reason", f.code, code)
}

// TestSecConnectionsOfAProcess opens one connection too many and requires that only that one is
// refused.
func TestSecConnectionsOfAProcess(t *testing.T) {
	t.Parallel()
	b := limited(t, h2.Limits{Connections: 2})
	handler := func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }
	first, second := serveWithin(t, b, handler), serveWithin(t, b, handler)
	first.pinged()
	second.pinged()
	third := serveWithin(t, b, handler)
	f := third.hear("goaway", func(f heardFrame) bool { return f.Type == http2.FrameGoAway })
	want(t, "reason", f.code, http2.ErrCodeEnhanceYourCalm)
	third.ended()

	near, _ := loopbackPair(t)
	client := h2.NewClient(near, options{}.defaults().settings(), b)
	if _, err := client.RoundTrip(newRequest(t, http.MethodGet, "/", nil)); !errors.Is(err, h2.ErrBusy) || !errors.Is(err, h2.ErrRefused) {
		t.Errorf("a client too many: got %v, want ErrBusy and ErrRefused", err)
	}
	receive(t, "the client's end", client.Done())

	first.pinged()
	_ = second.conn.Close()
	second.ended()
	await(t, "room for a connection", func() bool {
		again := serveWithin(t, b, handler)
		f := again.hear("settings, or the end", func(f heardFrame) bool { return f.Type == http2.FrameSettings && f.Flags.Has(http2.FlagSettingsAck) })
		_ = again.conn.Close()
		return f.Type == http2.FrameSettings
	})
}

// TestSecStreamsOfAProcess sends one request too many over all connections and requires that it is
// refused, at both sides.
func TestSecStreamsOfAProcess(t *testing.T) {
	t.Parallel()
	b := limited(t, h2.Limits{Streams: 3})
	p, q := serveWithin(t, b, hang), serveWithin(t, b, hang)
	p.ask(1, true)
	p.ask(3, true)
	p.pinged()
	q.ask(1, true)
	q.ask(3, true)
	q.wantReset(3, http2.ErrCodeRefusedStream)

	near, far := loopbackPair(t)
	client := h2.NewClient(near, options{}.defaults().settings(), b)
	defer client.Close()
	server := newPeer(t, far)
	server.greetClient(generous...)
	if _, err := client.RoundTrip(newRequest(t, http.MethodGet, "/", nil)); !errors.Is(err, h2.ErrBusy) {
		t.Errorf("a client's request too many: got %v, want ErrBusy", err)
	}
	server.pinged()

	p.must(p.framer.WriteRSTStream(1, http2.ErrCodeCancel))
	await(t, "room for a stream", func() bool { return b.Streams() == 2 })
	done := begin(t, client, http.MethodGet, nil)
	server.answer(server.request())
	want(t, "request when there is room", receive(t, "answer", done), asked{http.StatusOK, "hello", nil})
	_ = p.conn.Close()
	_ = q.conn.Close()
	await(t, "all streams to be given back", func() bool { return b.Streams() == 0 && b.HeaderBytes() == 0 })
}

// TestSecHeaderBytesOfAProcess requires that requests and answers are refused if their headers are
// too large, and connections with unfinished headers are closed.
func TestSecHeaderBytesOfAProcess(t *testing.T) {
	t.Parallel()
	large := repeat(8, "x-a", strings.Repeat("x", 3800)) // 30,000 bytes that HPACK compresses to a few
	long := make([]byte, 30<<10)
	t.Run("requests", func(t *testing.T) {
		t.Parallel()
		b := limited(t, h2.Limits{HeaderBytes: 100 << 10})
		p, q := serveWithin(t, b, hang), serveWithin(t, b, hang)
		for stream := uint32(1); stream < 7; stream += 2 {
			p.ask(stream, true, large...)
		}
		p.pinged()
		q.ask(1, true, large...)
		q.wantReset(1, http2.ErrCodeRefusedStream)
		q.ask(3, true) // a small one fits
		q.pinged()
		await(t, "four requests", func() bool { return b.Streams() == 4 })
		_ = p.conn.Close()
		_ = q.conn.Close()
		await(t, "all bytes to be given back", func() bool { return b.HeaderBytes() == 0 })
	})
	t.Run("headers that do not end", func(t *testing.T) {
		t.Parallel()
		b := limited(t, h2.Limits{HeaderBytes: 100 << 10})
		var peers []*peer
		for range 3 {
			p := serveWithin(t, b, hang)
			p.raw(http2.FrameHeaders, 0, 1, long...)
			peers = append(peers, p)
		}
		await(t, "three headers", func() bool { return b.HeaderBytes() >= 3*30<<10 })
		q := serveWithin(t, b, hang)
		q.raw(http2.FrameHeaders, 0, 1, long...)
		f := q.hear("goaway", func(f heardFrame) bool { return f.Type == http2.FrameGoAway })
		want(t, "reason", f.code, http2.ErrCodeEnhanceYourCalm)
		q.ended()
		for _, p := range peers {
			_ = p.conn.Close()
		}
		await(t, "all bytes to be given back", func() bool { return b.HeaderBytes() == 0 })
	})
	t.Run("answers", func(t *testing.T) {
		t.Parallel()
		b := limited(t, h2.Limits{HeaderBytes: 100 << 10})
		near, far := loopbackPair(t)
		client := h2.NewClient(near, options{}.defaults().settings(), b)
		defer client.Close()
		server := newPeer(t, far)
		server.greetClient(generous...)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for range 3 {
			go leave(ctx, client, newRequest(t, http.MethodGet, "/", nil))
			server.head(server.request(), false, append([]string{":status", "200"}, large...)...)
		}
		server.pinged()
		done := begin(t, client, http.MethodGet, nil)
		server.head(server.request(), false, append([]string{":status", "200"}, large...)...)
		if got := receive(t, "answer", done); !errors.Is(got.err, h2.ErrBusy) {
			t.Errorf("an answer too many: got %v, want ErrBusy", got)
		}
		cancel()
		await(t, "all bytes to be given back", func() bool { return b.HeaderBytes() == 0 })
		server.pinged()
	})
}

// TestSecGoAwayLingers requires that a server keeps a connection open for a second after GOAWAY and
// no longer. Meanwhile the server reads some of what the client sends and answers nothing.
func TestSecGoAwayLingers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		near, far := memoryPair(t)
		serving := ours.server(t, far, http.NotFoundHandler(), options{}.defaults())
		defer serving.Close()
		p := newPeer(t, near)
		_, err := io.WriteString(near, http2.ClientPreface)
		p.must(err)
		p.must(p.framer.WriteSettings())
		go p.listen()
		began := time.Now()
		p.raw(http2.FrameData, 0, 1, 1) // stream 1 does not exist
		f := p.hear("goaway", func(f heardFrame) bool { return f.Type == http2.FrameGoAway })
		want(t, "reason", f.code, http2.ErrCodeProtocol)
		for err == nil { // until the connection is closed
			_, err = near.Write(make([]byte, 64<<10))
		}
		if took := time.Since(began); took < time.Second || took > 2*time.Second {
			t.Errorf("the connection has ended after %v, want a second", took)
		}
		p.ended()
	})
}

// TestSecUnreadResets requires that a server ends a connection whose client leaves too many resets
// unread, and sends the reason instead of the resets.
func TestSecUnreadResets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		near, far := memoryPair(t)
		serving := ours.server(t, far, http.NotFoundHandler(), options{}.defaults())
		defer serving.Close()
		server, ok := serving.(*h2.Server)
		if !ok {
			t.Fatalf("got a %T", serving)
		}
		p := newPeer(t, near)
		_, err := io.WriteString(near, http2.ClientPreface)
		p.must(err)
		p.must(p.framer.WriteSettings(generous...))
		p.ask(1, true)
		for server.Err() == nil {
			p.data(1, false, make([]byte, 10)) // the server answers this with a reset
			synctest.Wait()
		}
		if held := server.Held(); held > h2.MaxHeld {
			t.Errorf("%d bytes were held, want at most %d", held, h2.MaxHeld)
		}
		go p.listen()
		f := p.hear("goaway", func(f heardFrame) bool { return f.Type == http2.FrameGoAway })
		want(t, "reason", f.code, http2.ErrCodeEnhanceYourCalm)
		p.ended()
	})
}

// TestSecRequestsForASlowServer requires that the headers of requests, and the resets of canceled
// ones, wait for a server that reads nothing.
func TestSecRequestsForASlowServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		near, far := memoryPair(t)
		client := h2.NewClient(near, options{}.defaults().settings(), newBudget(t))
		defer client.Close()
		p := newPeer(t, far)
		_, err := io.ReadFull(far, make([]byte, len(http2.ClientPreface)))
		p.must(err)
		p.must(p.framer.WriteSettings(generous...))
		synctest.Wait()
		for range 10 {
			ctx, cancel := context.WithCancel(t.Context())
			for range 100 {
				req := newRequest(t, http.MethodGet, "/", nil).WithContext(ctx)
				req.Header.Set("X-Large", largeValue)
				go leave(ctx, client, req)
			}
			synctest.Wait() // until all requests without room wait
			cancel()
			synctest.Wait() // one of them may still be writing
		}
		if held, limit := client.Held(), h2.MaxHeld+2*largeHeader; held > limit {
			t.Errorf("%d bytes were held, want at most %d", held, limit)
		}
		want(t, "connection's error", client.Err(), nil)
	})
}
