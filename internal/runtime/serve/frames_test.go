// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/leatdev/leat/internal/runtime/serve"
)

// TestSmallFrames reads the frames of a response that is written at once.
func TestSmallFrames(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ size, most int }{"short": {16 << 10, 1 << 10}, "long": {40_000, 4 << 10}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testFramesOfResponse(t, c.size, c.most)
		})
	}
}

func testFramesOfResponse(t *testing.T, size, most int) {
	t.Helper()
	want := bytes.Repeat([]byte("0123456789"), 4000)[:size]
	server := httptest.NewUnstartedServer(serve.SmallFrames(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n, err := w.Write(want)
		if n != len(want) || err != nil || http.NewResponseController(w).Flush() != nil {
			t.Errorf("wrote %d bytes, %v", n, err)
		}
	})))
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	framer, headers := http2.NewFramer(conn, conn), &bytes.Buffer{}
	encoder := hpack.NewEncoder(headers)
	for _, field := range [][2]string{{":method", "GET"}, {":scheme", "http"}, {":authority", "hub"}, {":path", "/"}} {
		err = errors.Join(err, encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}))
	}
	_, started := io.WriteString(conn, http2.ClientPreface)
	err = errors.Join(err, started, framer.WriteSettings(),
		framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: headers.Bytes(), EndStream: true, EndHeaders: true}))
	if err != nil {
		t.Fatal(err)
	}
	got := []byte{}
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		data, ok := frame.(*http2.DataFrame)
		if !ok {
			continue
		}
		if len(data.Data()) > most {
			t.Errorf("got a frame of %d bytes", len(data.Data()))
		}
		if got = append(got, data.Data()...); data.StreamEnded() {
			break
		}
	}
	if !bytes.Equal(got, want) {
		t.Errorf("got %d bytes, want those %d that were written", len(got), len(want))
	}
}
