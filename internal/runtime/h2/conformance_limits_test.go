// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

// TestConformanceServersThatAreNone has requests fail where no HTTP/2 is spoken.
func TestConformanceServersThatAreNone(t *testing.T) {
	for name, say := range map[string]func(p *peer){
		"HTTP/1.1":           func(p *peer) { _, _ = io.WriteString(p.conn, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n") },
		"a PING first":       func(p *peer) { _ = p.framer.WritePing(false, [8]byte{}) },
		"an ack first":       func(p *peer) { _ = p.framer.WriteSettingsAck() },
		"a GOAWAY first":     func(p *peer) { _ = p.framer.WriteGoAway(0, http2.ErrCodeNo, nil); _ = p.conn.Close() },
		"an end":             func(p *peer) { _ = p.conn.Close() },
		"an end in a frame":  func(p *peer) { _, _ = p.conn.Write([]byte{0, 0, 6, 4}); _ = p.conn.Close() },
		"a frame that lasts": func(p *peer) { p.raw(http2.FrameSettings, 0, 0, make([]byte, 1<<20)...) },
	} {
		t.Run(name, func(t *testing.T) {
			conformClient(t, func(t *testing.T, client implementation) {
				if name == "an ack first" && client.name == wellKnown.name {
					t.Skip("x/net's client waits for more")
				}
				near, far := loopbackPair(t)
				requests := client.client(t, near, options{}.defaults())
				defer requests.Close()
				done := begin(t, requests, http.MethodPost, newReader(noEnd))
				p := newPeer(t, far)
				say(p)
				go func() { _, _ = io.Copy(io.Discard, far) }()
				if got := receive(t, "request", done); got.err == nil {
					t.Errorf("got %v, want an error", got)
				}
			})
		})
	}
}

// TestConformanceSilentServers has a client give up one that is silent, or takes nothing, after a
// while.
func TestConformanceSilentServers(t *testing.T) {
	for name, test := range map[string]struct {
		reads bool
		body  io.Reader
	}{
		"silent":         {true, nil},
		"takes nothing":  {false, nil},
		"takes no bytes": {false, newReader(noEnd)},
	} {
		t.Run(name, func(t *testing.T) {
			conformClient(t, func(t *testing.T, client implementation) {
				synctest.Test(t, func(t *testing.T) {
					near, far := memoryPair(t)
					requests := client.client(t, near, options{}.defaults())
					defer requests.Close()
					p := newPeer(t, far)
					p.must(p.framer.WriteSettings(generous...))
					p.must(p.framer.WriteWindowUpdate(0, 1<<30))
					if test.reads {
						go func() { _, _ = io.Copy(io.Discard, far) }()
					}
					req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, origin+"/", test.body)
					if err != nil {
						t.Fatal(err)
					}
					began := time.Now()
					res, err := requests.RoundTrip(req)
					if err == nil {
						t.Errorf("got %s, want an error", res.Status)
					}
					if took := time.Since(began); took > patience {
						t.Errorf("it took %v, want at most %v", took, patience)
					}
				})
			})
		})
	}
}

// TestConformanceStuckWrites has neither giving up nor closing wait for a peer that takes nothing.
func TestConformanceStuckWrites(t *testing.T) {
	conformClient(t, func(t *testing.T, client implementation) {
		for _, end := range []string{"cancel", "close"} {
			requests, p := serverPeer(t, client, generous...)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			stuck := make(chan struct{})
			total := 0
			req := newRequest(t, http.MethodPost, "/", newReader(func(p []byte) (int, error) {
				if total += len(p); total > 1<<20 && total-len(p) <= 1<<20 {
					close(stuck)
				}
				return noEnd(p)
			})).WithContext(ctx)
			done := make(chan error, 1)
			go func() {
				_, err := requests.RoundTrip(req)
				done <- err
			}()
			_ = p.request()
			<-stuck // the peer's ear is full some time later
			if end == "cancel" {
				cancel()
			} else {
				_ = requests.Close()
			}
			if err := receive(t, end, done); err == nil {
				t.Errorf("%s: got no error", end)
			}
		}
	})
}

// TestConformanceRefusals has a client report that a request was not begun where that is certain,
// and only there.
func TestConformanceRefusals(t *testing.T) {
	conformClient(t, func(t *testing.T, client implementation) {
		for code, refused := range map[http2.ErrCode]bool{
			http2.ErrCodeRefusedStream: true, http2.ErrCodeCancel: false, http2.ErrCodeInternal: false, http2.ErrCodeNo: false, 0x77: false,
		} {
			requests, p := serverPeer(t, client, generous...)
			for range 50 {
				done := begin(t, requests, http.MethodGet, nil)
				p.must(p.framer.WriteRSTStream(p.request(), code))
				got := receive(t, "request", done)
				if got.err == nil || client.refused(got.err) != refused {
					t.Errorf("%v: got %v, want it refused: %t", code, got, refused)
				}
			}
			done := begin(t, requests, http.MethodGet, nil)
			p.answer(p.request())
			want(t, "afterwards", receive(t, "afterwards", done), asked{http.StatusOK, "hello", nil})
		}
	})
}

// TestConformanceGoAway has what the server has not begun fail at once, and the rest finish.
func TestConformanceGoAway(t *testing.T) {
	for name, test := range map[string]struct {
		say      func(p *peer, streams []uint32) error
		finished int
	}{
		"before all":    {func(p *peer, _ []uint32) error { return p.framer.WriteGoAway(0, http2.ErrCodeNo, nil) }, 0},
		"in the middle": {func(p *peer, s []uint32) error { return p.framer.WriteGoAway(s[1], http2.ErrCodeNo, []byte("reason")) }, 2},
		"with a long reason": {func(p *peer, s []uint32) error {
			return p.framer.WriteGoAway(s[1], http2.ErrCodeNo, bytes.Repeat([]byte{0xff}, 10_000))
		}, 2},
		"behind all": {func(p *peer, s []uint32) error { return p.framer.WriteGoAway(s[3], http2.ErrCodeNo, nil) }, 4},
		"in two steps": {func(p *peer, s []uint32) error {
			if err := p.framer.WriteGoAway(1<<31-1, http2.ErrCodeNo, nil); err != nil {
				return err
			}
			return p.framer.WriteGoAway(s[0], http2.ErrCodeNo, nil)
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			conformClient(t, func(t *testing.T, client implementation) {
				requests, p := serverPeer(t, client, generous...)
				var done []<-chan asked
				var streams []uint32
				for range 4 {
					done = append(done, begin(t, requests, http.MethodGet, nil))
					streams = append(streams, p.request())
				}
				p.must(test.say(p, streams))
				for i := test.finished; i < 4; i++ {
					if got := receive(t, "request", done[i]); got.err == nil || !client.refused(got.err) {
						t.Errorf("request %d: got %v, want it refused", i, got)
					}
				}
				if test.finished > 0 {
					p.pinged() // it has read the GOAWAY
				}
				if got := receive(t, "new request", begin(t, requests, http.MethodGet, nil)); got.err == nil || !client.refused(got.err) {
					t.Errorf("new request: got %v, want it refused", got)
				}
				for i := range test.finished {
					p.answer(streams[i])
					want(t, "request", receive(t, "request", done[i]), asked{http.StatusOK, "hello", nil})
				}
			})
		})
	}
}

// TestConformanceFewerStreams has a client keep to a limit that was lowered while more were
// running.
func TestConformanceFewerStreams(t *testing.T) {
	conformClient(t, func(t *testing.T, client implementation) {
		requests, p := serverPeer(t, client, generous...)
		var done []<-chan asked
		var streams []uint32
		for range 3 {
			done = append(done, begin(t, requests, http.MethodGet, nil))
			streams = append(streams, p.request())
		}
		p.must(p.framer.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 1}))
		_ = p.hear("settings", func(f heardFrame) bool { return f.Type == http2.FrameSettings && f.Flags.Has(http2.FlagSettingsAck) })
		if got := receive(t, "request above the limit", begin(t, requests, http.MethodGet, nil)); got.err == nil {
			t.Errorf("request above the limit: got %v, want an error", got)
		}
		for i := range 3 {
			p.answer(streams[i])
			want(t, "request", receive(t, "request", done[i]), asked{http.StatusOK, "hello", nil})
		}
		last := begin(t, requests, http.MethodGet, nil)
		p.answer(p.request())
		want(t, "afterwards", receive(t, "afterwards", last), asked{http.StatusOK, "hello", nil})
	})
}

