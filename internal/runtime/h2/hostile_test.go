// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/leatdev/leat/internal/runtime/h2"
)

// Bounds of a server beyond the suite's demands: an authenticated peer may be hostile.

// TestPeersThatDoNotBegin requires that a side ends a connection whose peer has not begun HTTP/2 in
// time, even if the peer sends bytes.
func TestPeersThatDoNotBegin(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(conn net.Conn) (ended func() error){
		"server": func(conn net.Conn) func() error {
			return h2.NewServer(context.Background(), conn, h2.ServerParams{
				Settings: options{}.defaults().settings(), Budget: newBudget(t), Handler: http.NotFoundHandler(), Logger: slog.New(slog.DiscardHandler),
			}).Serve
		},
		"client": func(conn net.Conn) func() error {
			client := h2.NewClient(conn, options{}.defaults().settings(), newBudget(t))
			return func() error {
				<-client.Done()
				return client.Err()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				near, far := memoryPair(t)
				ended := begin(far)
				go func() { _, _ = io.Copy(io.Discard, near) }()
				var dribbling sync.WaitGroup
				dribbling.Go(func() { // a preface that ends after two minutes, or the head of a frame
					for _, b := range []byte(http2.ClientPreface) {
						if _, err := near.Write([]byte{b}); err != nil {
							return
						}
						<-time.After(5 * time.Second)
					}
				})
				began := time.Now()
				if err := ended(); err == nil {
					t.Error("the connection has ended without an error")
				}
				if took := time.Since(began); took != patience/2 {
					t.Errorf("it took %v, want %v", took, patience/2)
				}
				_ = near.Close()
				dribbling.Wait()
			})
		})
	}
}

// TestShutdownBeforeTheBeginning has a server that ends before it has begun announce it in the
// right order.
func TestShutdownBeforeTheBeginning(t *testing.T) {
	t.Parallel()
	near, far := loopbackPair(t)
	server := h2.NewServer(context.WithoutCancel(t.Context()), far, h2.ServerParams{
		Settings: options{}.defaults().settings(), Budget: newBudget(t), Handler: http.NotFoundHandler(), Logger: slog.New(slog.DiscardHandler),
	})
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	_ = server.Shutdown(canceled) // it does not wait
	ended := make(chan error, 1)
	go func() { ended <- server.Serve() }()
	p := newPeer(t, near)
	_, err := io.WriteString(near, http2.ClientPreface)
	p.must(err)
	p.must(p.framer.WriteSettings(generous...))
	go p.listen()
	want(t, "first frame", p.hear("settings", func(heardFrame) bool { return true }).Type, http2.FrameSettings)
	p.hear("goaway", func(f heardFrame) bool { return f.Type == http2.FrameGoAway })
	_ = near.Close()
	receive(t, "the end", ended)
}

// TestSettingsThatChangeAllTheTime ends a client that makes the server walk over all its streams
// again and again, and reads the answers.
func TestSettingsThatChangeAllTheTime(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(p *peer, i int){
		"often": func(p *peer, i int) {
			_ = p.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(i % 2)})
		},
		"many at once": func(p *peer, i int) {
			var payload []byte
			for range 200 {
				payload = binary.BigEndian.AppendUint16(payload, uint16(http2.SettingInitialWindowSize))
				payload = binary.BigEndian.AppendUint32(payload, uint32(i%2))
			}
			p.raw(http2.FrameSettings, 0, 0, payload...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := clientPeer(t, ours, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(w, newReader(noEnd)) }, options{},
				http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
			p.greeted()
			for stream := range uint32(100) {
				p.ask(2*stream+1, true)
			}
			for i := range 10_000 {
				change(p, i)
			}
			f := p.hear("goaway", func(f heardFrame) bool { return f.Type == http2.FrameGoAway })
			want(t, "reason", f.code, http2.ErrCodeEnhanceYourCalm)
			p.ended()
		})
	}
}

// TestSettingsThatChangeNowAndThen are no reason to end anything.
func TestSettingsThatChangeNowAndThen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		near, far := memoryPair(t)
		serving := ours.server(t, far, http.NotFoundHandler(), options{}.defaults())
		defer serving.Close()
		p := newPeer(t, near)
		_, err := io.WriteString(near, http2.ClientPreface)
		p.must(err)
		go p.listen()
		for i := range 1000 {
			p.must(p.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(i)}))
			<-time.After(200 * time.Millisecond)
		}
		p.pinged()
	})
}

// TestFramesThatAreNotReadAreNotKept has a server judge frames by their heads where that is enough.
// Frames may be large for the sake of data.
func TestFramesThatAreNotReadAreNotKept(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		kind http2.FrameType
		id   uint32
		code http2.ErrCode
	}{
		"a header":             {http2.FrameHeaders, 1, http2.ErrCodeEnhanceYourCalm},
		"a PING":               {http2.FramePing, 0, http2.ErrCodeFrameSize},
		"settings":             {http2.FrameSettings, 0, http2.ErrCodeFrameSize},
		"a reset":              {http2.FrameRSTStream, 1, http2.ErrCodeFrameSize},
		"a reason for leaving": {http2.FrameGoAway, 0, http2.ErrCodeFrameSize},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := clientPeer(t, ours, func(http.ResponseWriter, *http.Request) {}, options{maxHeader: 8 << 10}, generous...)
			p.greeted()
			head := make([]byte, 9) // nothing follows it
			binary.BigEndian.PutUint32(head, 60_000<<8|uint32(test.kind))
			binary.BigEndian.PutUint32(head[5:], test.id)
			_, err := p.conn.Write(head)
			p.must(err)
			f := p.hear("goaway", func(f heardFrame) bool { return f.Type == http2.FrameGoAway })
			want(t, "reason", f.code, test.code)
			p.ended()
		})
	}
	t.Run("what is not known", func(t *testing.T) {
		t.Parallel()
		p := clientPeer(t, ours, func(http.ResponseWriter, *http.Request) {}, options{}, generous...)
		p.greeted()
		for range 100 {
			p.raw(0x42, 0xff, 77, make([]byte, 60_000)...)
		}
		p.pinged()
	})
}

