// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/leatdev/leat/internal/runtime/h2"
)

// TestWindowFollowsItsReader lets a reader read whole windows, and checks how much the peer may
// send afterwards.
func TestWindowFollowsItsReader(t *testing.T) {
	t.Parallel()
	const rtt = 30 * time.Millisecond
	initial, most := settings().Windows.Initial, settings().Windows.Max
	for name, test := range map[string]struct {
		roundTrip time.Duration
		every     time.Duration // a quarter of a window
		held      int           // by another reader
		memory    int
		want      int
	}{
		"fast":            {rtt, rtt / 4, 0, 4 * most, most},
		"slow":            {rtt, time.Second, 0, 4 * most, initial},
		"near":            {time.Millisecond, time.Millisecond / 4, 0, 4 * most, initial},
		"unknown":         {0, 0, 0, 4 * most, initial},
		"short of memory": {rtt, rtt / 4, initial, initial * 7 / 4, initial},
		"little memory":   {rtt, rtt / 4, 0, 14 * initial, 8 * initial}, // half of it is more than 1+2+4, and less than 1+2+4+8
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client, server := raw(t, budget(t, int64(test.memory)), test.roundTrip)
				other, held := server.answer(client)
				for sent := 0; sent < test.held; sent += 16 << 10 {
					server.must(server.framer.WriteData(other, false, make([]byte, 16<<10)))
				}
				stream, body := server.answer(client)
				window := server.fill(stream, body, initial, test.every)
				_ = held.Close()
				if window > test.want || window < test.want*7/8 {
					t.Errorf("the peer may send %d bytes at last, want %d, but for what is not worth telling", window, test.want)
				}
				_ = body.Close()
			})
		})
	}
}

// TestUploadsFollowTheirReader is TestWindowFollowsItsReader for a server, whose clients may be far
// away, too.
func TestUploadsFollowTheirReader(t *testing.T) {
	t.Parallel()
	const rtt = 30 * time.Millisecond
	initial, most := settings().Windows.Initial, settings().Windows.Max
	for name, test := range map[string]struct {
		roundTrip time.Duration
		later     time.Duration // the round trip when the upload begins; zero: the same
		want      int
	}{
		"far":               {rtt, 0, most},
		"near":              {time.Millisecond, 0, initial},
		"near, and held up": {time.Millisecond, rtt, initial},
		"held up, and near": {rtt, time.Millisecond, initial},
		"gives no sign":     {0, 0, initial},
		"lies":              {time.Hour, 0, initial}, // the reader has waited for its bytes for more than a second
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client, bodies := rawClient(t, budget(t, int64(4*most)), test.roundTrip)
				if test.later > 0 {
					<-time.After(2 * time.Second)
					client.roundTrip.Store(int64(test.later))
				}
				client.upload(1)
				every := rtt / 4
				if test.roundTrip == time.Hour {
					every = time.Second
				}
				window := client.fill(1, <-bodies, initial, every)
				if window > test.want || window < test.want*7/8 {
					t.Errorf("the client may send %d bytes at last, want %d, but for what is not worth telling", window, test.want)
				}
			})
		})
	}
}

// upload begins a request with a body.
func (s *rawPeer) upload(stream uint32) {
	s.tb.Helper()
	s.block.Reset()
	for name, value := range map[string]string{":method": "POST", ":scheme": "http", ":path": "/", ":authority": "x"} {
		s.must(s.hpack.WriteField(hpack.HeaderField{Name: name, Value: value}))
	}
	s.must(s.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: s.block.Bytes(), EndHeaders: true}))
}

// fill has whole windows sent and read, again and again, each quarter after some time, and returns
// what may be sent at last.
func (s *rawPeer) fill(stream uint32, body io.Reader, window int, every time.Duration) int {
	s.tb.Helper()
	for range 20 {
		for sent := 0; sent < window; sent += 16 << 10 {
			if sent%(window/4) == 0 {
				<-time.After(every)
			}
			n := min(16<<10, window-sent)
			s.must(s.framer.WriteData(stream, false, make([]byte, n)))
			if _, err := io.ReadFull(body, make([]byte, n)); err != nil {
				s.tb.Fatal(err)
			}
		}
		synctest.Wait()
		window = s.granted(stream)
	}
	return window
}

