// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reverse_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/leatdev/leat/internal/flow"
	"github.com/leatdev/leat/internal/identity"
	"github.com/leatdev/leat/services/tunnel/internal/reverse"
	"github.com/leatdev/leat/services/tunnel/internal/session"
)

// TestF03ConnectionWindowIsNeverUsedUp reads what the hub announces on the wire: a small window for each stream, and one for the connection
// that all that may be unread at the hub fits into.
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
	if _, err := flow.NewBudget(int64(window["connection"])); err == nil {
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

// TestEarlyBytes gives the connection bytes that somebody has read already.
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
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
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

func budget(tb testing.TB) *flow.Budget {
	tb.Helper()
	b, err := flow.NewBudget(512 << 20)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}
