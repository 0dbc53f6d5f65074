// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package chaos_test

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
)

const (
	upgradeRequest = "GET /tunnel HTTP/1.1\r\nHost: hub\r\nConnection: Upgrade\r\nUpgrade: %\r\n\r\n"
	upgradeAnswer  = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %\r\n\r\n"
	preface        = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
)

// http2Frame returns a frame with a payload of n arbitrary bytes.
func http2Frame(kind byte, n int) string {
	return string([]byte{byte(n >> 16), byte(n >> 8), byte(n), kind, 0, 0, 0, 0, 0}) + noise(n)
}

// wsFrame returns a frame that is final and, like clients' frames, masked.
func wsFrame(opcode byte, n int) string {
	head := []byte{0x80 | opcode, 0x80 | byte(n)}
	switch {
	case n > 0xffff:
		head = []byte{0x80 | opcode, 0xff, 0, 0, 0, 0, 0, byte(n >> 16), byte(n >> 8), byte(n)}
	case n > 125:
		head = []byte{0x80 | opcode, 0xfe, byte(n >> 8), byte(n)}
	}
	return string(head) + "mask" + noise(n)
}

func noise(n int) string {
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(i * 7)
	}
	return string(out)
}

// dialogue holds the bytes that one party sends, in parts. The marked parts are keep-alives.
type dialogue []struct {
	bytes string
	ping  bool
}

func (d dialogue) all() (everything, kept string) {
	for _, part := range d {
		everything += part.bytes
		if !part.ping {
			kept += part.bytes
		}
	}
	return everything, kept
}

// TestEatPings sends each dialogue in pieces of random sizes, as networks do.
func TestEatPings(t *testing.T) {
	t.Parallel()
	frames := dialogue{
		{bytes: http2Frame(4, 18)},
		{bytes: http2Frame(6, 8), ping: true},
		{bytes: http2Frame(1, 100)},
		{bytes: http2Frame(0, 70_000)},
		{bytes: http2Frame(6, 8), ping: true},
		{bytes: http2Frame(6, 8), ping: true},
		{bytes: http2Frame(4, 0)},
	}
	messages := dialogue{
		{bytes: wsFrame(2, 100)},
		{bytes: wsFrame(9, 0), ping: true},
		{bytes: wsFrame(2, 300)},
		{bytes: wsFrame(10, 4), ping: true},
		{bytes: wsFrame(2, 70_000)},
		{bytes: wsFrame(9, 125), ping: true},
		{bytes: wsFrame(8, 2)},
	}
	after := func(text string, then dialogue) dialogue {
		return append(dialogue{{bytes: text}}, then...)
	}
	for name, d := range map[string]dialogue{
		"HTTP/2 from the start, client": after(preface, frames),
		"HTTP/2 from the start, server": frames,
		"reversed, agent":               after(strings.ReplaceAll(upgradeRequest, "%", "leat-tunnel/1"), frames),
		"reversed, hub":                 after(strings.ReplaceAll(upgradeAnswer, "%", "leat-tunnel/1"), after(preface, frames)),
		"WebSocket, client":             after(strings.ReplaceAll(upgradeRequest, "%", "websocket"), messages),
		"WebSocket, server":             after(strings.ReplaceAll(upgradeAnswer, "%", "websocket"), messages),
		"no upgrade":                    {{bytes: "GET / HTTP/1.1\r\nHost: hub\r\n\r\n"}, {bytes: http2Frame(6, 8)}},
		"refused upgrade":               {{bytes: "HTTP/1.1 426 Upgrade Required\r\nUpgrade: x\r\n\r\n"}, {bytes: http2Frame(6, 8)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy, client, server := fresh(t)
			proxy.EatPings()
			everything, want := d.all()
			go func() { _ = sendInPieces(client, everything) }()
			got, err := io.ReadAll(server)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, []byte(want)) {
				t.Errorf("got %d bytes, want %d of %d, or other ones", len(got), len(want), len(everything))
			}
		})
	}
}

// sendInPieces sends text and closes its side.
func sendInPieces(conn net.Conn, text string) error {
	random := rand.New(rand.NewPCG(1, 2))
	for len(text) > 0 {
		n := min(len(text), 1+random.IntN(40))
		if random.IntN(10) == 0 {
			n = min(len(text), n*1000)
		}
		if _, err := io.WriteString(conn, text[:n]); err != nil {
			return err
		}
		text = text[n:]
	}
	return conn.(*net.TCPConn).CloseWrite()
}
