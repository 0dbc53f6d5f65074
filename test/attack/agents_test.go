// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package attack_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// hostileCluster is the cluster whose agent is hostile.
const hostileCluster = "hostile"

// hostileAttacks are made by an agent with a valid token. It speaks HTTP/2 as a server on its
// connection to the tunnel, while users send requests to its cluster.
func hostileAttacks() []attack {
	hostile := func(name, sends string, answer func(a *agentConn, stream uint32) error) attack {
		return attack{
			name: "agent, " + name, sends: sends, only: []string{"tunnel"}, ports: public, absolute: true, asAgent: true,
			conns: 4, megabytes: 64, run: hostileAgent(answer),
		}
	}
	field := append([]byte{0, 1, 'a', 5}, "value"...) // a field that is not added to HPACK's table
	return []attack{
		hostile("endless heads", "answers whose heads do not end", func(a *agentConn, stream uint32) error {
			fragment := bytes.Repeat(field, 1000)
			err := a.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: a.head("200")})
			for err == nil {
				err = a.WriteContinuation(stream, false, fragment)
			}
			return err
		}),
		hostile("HPACK references", "answers with heads of 15 KB that become 60 MB", func(a *agentConn, stream uint32) error {
			large := a.head("200", "x", strings.Repeat("v", 3900))
			const newest = 0x80 | 62
			if err := a.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: large}); err != nil {
				return err
			}
			return a.WriteContinuation(stream, true, bytes.Repeat([]byte{newest}, 15<<10))
		}),
		hostile("informational answers", "103 Early Hints without an end", func(a *agentConn, stream uint32) error {
			for {
				if err := a.WriteHeaders(http2.HeadersFrameParam{
					StreamID: stream, BlockFragment: a.head("103", "link", strings.Repeat("l", 1000)), EndHeaders: true,
				}); err != nil {
					return err
				}
			}
		}),
		hostile("bodies beyond the window", "endless bodies that ignore windows", func(a *agentConn, stream uint32) error {
			err := a.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: a.head("200"), EndHeaders: true})
			for chunk := make([]byte, 16<<10); err == nil; {
				err = a.WriteData(stream, false, chunk)
			}
			return err
		}),
		hostile("PING", "PINGs instead of an answer", func(a *agentConn, _ uint32) error {
			for {
				if err := a.WritePing(false, [8]byte{}); err != nil {
					return err
				}
			}
		}),
		hostile("SETTINGS", "SETTINGS instead of an answer", func(a *agentConn, _ uint32) error {
			for {
				if err := a.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 1000}); err != nil {
					return err
				}
			}
		}),
		hostile("silence", "nothing, to any request", func(*agentConn, uint32) error { return nil }),
	}
}

// pauseOfPeople is how long users wait after a failed request.
const pauseOfPeople = 20 * time.Millisecond

// agentConn is an agent's connection to the tunnel. One goroutine reads the requests and writes the
// answers.
type agentConn struct {
	*http2.Framer

	buffer *bufio.Writer
	block  bytes.Buffer
	hpack  *hpack.Encoder
}

// head encodes the head of an answer. The bytes are valid until the next call.
func (a *agentConn) head(status string, fields ...string) []byte {
	a.block.Reset()
	_ = a.hpack.WriteField(hpack.HeaderField{Name: ":status", Value: status}) // cannot fail: the buffer is in memory
	for i := 0; i+1 < len(fields); i += 2 {
		_ = a.hpack.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return a.block.Bytes()
}

// hostileAgent connects as an agent and answers every request for its cluster with answer, while
// users send requests.
func hostileAgent(answer func(a *agentConn, stream uint32) error) func(context.Context, *victim) {
	return func(ctx context.Context, v *victim) {
		var people sync.WaitGroup
		defer people.Wait()
		for range 20 {
			people.Go(func() {
				client := v.server.client()
				for ctx.Err() == nil {
					request, err := http.NewRequestWithContext(ctx, http.MethodGet, v.url("/clusters/"+hostileCluster+"/api/v1/pods"), http.NoBody)
					if err != nil {
						return
					}
					request.Header.Set("Authorization", "Bearer "+v.personToken)
					if discard(client.Do(request)) != nil {
						wait(ctx, pauseOfPeople)
					}
				}
			})
		}
		v.each(ctx, func(ctx context.Context) error { return v.serveAsAgent(ctx, answer) })
	}
}

// serveAsAgent opens a tunnel and serves HTTP/2 on it until the connection ends.
func (v *victim) serveAsAgent(ctx context.Context, answer func(a *agentConn, stream uint32) error) error {
	conn, err := v.http1(ctx, fmt.Sprintf("GET /tunnel/v1/connect HTTP/1.1\r\nHost: hub\r\nConnection: Upgrade\r\nUpgrade: leat-tunnel/1\r\n"+
		"Leat-Connection-Id: hostile-%d\r\nAuthorization: Bearer %s\r\n\r\n", v.conns.Load(), v.agentToken))
	if err != nil {
		return err
	}
	defer conn.Close()
	incoming := bufio.NewReader(conn)
	response, err := http.ReadResponse(incoming, nil)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusSwitchingProtocols {
		return fmt.Errorf("the tunnel answered %s", response.Status)
	}
	if _, err := io.CopyN(io.Discard, incoming, int64(len(http2.ClientPreface))); err != nil {
		return err
	}
	a := &agentConn{buffer: bufio.NewWriterSize(conn, 16<<10)}
	a.Framer = http2.NewFramer(a.buffer, incoming)
	a.AllowIllegalWrites = true
	a.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	a.hpack = hpack.NewEncoder(&a.block)
	if err := a.WriteSettings(); err != nil {
		return err
	}
	for {
		if err := a.buffer.Flush(); err != nil {
			return err
		}
		frame, err := a.ReadFrame()
		if err != nil {
			return err
		}
		if err := a.take(frame, answer); err != nil {
			return err
		}
	}
}

// take handles one frame from the tunnel.
func (a *agentConn) take(frame http2.Frame, answer func(a *agentConn, stream uint32) error) error {
	switch frame := frame.(type) {
	case *http2.SettingsFrame:
		if !frame.IsAck() {
			return a.WriteSettingsAck()
		}
	case *http2.PingFrame:
		if !frame.IsAck() {
			return a.WritePing(true, frame.Data)
		}
	case *http2.MetaHeadersFrame:
		stream := frame.StreamID
		if strings.HasPrefix(frame.PseudoValue("path"), "/leat.tunnel.v1.LinkService/") { // optional for agents
			return a.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: a.head("404"), EndStream: true, EndHeaders: true})
		}
		return answer(a, stream)
	}
	return nil
}
