// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/leatdev/leat/services/tunnel"
)

// readClose reads a WebSocket frame that closes the connection.
func readClose(t *testing.T, r io.Reader) (code uint16, reason string) {
	t.Helper()
	all, err := io.ReadAll(r)
	if err != nil || len(all) < 4 || all[0] != 0x88 || int(all[1]) != len(all)-2 {
		t.Fatalf("got %s, %v, want a close frame and then the end", hex.EncodeToString(all), err)
	}
	return binary.BigEndian.Uint16(all[2:]), string(all[4:])
}

// talking greets in one WebSocket frame and then listens.
func talking(s *stream) {
	_, _ = s.Write([]byte{0x82, 2, 'h', 'i'})
	_, _ = io.Copy(io.Discard, s)
}

// greet reads the output of talking.
func greet(t *testing.T, c *caller) {
	t.Helper()
	frame := make([]byte, 4)
	if _, err := io.ReadFull(c, frame); err != nil || string(frame[2:]) != "hi" {
		t.Fatalf("got %q, %v, want a greeting", frame, err)
	}
}

func TestUpgradedConnectionOutlivesTheBeginningOfADrain(t *testing.T) {
	t.Parallel()
	virtually(t, nil, func(t *testing.T, h *hub) {
		h.access.grant("ada", "demo")
		h.agent("demo", switching(func(s *stream) {
			_, _ = s.Write([]byte{0x82, 2, 'h', 'i'})
			_, _ = io.Copy(s, s)
		}))
		c := h.upgraded("websocket", "ada", "demo")
		greet(t, c)
		h.stop()
		for { // until the drain has begun
			conn, err := h.connect(t.Context())
			if err != nil {
				break
			}
			_ = conn.Close()
		}
		frame := []byte{0x82, 3, 'n', 'o', 'w'}
		_, _ = c.Write(frame)
		got := make([]byte, len(frame))
		if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, frame) {
			t.Errorf("in the drain: got %q, %v, want the echo", got, err)
		}
		if code, reason := readClose(t, c); code != 1001 || !strings.Contains(reason, "shuts down") {
			t.Errorf("got close %d %q, want 1001 because of the shutdown", code, reason)
		}
		if record := h.outcome(); record["outcome"] != "drained" {
			t.Errorf("audit: got %v, want drained", record)
		}
	})
}

func TestUpgradedConnectionEndsWithItsPermission(t *testing.T) {
	h := startHub(t, func(c *tunnel.Config) {
		c.AccessMaxAge, c.RecheckInterval = time.Nanosecond, 50*time.Millisecond
	})
	h.access.grant("ada", "demo")
	h.agent("demo", switching(talking))
	c := h.upgraded("websocket", "ada", "demo")
	greet(t, c)
	h.access.revoke("ada", "demo")
	if code, reason := readClose(t, c); code != 1008 || !strings.Contains(reason, "withdrawn") {
		t.Errorf("got close %d %q, want 1008 because of the permission", code, reason)
	}
	if record := h.outcome(); record["outcome"] != "revoked" {
		t.Errorf("audit: got %v, want revoked", record)
	}
}

func TestUpgradedConnectionEndsWithItsAgent(t *testing.T) {
	h := startHub(t, nil)
	h.access.grant("ada", "demo")
	agent := h.agent("demo", switching(talking))
	c := h.upgraded("websocket", "ada", "demo")
	greet(t, c)
	agent.Close()
	if code, reason := readClose(t, c); code != 1014 || !strings.Contains(reason, "lost") {
		t.Errorf("got close %d %q, want 1014 because of the agent", code, reason)
	}
	if record := h.outcome(); record["outcome"] != "interrupted" {
		t.Errorf("audit: got %v, want interrupted", record)
	}
}

// TestF32ConnectionCloseBreaksNoExec has a caller whose Connection header asks for two things, and
// who stays for the answer.
func TestF32ConnectionCloseBreaksNoExec(t *testing.T) {
	h := startHub(t, nil)
	h.access.grant("ada", "demo")
	h.agent("demo", switching(func(s *stream) {
		_, _ = io.Copy(s, s)
		_, _ = io.WriteString(s, " "+s.request.Header.Get("Connection"))
	}))
	for _, connection := range []string{"Upgrade, close", "close, Upgrade", "Upgrade\r\nConnection: close", "close\r\nConnection: Upgrade"} {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", h.addr)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = fmt.Fprintf(conn, "GET /clusters/demo%s HTTP/1.1\r\nHost: hub\r\nAuthorization: Bearer %s\r\nConnection: %s\r\nUpgrade: SPDY/3.1\r\n\r\n",
			execPath, h.user("ada"), connection)
		reader := bufio.NewReader(conn)
		res, err := http.ReadResponse(reader, nil)
		if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
			t.Errorf("Connection: %q: got %v, %v, want 101", connection, res, err)
			_ = conn.Close()
			continue
		}
		for range 3 {
			_, _ = io.WriteString(conn, "still here")
			got := make([]byte, len("still here"))
			if _, err := io.ReadFull(reader, got); err != nil || string(got) != "still here" {
				t.Errorf("Connection: %q: got %q, %v, want the echo", connection, got, err)
			}
		}
		_ = conn.(*net.TCPConn).CloseWrite()
		if rest, err := io.ReadAll(reader); err != nil || string(rest) != " " {
			t.Errorf("Connection: %q: got %q, %v, want the end, and no Connection header at the agent", connection, rest, err)
		}
		_ = conn.Close()
	}
}

// TestSlowCallerGetsTheLastBytes has a caller that is busy when the cluster ends the session,
// longer than the hub needs to send the last bytes: they are in the buffers of the two kernels. If
// the hub had closed its socket, anything that the caller sends meanwhile, such as a WebSocket
// ping, would make the kernel drop them.
func TestSlowCallerGetsTheLastBytes(t *testing.T) {
	const size = 256 << 10
	for _, protocol := range []string{"websocket", "SPDY/3.1"} {
		t.Run(protocol, func(t *testing.T) {
			h := startHub(t, nil)
			h.access.grant("ada", "demo")
			h.agent("demo", switching(func(s *stream) { _, _ = s.Write(bytes.Repeat([]byte("x"), size)) }))
			h.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := new(net.Dialer).DialContext(ctx, network, address)
				if tcp, ok := conn.(*net.TCPConn); ok {
					err = errors.Join(err, tcp.SetReadBuffer(16<<10))
				}
				return conn, err
			}
			c := h.upgraded(protocol, "ada", "demo")
			h.outcome() // is recorded before a hub could close the socket, which it then would do at once
			for range 50 {
				h.sessions()
			}
			_, _ = c.Write([]byte{0x89, 0x80, 1, 2, 3, 4}) // a ping; whether it is answered does not matter
			got, err := io.ReadAll(c)
			if err != nil || len(got) != size {
				t.Errorf("got %d bytes, %v, want %d", len(got), err, size)
			}
		})
	}
}