// TestConformanceWindowsOfPeers has a client send what the windows let it, to the byte, and not a
// byte more when they become negative.
func TestConformanceWindowsOfPeers(t *testing.T) {
	conformClient(t, func(t *testing.T, client implementation) {
		const first, second = 100_000, 10_000
		requests, p := serverPeer(t, client, http2.Setting{ID: http2.SettingInitialWindowSize, Val: first})
		data, _ := content(1, 300_000)
		done := begin(t, requests, http.MethodPost, bytes.NewReader(data))
		stream := p.request()
		got := 0
		take := func(until int) {
			for got < until {
				f := p.hear("data", func(f heardFrame) bool { return f.Type == http2.FrameData })
				if f.Type != http2.FrameData || f.Length == 0 {
					t.Fatalf("got %v after %d bytes, want %d", f, got, until)
				}
				got += int(f.Length)
			}
			p.must(p.framer.WritePing(false, [8]byte{'b'}))
			f := p.hear("pong", func(f heardFrame) bool {
				end := f.Length == 0 && f.Flags.Has(http2.FlagDataEndStream) && got == len(data) // which may be a frame of its own
				return f.Type == http2.FramePing || f.Type == http2.FrameData && !end
			})
			if f.Type != http2.FramePing || got != until {
				t.Errorf("got %d bytes and %v, want %d", got, f, until)
			}
		}
		take(first)
		p.must(p.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: second}))
		_ = p.hear("settings", func(f heardFrame) bool { return f.Type == http2.FrameSettings })
		p.must(p.framer.WriteWindowUpdate(stream, first-second)) // as much as it is below zero
		take(first)
		p.must(p.framer.WriteWindowUpdate(stream, 1000))
		take(first + 1000)
		p.must(p.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: second + 500}))
		take(first + 1500)
		p.must(p.framer.WriteWindowUpdate(stream, 1<<30))
		take(len(data))
		p.answer(stream)
		want(t, "request", receive(t, "request", done), asked{http.StatusOK, "hello", nil})
	})
}

