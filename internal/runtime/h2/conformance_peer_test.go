// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// peer is the other end of a connection, which sends whatever a case wants.
type peer struct {
	t      *testing.T
	conn   net.Conn
	framer *http2.Framer
	block  bytes.Buffer
	enc    *hpack.Encoder
	// heard are the frames that came, and it is closed when the connection has ended.
	heard chan heardFrame
}

// heardFrame is the kept part of a frame.
type heardFrame struct {
	http2.FrameHeader

	code http2.ErrCode // of RST_STREAM and GOAWAY
}

func newPeer(t *testing.T, conn net.Conn) *peer {
	t.Helper()
	p := &peer{t: t, conn: conn, framer: http2.NewFramer(conn, conn), heard: make(chan heardFrame, 100_000)}
	p.framer.AllowIllegalWrites = true
	p.framer.AllowIllegalReads = true
	p.framer.SetMaxReadFrameSize(1<<24 - 1)
	p.enc = hpack.NewEncoder(&p.block)
	return p
}

// settings of a peer that takes whatever comes.
var generous = []http2.Setting{{ID: http2.SettingInitialWindowSize, Val: 1<<31 - 1}, {ID: http2.SettingMaxConcurrentStreams, Val: 1000}}

// serverPeer makes the peer the server of a client, which has read the settings when it returns.
func serverPeer(t *testing.T, client implementation, settings ...http2.Setting) (requester, *peer) {
	t.Helper()
	near, far := loopbackPair(t)
	requests := client.client(t, near, options{}.defaults())
	t.Cleanup(func() { _ = requests.Close() })
	p := newPeer(t, far)
	p.greetClient(settings...)
	return requests, p
}

// greetClient is a server's part in the beginning.
func (p *peer) greetClient(settings ...http2.Setting) {
	p.t.Helper()
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(p.conn, preface); err != nil || string(preface) != http2.ClientPreface {
		p.t.Fatalf("preface: got %q, %v", preface, err)
	}
	p.must(p.framer.WriteSettings(settings...))
	p.must(p.framer.WriteWindowUpdate(0, 1<<30))
	go p.listen()
	_ = p.hear("settings", func(f heardFrame) bool { return f.Type == http2.FrameSettings && f.Flags.Has(http2.FlagSettingsAck) })
	p.must(p.framer.WriteSettingsAck())
}

// clientPeer makes the peer the client of a server.
func clientPeer(t *testing.T, server implementation, handler http.HandlerFunc, o options, settings ...http2.Setting) *peer {
	t.Helper()
	near, far := loopbackPair(t)
	serving := server.server(t, far, handler, o.defaults())
	t.Cleanup(func() { _ = serving.Close() })
	p := newPeer(t, near)
	_, err := io.WriteString(near, http2.ClientPreface)
	p.must(err)
	p.must(p.framer.WriteSettings(settings...))
	p.must(p.framer.WriteWindowUpdate(0, 1<<30))
	return p
}

// greeted waits until the server has read the settings.
func (p *peer) greeted() {
	p.t.Helper()
	go p.listen()
	_ = p.hear("settings", func(f heardFrame) bool { return f.Type == http2.FrameSettings && f.Flags.Has(http2.FlagSettingsAck) })
	p.must(p.framer.WriteSettingsAck())
}

// listen hears everything.
func (p *peer) listen() {
	defer close(p.heard)
	for {
		f, err := p.framer.ReadFrame()
		if err != nil {
			return
		}
		heard := heardFrame{FrameHeader: f.Header()}
		switch f := f.(type) {
		case *http2.RSTStreamFrame:
			heard.code = f.ErrCode
		case *http2.GoAwayFrame:
			heard.code = f.ErrCode
		}
		p.heard <- heard
	}
}

// hear waits for a frame. The zero frame means that the connection has ended before.
func (p *peer) hear(what string, is func(f heardFrame) bool) heardFrame {
	p.t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		select {
		case f, ok := <-p.heard:
			if !ok || is(f) {
				return f
			}
		case <-timer.C:
			p.t.Fatalf("%s: waited in vain", what)
		}
	}
}

// request waits for a request, and returns its stream.
func (p *peer) request() uint32 {
	p.t.Helper()
	f := p.hear("request", func(f heardFrame) bool { return f.Type == http2.FrameHeaders })
	if f.StreamID == 0 {
		p.t.Fatal("the connection has ended, want a request")
	}
	return f.StreamID
}

// ended waits for the connection's end.
func (p *peer) ended() {
	p.t.Helper()
	if f := p.hear("end of the connection", func(heardFrame) bool { return false }); f.Type != 0 {
		p.t.Errorf("heard %v, want the connection's end", f)
	}
}

// pinged waits until everything that was said has been heard.
func (p *peer) pinged() {
	p.t.Helper()
	p.must(p.framer.WritePing(false, [8]byte{'a'}))
	if f := p.hear("pong", func(f heardFrame) bool { return f.Type == http2.FramePing && f.Flags.Has(http2.FlagPingAck) }); f.Length != 8 {
		p.t.Fatal("the connection has ended, want a pong")
	}
}

// must fails the case when writing has.
func (p *peer) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// fields encodes a header: names and values in turn.
func (p *peer) fields(fields ...string) []byte {
	p.block.Reset()
	for i := 0; i+1 < len(fields); i += 2 {
		_ = p.enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return bytes.Clone(p.block.Bytes())
}

// head sends a header. The case finds its outcome otherwise.
func (p *peer) head(stream uint32, end bool, fields ...string) {
	_ = p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, EndStream: end, EndHeaders: true, BlockFragment: p.fields(fields...)})
}

// data sends data.
func (p *peer) data(stream uint32, end bool, data []byte) { _ = p.framer.WriteData(stream, end, data) }

// raw sends a frame of any kind.
func (p *peer) raw(kind http2.FrameType, flags http2.Flags, stream uint32, payload ...byte) {
	_ = p.framer.WriteRawFrame(kind, flags, stream, payload)
}

// answer answers a request well.
func (p *peer) answer(stream uint32) {
	p.head(stream, false, ":status", "200", "content-type", "text/plain")
	p.data(stream, true, []byte("hello"))
}

// ask sends a request.
func (p *peer) ask(stream uint32, end bool, fields ...string) {
	p.head(stream, end, append([]string{":method", "POST", ":scheme", "http", ":authority", "cluster.example", ":path", "/"}, fields...)...)
}

// asked is the outcome of a request of a client.
type asked struct {
	status int
	body   string
	err    error
}

func (a asked) String() string { return fmt.Sprintf("%d %.100q %v", a.status, a.body, a.err) }

// begin makes a request of a client that the peer has to answer.
func begin(t *testing.T, client requester, method string, body io.Reader) <-chan asked {
	t.Helper()
	req := newRequest(t, method, "/", body)
	done := make(chan asked, 1)
	go func() {
		res, err := client.RoundTrip(req)
		if err != nil {
			done <- asked{err: err}
			return
		}
		text, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		done <- asked{res.StatusCode, string(text), err}
	}()
	return done
}
