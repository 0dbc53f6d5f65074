// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reverse_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/leatdev/leat/internal/runtime/h2"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/services/tunnel/internal/reverse"
	"github.com/leatdev/leat/services/tunnel/internal/session"
)

// TestF03ConnectionWindowIsNeverUsedUp reads what the hub announces on the wire: a small window for
// each stream, and one for the connection that all that may be unread at the hub fits into.
func TestF03ConnectionWindowIsNeverUsedUp(t *testing.T) {
	settings := reverse.DefaultSettings()
	dialer, err := reverse.NewDialer(settings, budget(t), links())
	if err != nil {
		t.Fatal(err)
	}
	hub, agent := net.Pipe()
	failed := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, err := dialer.Dial(ctx, hub, nil, session.Info{})
		failed <- err
	}()
	if _, err := io.ReadFull(agent, make([]byte, len(http2.ClientPreface))); err != nil {
		t.Fatal(err)
	}
	framer := http2.NewFramer(io.Discard, agent)
	window := map[string]uint32{"connection": 65_535}
	for len(window) < 3 {
		frame, err := framer.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			window["stream"], _ = frame.Value(http2.SettingInitialWindowSize)
		case *http2.WindowUpdateFrame:
			window["connection"] += frame.Increment
			window["seen"] = 1
		}
	}
	cancel()
	if err := <-failed; err == nil {
		t.Error("dialing an agent that never answers succeeded")
	}
	if want := uint32(512 << 10); window["stream"] != want {
		t.Errorf("got a stream window of %d, want %d", window["stream"], want)
	}
	if _, err := h2.NewBudget(int64(window["connection"])); err == nil {
		t.Errorf("got a connection window of %d and a budget as large, want budgets to be smaller: readers that stand still could use it up",
			window["connection"])
	}
}

func TestWindowsBeyondHTTP2AreRefused(t *testing.T) {
	settings := reverse.DefaultSettings()
	settings.Windows.Max = 1 << 30
	if _, err := reverse.NewDialer(settings, budget(t), links()); err == nil {
		t.Error("a window of 1 GiB was accepted, want an error")
	}
}

// TestEarlyBytes gives the connection bytes that were read already.
func TestEarlyBytes(t *testing.T) {
	hub, agent := loopback(t)
	go serveNothing(agent)
	early := make([]byte, 9) // the head of the SETTINGS frame with which every HTTP/2 server begins
	if _, err := io.ReadFull(hub, early); err != nil {
		t.Fatal(err)
	}
	dialer, err := reverse.NewDialer(reverse.DefaultSettings(), budget(t), links())
	if err != nil {
		t.Fatal(err)
	}
	ctx := await.Context(t)
	conn, err := dialer.Dial(ctx, hub, early, session.Info{})
	if err != nil {
		t.Fatal(err)
	}
	if got := conn.Status(); got != session.Ready {
		t.Errorf("got status %v, want ready", got)
	}
	_ = agent.Close()
	<-conn.Done()
	if got := conn.Status(); got != session.Closing {
		t.Errorf("after the end: got status %v, want closing", got)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://kubernetes/", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := conn.RoundTrip(req)
	if !errors.Is(err, session.ErrLost) {
		t.Errorf("request after the end: got %v, want ErrLost", err)
	}
	if res != nil {
		_ = res.Body.Close()
	}
}

// TestRequestsThatTheAgentHasNotBegun has an agent leave before it begins a request, in each way
// that HTTP/2 has for that.
func TestRequestsThatTheAgentHasNotBegun(t *testing.T) {
	for name, refuse := range map[string]func(f *http2.Framer, stream uint32) error{
		"goaway": func(f *http2.Framer, stream uint32) error { return f.WriteGoAway(stream-2, http2.ErrCodeNo, nil) },
		"refused": func(f *http2.Framer, stream uint32) error {
			return f.WriteRSTStream(stream, http2.ErrCodeRefusedStream)
		},
		"begun": func(f *http2.Framer, stream uint32) error { return f.WriteRSTStream(stream, http2.ErrCodeInternal) },
	} {
		t.Run(name, func(t *testing.T) {
			hub, agent := loopback(t)
			served := make(chan error, 1)
			go func() { served <- refuseSecond(agent, refuse) }()
			dialer, err := reverse.NewDialer(reverse.DefaultSettings(), budget(t), links())
			if err != nil {
				t.Fatal(err)
			}
			ctx := await.Context(t)
			conn, err := dialer.Dial(ctx, hub, nil, session.Info{})
			if err != nil {
				t.Fatal(err)
			}
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://kubernetes/", nil)
			if err != nil {
				t.Fatal(err)
			}
			res, err := conn.RoundTrip(req)
			if res != nil {
				_ = res.Body.Close()
			}
			if got, want := errors.Is(err, session.ErrRefused), name != "begun"; err == nil || got != want {
				t.Errorf("got %v, want refused=%v", err, want)
			}
			_ = conn.Close()
			<-served
		})
	}
}

// refuseSecond is an agent that answers 404 once, and refuses what comes next. It returns when the
// connection ends.
func refuseSecond(conn net.Conn, refuse func(f *http2.Framer, stream uint32) error) error {
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(conn, preface); err != nil {
		return err
	}
	framer := http2.NewFramer(conn, conn)
	if err := framer.WriteSettings(); err != nil {
		return err
	}
	for answered := false; ; {
		frame, err := framer.ReadFrame()
		if err != nil {
			return err
		}
		headers, ok := frame.(*http2.HeadersFrame)
		switch {
		case !ok:
		case answered:
			err = refuse(framer, headers.StreamID)
		default:
			answered = true
			var block bytes.Buffer
			_ = hpack.NewEncoder(&block).WriteField(hpack.HeaderField{Name: ":status", Value: "404"}) // a buffer takes everything
			err = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: headers.StreamID, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: true})
		}
		if err != nil {
			return err
		}
	}
}

// loopback returns both ends of a TCP connection.
func loopback(tb testing.TB) (hub, agent net.Conn) {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	if agent, err = net.Dial("tcp", listener.Addr().String()); err != nil {
		tb.Fatal(err)
	}
	if hub, err = listener.Accept(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = agent.Close() })
	return hub, agent
}

// serveNothing is an agent of a version that knew no LinkService.
func serveNothing(agent net.Conn) {
	new(http2.Server).ServeConn(agent, &http2.ServeConnOpts{Handler: http.NotFoundHandler()})
}

func links() *reverse.Links {
	return reverse.NewLinks(reverse.LinkParams{
		Replica: "r1", Replicas: func() int { return 1 }, Interval: time.Minute, Timeout: time.Minute, TokenGrace: time.Hour,
		Verifier: identity.Chain(), Logger: slog.New(slog.DiscardHandler),
	})
}

func budget(tb testing.TB) *h2.Budget {
	tb.Helper()
	b, err := h2.NewBudget(512 << 20)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}