// TestConformanceWindowIsHeld has a server that sends more than it may fail, while the client does
// not read.
func TestConformanceWindowIsHeld(t *testing.T) {
	conformClient(t, func(t *testing.T, client implementation) {
		requests, p := serverPeer(t, client, generous...)
		req := newRequest(t, http.MethodGet, "/", nil)
		answers := make(chan *http.Response, 1)
		go func() {
			res, err := requests.RoundTrip(req)
			if err != nil {
				t.Error(err)
			}
			answers <- res
		}()
		stream := p.request()
		p.head(stream, false, ok...)
		res := receive(t, "answer", answers)
		chunk := make([]byte, 16<<10)
		for range 64 { // twice the window
			p.data(stream, false, chunk)
		}
		reset := p.hear("reset", func(f heardFrame) bool { return f.Type == http2.FrameRSTStream || f.Type == http2.FrameGoAway })
		if reset.Type != 0 && reset.code != http2.ErrCodeFlowControl {
			t.Errorf("got %v %v, want FLOW_CONTROL_ERROR", reset, reset.code)
		}
		wantCut(t, "what was too much", res.Body)
		_ = res.Body.Close()
	})
}

// flood is how many bytes that demand answers a peer may send while it reads nothing, before it is
// stopped.
const flood = 64 << 20

// TestConformanceFloods has neither side keep answers for a peer that does not read them
// (CVE-2019-9512, -9514, -9515).
func TestConformanceFloods(t *testing.T) {
	ping := func(f *http2.Framer) error { return f.WritePing(false, [8]byte{}) }
	settings := func(f *http2.Framer) error {
		return f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1000})
	}
	for name, frame := range map[string]func(f *http2.Framer) error{"PING": ping, "SETTINGS": settings} {
		t.Run("client "+name, func(t *testing.T) {
			conformClient(t, func(t *testing.T, client implementation) {
				near, far := loopbackPair(t)
				requests := client.client(t, near, options{}.defaults())
				done := begin(t, requests, http.MethodGet, nil)
				p := newPeer(t, far)
				p.must(p.framer.WriteSettings(generous...))
				p.flood(frame)
				_ = requests.Close()
				if got := receive(t, "request", done); got.err == nil {
					t.Errorf("got %v, want an error", got)
				}
			})
		})
	}
	for name, frame := range map[string]func(f *http2.Framer) error{
		"PING": ping, "SETTINGS": settings,
		"RST_STREAM": func(f *http2.Framer) error { return f.WriteData(1, false, nil) },
	} {
		t.Run("server "+name, func(t *testing.T) {
			conformServer(t, func(t *testing.T, server implementation) {
				if name == "SETTINGS" && server.name == wellKnown.name {
					t.Skip("net/http's server answers several at once")
				}
				p := clientPeer(t, server, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, options{}, generous...)
				p.ask(1, true) // data for it is answered with a reset
				p.flood(frame)
			})
		})
	}
}

// flood sends the same until it is stopped, or the connection has ended.
func (p *peer) flood(frame func(f *http2.Framer) error) {
	p.t.Helper()
	var b bytes.Buffer
	framer := http2.NewFramer(&b, nil)
	framer.AllowIllegalWrites = true
	for b.Len() < 64<<10 {
		p.must(frame(framer))
	}
	for sent := 0; sent < flood; {
		p.must(p.conn.SetWriteDeadline(time.Now().Add(time.Second)))
		n, err := p.conn.Write(b.Bytes())
		if err != nil {
			return
		}
		sent += n
	}
	p.t.Errorf("all of %d MiB were taken, want an end, or a stop", flood>>20)
}