// TestReadersThatKeepUpAreNotEnded has many windows grow, and then stops all readers for a while:
// the bytes that may come by then fit into the memory, and none of them is ended.
func TestReadersThatKeepUpAreNotEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const streams, rtt = 16, 50 * time.Millisecond
		initial := settings().Windows.Initial
		memory := budget(t, int64(4*streams*initial))
		client, server := raw(t, memory, rtt)
		ids, bodies, windows := [streams]uint32{}, [streams]io.ReadCloser{}, [streams]int{}
		total := 0
		for i := range streams {
			ids[i], bodies[i] = server.answer(client)
			windows[i] = server.fill(ids[i], bodies[i], initial, rtt/4)
			total += windows[i]
		}
		if windows[0] < 4*initial {
			t.Errorf("the first may have %d bytes sent, want it to have grown", windows[0])
		}
		for i := range streams {
			for sent := 0; sent < windows[i]; sent += 16 << 10 {
				server.must(server.framer.WriteData(ids[i], false, make([]byte, min(16<<10, windows[i]-sent))))
			}
		}
		synctest.Wait()
		if used := int(memory.Used()); used != total {
			t.Errorf("%d bytes are unread, want all %d", used, total)
		}
		for i := range streams {
			if n, err := io.ReadFull(bodies[i], make([]byte, windows[i])); err != nil {
				t.Errorf("stream %d: got %d bytes and %v, want %d", i, n, err, windows[i])
			}
			_ = bodies[i].Close()
		}
		if cut := memory.Cut(); cut != 0 {
			t.Errorf("%d streams were ended", cut)
		}
		again, body := server.answer(client) // what had grown is given back
		if window := server.fill(again, body, initial, rtt/4); window < 16*initial*7/8 {
			t.Errorf("a later one may have %d bytes sent, want it to grow as the first has", window)
		}
		_ = body.Close()
	})
}

// answer begins an answer to a request of the client's, and returns its stream at the server and
// its body at the client.
func (s *rawPeer) answer(client *h2.Client) (stream uint32, body io.ReadCloser) {
	s.tb.Helper()
	answered := make(chan *http.Response, 1)
	go func() { answered <- get(s.tb, client) }()
	head, err := next[*http2.HeadersFrame](s)
	s.must(err)
	s.head(head.StreamID, false)
	return head.StreamID, (<-answered).Body
}

// granted is how much the peer was told that it may send, since the last call.
func (s *rawPeer) granted(stream uint32) (bytes int) {
	for {
		select {
		case frame := <-s.frames:
			if update, ok := frame.(*http2.WindowUpdateFrame); ok && update.StreamID == stream {
				bytes += int(update.Increment)
			}
		default:
			return bytes
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func endless(w http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(w, zeros{}) }

// TestF48CanceledStreamsGiveTheirWindowBack cancels downloads in the middle.
func TestF48CanceledStreamsGiveTheirWindowBack(t *testing.T) {
	t.Parallel()
	b := budget(t, 1<<30)
	client, _ := pair(t, b, endless)
	rounds := 2000
	if os.Getenv("LEAT_FAULT_LONG") != "" {
		rounds = 10_000
	}
	for i := range rounds {
		res := get(t, client)
		if i%3 == 0 {
			if _, err := io.CopyN(io.Discard, res.Body, 10_000); err != nil {
				t.Fatal(err)
			}
		}
		_ = res.Body.Close()
	}
	if got := client.Unread(); got != 0 || b.Used() != 0 {
		t.Errorf("%d bytes are unread of streams that nobody reads, and %d of the budget are used, want none", got, b.Used())
	}
	res := get(t, client)
	defer func() { _ = res.Body.Close() }()
	if _, err := io.CopyN(io.Discard, res.Body, 64<<20); err != nil {
		t.Errorf("a download after them: %v", err)
	}
}

// TestF43NothingLimitsWholeRequests has a request and an answer that take a day.
func TestF43NothingLimitsWholeRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		client, _ := over(t, near, far, budget(t, 1<<30), budget(t, 1<<30), func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).Flush()
			_, _ = io.Copy(flushing{w}, r.Body)
		})
		in, out := io.Pipe()
		res, err := client.RoundTrip(request(t, context.WithoutCancel(t.Context()), http.MethodPost, in))
		if err != nil {
			t.Fatal(err)
		}
		for range 24 {
			<-time.After(time.Hour)
			if _, err := io.WriteString(out, "still here"); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(res.Body, make([]byte, len("still here"))); err != nil {
				t.Fatal(err)
			}
		}
		_ = out.Close()
		if rest, err := io.ReadAll(res.Body); err != nil || len(rest) > 0 {
			t.Errorf("at the end: got %q, %v", rest, err)
		}
	})
}

// flushing writes everything at once.
type flushing struct{ http.ResponseWriter }

func (f flushing) Write(p []byte) (int, error) {
	n, err := f.ResponseWriter.Write(p)
	_ = http.NewResponseController(f.ResponseWriter).Flush()
	return n, err
}
