// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

// h2spec tests how a server answers each breach of the protocol. Here are the actions of clients
// within it, and the resources that may pile up.

// crowd counts the handlers that run at once.
type crowd struct{ now, most, all atomic.Int64 }

// wait is a handler that stays until its request has ended, and some time more.
func (c *crowd) wait(_ http.ResponseWriter, r *http.Request) {
	c.all.Add(1)
	now := c.now.Add(1)
	for most := c.most.Load(); now > most && !c.most.CompareAndSwap(most, now); most = c.most.Load() {
	}
	defer c.now.Add(-1)
	<-r.Context().Done()
	_, _ = io.Copy(io.Discard, r.Body)
}

// TestConformanceResetStorms has a server run no more handlers than it said, however fast their
// requests are given up (CVE-2023-44487), or made to be given up by the server itself
// (CVE-2025-8671).
func TestConformanceResetStorms(t *testing.T) {
	for name, end := range map[string]func(p *peer, stream uint32){
		"by the client":        func(p *peer, stream uint32) { _ = p.framer.WriteRSTStream(stream, http2.ErrCodeCancel) },
		"by an update of 0":    func(p *peer, stream uint32) { _ = p.framer.WriteWindowUpdate(stream, 0) },
		"by too large updates": func(p *peer, stream uint32) { _ = p.framer.WriteWindowUpdate(stream, 1<<31-1) },
		"by a second head":     func(p *peer, stream uint32) { p.head(stream, false, "x-a", "b") },
		"by too much data":     func(p *peer, stream uint32) { p.data(stream, true, []byte("more than announced")) },
	} {
		t.Run(name, func(t *testing.T) {
			conformServer(t, func(t *testing.T, server implementation) {
				const limit = 20
				var c crowd
				p := clientPeer(t, server, c.wait, options{maxStreams: limit}, generous...)
				p.greeted()
				for stream := uint32(1); stream < 20_000; stream += 2 {
					p.ask(stream, false, "content-length", "5")
					end(p, stream)
				}
				_ = p.conn.Close()
				p.ended()
				if most := c.most.Load(); most > limit {
					t.Errorf("got %d handlers at once, want at most %d", most, limit)
				}
			})
		})
	}
}

// TestConformanceEndlessRequestHeads has a server stop a header that does not end (CVE-2024-27316),
// and answer one that is too large.
func TestConformanceEndlessRequestHeads(t *testing.T) {
	conformServer(t, func(t *testing.T, server implementation) {
		var c crowd
		p := clientPeer(t, server, c.wait, options{}, generous...)
		p.greeted()
		_ = p.framer.WriteHeaders(http2.HeadersFrameParam{
			StreamID: 1, BlockFragment: p.fields(":method", "GET", ":scheme", "http", ":authority", "a", ":path", "/"),
		})
		for range 10_000 {
			if p.framer.WriteContinuation(1, false, p.fields("x-a", strings.Repeat("ä", 8000))) != nil {
				break
			}
		}
		p.ended()

		p = clientPeer(t, server, c.wait, options{}, generous...)
		p.greeted()
		var fields []string
		for i := range 9 {
			fields = append(fields, fmt.Sprint("x-", i), strings.Repeat("x", 8<<10))
		}
		block := p.fields(append([]string{":method", "GET", ":scheme", "http", ":authority", "a", ":path", "/"}, fields...)...)
		_ = p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndStream: true, BlockFragment: block[:1000]})
		for rest := block[1000:]; len(rest) > 0; {
			n := min(len(rest), 16<<10)
			_ = p.framer.WriteContinuation(1, n == len(rest), rest[:n])
			rest = rest[n:]
		}
		_ = p.hear("answer", func(f heardFrame) bool { return f.Type == http2.FrameHeaders && f.StreamID == 1 })
		p.pinged()
		want(t, "requests that were handled", c.all.Load(), 0)
	})
}

// TestConformanceSilentClients has a server give up one that does not begin, or falls silent, or
// takes nothing (CVE-2019-9517).
func TestConformanceSilentClients(t *testing.T) {
	for name, test := range map[string]struct {
		says  string
		reads bool
		asks  bool
	}{
		"says nothing":     {"", true, false},
		"says half":        {http2.ClientPreface[:10], true, false},
		"falls silent":     {http2.ClientPreface, true, true},
		"takes no answers": {http2.ClientPreface, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			conformServer(t, func(t *testing.T, server implementation) {
				if server.name == wellKnown.name {
					t.Skip("net/http's server is told otherwise")
				}
				synctest.Test(t, func(t *testing.T) {
					near, far := memoryPair(t)
					ended := make(chan error, 1)
					serving := server.server(t, far, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						_, err := io.Copy(w, newReader(noEnd))
						if r.Context().Err() == nil {
							err = errors.New("the context goes on")
						}
						ended <- err
					}), options{}.defaults())
					defer serving.Close()
					p := newPeer(t, near)
					began := time.Now()
					_, err := io.WriteString(near, test.says)
					p.must(err)
					if test.asks {
						p.must(p.framer.WriteSettings(generous...))
						p.must(p.framer.WriteWindowUpdate(0, 1<<30))
						p.ask(1, true)
					}
					if test.reads {
						if test.asks {
							p.must(p.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}))
						}
						_, _ = io.Copy(io.Discard, near)
					}
					if test.asks {
						if err := receive(t, "handler", ended); err == nil {
							t.Error("the handler has got no error")
						}
					}
					if took := time.Since(began); took > patience {
						t.Errorf("it took %v, want at most %v", took, patience)
					}
				})
			})
		})
	}
}

// TestConformanceClientsThatTakeNothing has handlers end with their connection, whatever they wait
// for.
func TestConformanceClientsThatTakeNothing(t *testing.T) {
	conformServer(t, func(t *testing.T, server implementation) {
		const streams = 20
		begun, ended := make(chan struct{}, streams), make(chan error, streams)
		p := clientPeer(t, server, func(w http.ResponseWriter, _ *http.Request) {
			begun <- struct{}{}
			_, err := io.Copy(w, newReader(noEnd))
			ended <- err
		}, options{}, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
		for stream := range uint32(streams) {
			p.ask(2*stream+1, true)
		}
		for range streams {
			receive(t, "handler", begun)
		}
		p.greeted()
		p.must(p.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1}))
		p.pinged()
		_ = p.conn.Close()
		for range streams {
			if err := receive(t, "handler", ended); err == nil {
				t.Error("a handler has got no error")
			}
		}
	})
}

// TestConformanceClientsThatLeave has their requests answered that they made before.
func TestConformanceClientsThatLeave(t *testing.T) {
	conformServer(t, func(t *testing.T, server implementation) {
		begun, proceed := make(chan struct{}), make(chan struct{})
		p := clientPeer(t, server, func(w http.ResponseWriter, _ *http.Request) {
			close(begun)
			<-proceed
			_, _ = io.WriteString(w, "hello")
		}, options{}, generous...)
		p.greeted()
		p.ask(1, true)
		receive(t, "handler", begun)
		p.must(p.framer.WriteGoAway(0, http2.ErrCodeNo, nil))
		close(proceed)
		f := p.hear("answer", func(f heardFrame) bool { return f.Type == http2.FrameData && f.Flags.Has(http2.FlagDataEndStream) })
		want(t, "stream", f.StreamID, 1)
		_ = p.conn.Close()
	})
}
