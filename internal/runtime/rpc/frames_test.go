// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package rpc_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/leatdev/leat/internal/runtime/rpc"
)

// TestRequestsHaveSmallFrames reads the frames of a request, as a server.
func TestRequestsHaveSmallFrames(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ size, most int }{"short": {16 << 10, 1 << 10}, "long": {40_000, 4 << 10}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testFramesOfRequest(t, c.size, c.most)
		})
	}
}

func testFramesOfRequest(t *testing.T, size, most int) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	want, received := bytes.Repeat([]byte("0123456789"), 4000)[:size], make(chan []byte, 1)
	go func() {
		body, err := receive(t, listener, most)
		if err != nil {
			t.Error(err)
		}
		received <- body
	}()
	client := newClient(t, rpc.ClientParams{BaseURL: "http://" + listener.Addr().String()})
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, client.BaseURL, bytes.NewReader(want))
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.HTTP.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if got := <-received; !bytes.Equal(got, want) {
		t.Errorf("got %d bytes, want those %d that were sent", len(got), len(want))
	}
}

// receive answers one request of one connection, whose frames have at most so many bytes, and returns its body.
func receive(t *testing.T, listener net.Listener, most int) ([]byte, error) {
	conn, err := listener.Accept()
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := io.CopyN(io.Discard, conn, int64(len(http2.ClientPreface))); err != nil {
		return nil, err
	}
	framer, body := http2.NewFramer(conn, conn), []byte{}
	if err := framer.WriteSettings(); err != nil {
		return nil, err
	}
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return nil, err
		}
		data, ok := frame.(*http2.DataFrame)
		if !ok {
			continue
		}
		if len(data.Data()) > most {
			t.Errorf("got a frame of %d bytes", len(data.Data()))
		}
		if body = append(body, data.Data()...); !data.StreamEnded() {
			continue
		}
		headers := &bytes.Buffer{}
		err = hpack.NewEncoder(headers).WriteField(hpack.HeaderField{Name: ":status", Value: "200"})
		return body, errors.Join(err, framer.WriteHeaders(http2.HeadersFrameParam{StreamID: data.StreamID, BlockFragment: headers.Bytes(), EndStream: true, EndHeaders: true}))
	}
}
