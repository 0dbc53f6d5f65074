// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/leatdev/leat/internal/runtime/h2"
	"github.com/leatdev/leat/internal/testkit/offline"
)

func TestMain(m *testing.M) { os.Exit(offline.Run(m)) }

// settings are the settings of both sides, with small windows.
func settings() h2.Settings {
	return h2.Settings{
		Windows: h2.Windows{Initial: 64 << 10, Max: 1 << 20}, FrameSize: 64 << 10, MaxHeaderBytes: 64 << 10, MaxStreams: 100,
		PingAfter: 20 * time.Second, PingTimeout: 15 * time.Second, WriteTimeout: 20 * time.Second,
		ContinueTimeout: 5 * time.Second,
	}
}

func budget(tb testing.TB, bytes int64) *h2.Budget {
	tb.Helper()
	b, err := h2.NewBudget(bytes)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// pair returns a client whose budget is b, and the server that it is connected to over TCP.
func pair(tb testing.TB, b *h2.Budget, handler http.HandlerFunc) (*h2.Client, *h2.Server) {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	near, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		tb.Fatal(err)
	}
	far, err := listener.Accept()
	if err != nil {
		tb.Fatal(err)
	}
	return over(tb, near, far, b, budget(tb, 1<<30), handler)
}

// over returns both sides of a connection, with their budgets.
func over(tb testing.TB, near, far net.Conn, asking, serving *h2.Budget, handler http.HandlerFunc) (*h2.Client, *h2.Server) {
	tb.Helper()
	server := h2.NewServer(context.Background(), far, h2.ServerParams{
		Settings: settings(), Budget: serving, Handler: handler, Logger: slog.New(slog.DiscardHandler),
	})
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve()
	}()
	client := h2.NewClient(near, settings(), asking)
	tb.Cleanup(func() {
		_ = client.Close()
		<-served
		<-client.Done()
	})
	return client, server
}

func request(tb testing.TB, ctx context.Context, method string, body io.Reader) *http.Request {
	tb.Helper()
	req, err := http.NewRequestWithContext(ctx, method, "http://x/", body)
	if err != nil {
		tb.Fatal(err)
	}
	return req
}

func get(tb testing.TB, client *h2.Client) *http.Response {
	tb.Helper()
	res, err := client.RoundTrip(request(tb, context.WithoutCancel(tb.Context()), http.MethodGet, nil))
	if err != nil {
		tb.Fatal(err)
	}
	return res
}

// await waits for what other goroutines bring about.
func await(tb testing.TB, what string, yes func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(30 * time.Second); !yes(); <-time.After(time.Millisecond) {
		if time.Now().After(deadline) {
			tb.Fatalf("waited in vain for %s", what)
		}
	}
}

// rawPeer is the other end of a connection, written frame by frame. Frames that it does not wait
// for pile up.
type rawPeer struct {
	tb     testing.TB
	framer *http2.Framer
	frames chan http2.Frame
	block  bytes.Buffer
	hpack  *hpack.Encoder
	// roundTrip is after how many nanoseconds settings and PINGs are answered; zero: they are not.
	roundTrip atomic.Int64
}

// raw returns a client and its other end, which answers settings and PINGs after a round trip,
// where there is one.
func raw(tb testing.TB, b *h2.Budget, roundTrip time.Duration) (*h2.Client, *rawPeer) {
	tb.Helper()
	near, far := net.Pipe()
	client := h2.NewClient(near, settings(), b)
	if _, err := io.ReadFull(far, make([]byte, len(http2.ClientPreface))); err != nil {
		tb.Fatal(err)
	}
	peer := newRawPeer(tb, far, roundTrip)
	tb.Cleanup(func() {
		_ = client.Close()
		<-client.Done()
	})
	return client, peer
}

// rawClient returns a client of a server, and the bodies of its requests, none of which ends before
// the test does.
func rawClient(tb testing.TB, b *h2.Budget, roundTrip time.Duration) (client *rawPeer, bodies <-chan io.ReadCloser) {
	tb.Helper()
	near, far := net.Pipe()
	begun, done := make(chan io.ReadCloser), make(chan struct{})
	server := h2.NewServer(context.Background(), near, h2.ServerParams{
		Settings: settings(), Budget: b, Logger: slog.New(slog.DiscardHandler),
		Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			begun <- r.Body
			<-done
		}),
	})
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve()
	}()
	tb.Cleanup(func() {
		close(done)
		_ = server.Close()
		<-served
	})
	if _, err := io.WriteString(far, http2.ClientPreface); err != nil {
		tb.Fatal(err)
	}
	return newRawPeer(tb, far, roundTrip), begun
}

func newRawPeer(tb testing.TB, conn net.Conn, roundTrip time.Duration) *rawPeer {
	tb.Helper()
	s := &rawPeer{tb: tb, framer: http2.NewFramer(conn, conn), frames: make(chan http2.Frame, 1000)}
	s.hpack = hpack.NewEncoder(&s.block)
	s.roundTrip.Store(int64(roundTrip))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer close(s.frames)
		for {
			frame, err := s.framer.ReadFrame()
			if err != nil {
				return
			}
			switch f := frame.(type) {
			case *http2.WindowUpdateFrame:
				again := *f // the framer uses it again
				frame = &again
			case *http2.SettingsFrame:
				if after := time.Duration(s.roundTrip.Load()); after > 0 && !f.IsAck() {
					time.AfterFunc(after, func() { _ = http2.NewFramer(conn, nil).WriteSettingsAck() })
				}
			case *http2.PingFrame:
				if after, data := time.Duration(s.roundTrip.Load()), f.Data; after > 0 && !f.IsAck() {
					time.AfterFunc(after, func() { _ = http2.NewFramer(conn, nil).WritePing(true, data) })
				}
			}
			s.frames <- frame
		}
	}()
	s.must(s.framer.WriteSettings())
	tb.Cleanup(func() {
		_ = conn.Close()
		<-ended
	})
	return s
}

func (s *rawPeer) must(err error) {
	s.tb.Helper()
	if err != nil {
		s.tb.Fatal(err)
	}
}

// head answers a stream.
func (s *rawPeer) head(stream uint32, end bool) {
	s.tb.Helper()
	s.block.Reset()
	s.must(s.hpack.WriteField(hpack.HeaderField{Name: ":status", Value: "200"}))
	s.must(s.framer.WriteHeaders(http2.HeadersFrameParam{
		StreamID: stream, BlockFragment: s.block.Bytes(), EndHeaders: true, EndStream: end,
	}))
}

var errGone = errors.New("connection has ended")

// next waits for a frame of a kind.
func next[F http2.Frame](s *rawPeer) (frame F, err error) {
	for each := range s.frames {
		if wanted, ok := each.(F); ok {
			return wanted, nil
		}
	}
	return frame, errGone
}
