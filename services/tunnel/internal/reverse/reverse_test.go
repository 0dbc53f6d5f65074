// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reverse_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/leatdev/leat/services/tunnel/internal/reverse"
	"github.com/leatdev/leat/services/tunnel/internal/session"
)

// TestF03ConnectionWindowCoversAllStreams reads what the hub announces on the wire.
func TestF03ConnectionWindowCoversAllStreams(t *testing.T) {
	settings := reverse.DefaultSettings()
	dialer, err := reverse.NewDialer(settings)
	if err != nil {
		t.Fatal(err)
	}
	hub, agent := net.Pipe()
	failed := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, err := dialer.Dial(ctx, hub, nil)
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
	if want := uint32(settings.MaxStreams) * window["stream"]; window["connection"] < want {
		t.Errorf("got a connection window of %d, want at least %d", window["connection"], want)
	}
}

func TestWindowsBeyondHTTP2AreRefused(t *testing.T) {
	settings := reverse.DefaultSettings()
	settings.StreamWindow = 16 << 20
	if _, err := reverse.NewDialer(settings); err == nil {
		t.Error("1,000 streams of 16 MiB were accepted, want an error: a window has 31 bits")
	}
}

// TestEarlyBytes gives the connection bytes that somebody has read already.
func TestEarlyBytes(t *testing.T) {
	hub, agent := loopback(t)
	early := make([]byte, 9) // an empty SETTINGS frame, with which every HTTP/2 server begins
	early[3] = byte(http2.FrameSettings)
	binary.BigEndian.PutUint32(early[5:], 0)
	go answerPings(agent)
	dialer, err := reverse.NewDialer(reverse.DefaultSettings())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	conn, err := dialer.Dial(ctx, hub, early)
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

// answerPings is an agent that sends nothing but what it must.
func answerPings(agent net.Conn) {
	if _, err := io.ReadFull(agent, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	framer := http2.NewFramer(agent, agent)
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return
		}
		if ping, ok := frame.(*http2.PingFrame); ok && !ping.IsAck() {
			if err := framer.WritePing(true, ping.Data); err != nil {
				return
			}
		}
	}
}