// TestStreamsTakeTurnsForTheConnectionsWindow has a client open the connection's window bit by bit
// (CVE-2019-9511): each bit is for one stream, and all get theirs.
func TestStreamsTakeTurnsForTheConnectionsWindow(t *testing.T) {
	t.Parallel()
	const streams, rounds, bit = 50, 20, 100
	near, far := loopbackPair(t)
	serving := ours.server(t, far, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/all" { // of the window
			_, _ = w.Write(make([]byte, 1<<16-1))
			return
		}
		_, _ = io.Copy(w, newReader(noEnd))
	}), options{}.defaults())
	defer serving.Close()
	p := newPeer(t, near)
	_, err := io.WriteString(near, http2.ClientPreface)
	p.must(err)
	p.must(p.framer.WriteSettings(generous...))
	p.greeted()
	p.head(1, true, ":method", "GET", ":scheme", "http", ":authority", "a", ":path", "/all")
	p.hear("the window's end", func(f heardFrame) bool { return f.Type == http2.FrameData && f.Flags.Has(http2.FlagDataEndStream) })
	got := map[uint32]int{}
	for stream := uint32(3); stream < 3+2*streams; stream += 2 {
		p.ask(stream, true)
		f := p.hear("head", func(f heardFrame) bool { return f.Type == http2.FrameHeaders })
		want(t, "stream", f.StreamID, stream)
	}
	for range rounds * streams {
		p.must(p.framer.WriteWindowUpdate(0, bit))
		f := p.hear("data", func(f heardFrame) bool { return f.Type == http2.FrameData })
		want(t, "bytes at once", f.Length, bit)
		got[f.StreamID]++
	}
	for stream := uint32(3); stream < 3+2*streams; stream += 2 {
		if n := got[stream]; n < rounds-1 || n > rounds+1 {
			t.Errorf("stream %d: got %d turns, want %d", stream, n, rounds)
		}
	}
}

// TestFloodsOfWhatMeansNothing has a server neither keep nor answer frames that cost their peer a
// few bytes and ask for nothing (CVE-2019-9513, -9516, -9518): it continues, or ends the
// connection.
func TestFloodsOfWhatMeansNothing(t *testing.T) {
	t.Parallel()
	for name, frame := range map[string]func(p *peer, i uint32){
		"priorities": func(p *peer, i uint32) {
			_ = p.framer.WritePriority(2*i+1, http2.PriorityParam{StreamDep: i, Exclusive: true, Weight: byte(i)})
		},
		"data without bytes": func(p *peer, _ uint32) { p.data(1, false, nil) },
		"padding alone":      func(p *peer, _ uint32) { _ = p.framer.WriteDataPadded(1, false, nil, make([]byte, 1)) },
		"fields without text": func(p *peer, i uint32) {
			_ = p.framer.WriteHeaders(http2.HeadersFrameParam{
				StreamID: 2*i + 3, EndStream: true, EndHeaders: true, BlockFragment: bytes.Repeat([]byte{0, 0, 0}, 1000),
			})
		},
		"updates of an open window":   func(p *peer, _ uint32) { _ = p.framer.WriteWindowUpdate(1, 1) },
		"updates of streams gone by":  func(p *peer, _ uint32) { _ = p.framer.WriteWindowUpdate(3, 1) },
		"resets of streams gone by":   func(p *peer, _ uint32) { _ = p.framer.WriteRSTStream(3, http2.ErrCodeCancel) },
		"answers to no PING":          func(p *peer, _ uint32) { _ = p.framer.WritePing(true, [8]byte{1}) },
		"acknowledgements of nothing": func(p *peer, _ uint32) { _ = p.framer.WriteSettingsAck() },
		"goodbyes":                    func(p *peer, _ uint32) { _ = p.framer.WriteGoAway(0, http2.ErrCodeNo, nil) },
		"what is not known":           func(p *peer, _ uint32) { p.raw(0x77, 0, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := clientPeer(t, ours, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, options{}, generous...)
			p.greeted()
			p.ask(1, false)
			p.ask(3, false)
			p.must(p.framer.WriteRSTStream(3, http2.ErrCodeCancel))
			answers := 0
			times := uint32(50_000)
			if name == "fields without text" { // these are thousands of fields each
				times = 2_000
			}
			for i := range times {
				frame(p, i)
			}
			_ = p.framer.WritePing(false, [8]byte{'z'})
			p.hear("pong, or the end", func(f heardFrame) bool {
				answers++
				return f.Type == http2.FramePing
			})
			if name != "fields without text" && answers > 10 {
				t.Errorf("got %d frames, want hardly any", answers)
			}
			_ = p.conn.Close()
			p.ended()
		})
	}
}
