// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package flow_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/leatdev/leat/internal/flow"
	"github.com/leatdev/leat/internal/testkit/offline"
)

func TestMain(m *testing.M) { os.Exit(offline.Run(m)) }

var windows = flow.Windows{Initial: 64 << 10, Max: 1 << 20}

func budget(tb testing.TB, bytes int64) *flow.Budget {
	tb.Helper()
	b, err := flow.NewBudget(bytes)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// recorder is a network that keeps what is written, and has something to read.
type recorder struct {
	net.Conn

	in      io.Reader
	written bytes.Buffer
}

func (r *recorder) Read(p []byte) (int, error)  { return r.in.Read(p) }
func (r *recorder) Write(p []byte) (int, error) { return r.written.Write(p) }
func (*recorder) Close() error                  { return nil }

// opening is what Go's HTTP/2 client writes first.
func opening(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	b.WriteString(http2.ClientPreface)
	framer := http2.NewFramer(&b, nil)
	if err := framer.WriteSettings(http2.Setting{ID: http2.SettingEnablePush}, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	if err := framer.WriteWindowUpdate(0, 1<<30); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// updates are the window updates of streams among what was written.
func (r *recorder) updates(t *testing.T) (initial uint32, increments []uint32) {
	t.Helper()
	r.written.Next(len(http2.ClientPreface))
	framer := http2.NewFramer(nil, &r.written)
	for {
		f, err := framer.ReadFrame()
		if errors.Is(err, io.EOF) {
			return initial, increments
		}
		if err != nil {
			t.Fatal(err)
		}
		switch f := f.(type) {
		case *http2.SettingsFrame:
			initial, _ = f.Value(http2.SettingInitialWindowSize)
		case *http2.WindowUpdateFrame:
			if f.StreamID != 0 {
				increments = append(increments, f.Increment)
			}
		}
	}
}

func TestWindowFollowsItsReader(t *testing.T) {
	t.Parallel()
	const half, rtt = 32 << 10, 30 * time.Millisecond
	for name, test := range map[string]struct {
		roundTrip time.Duration
		every     time.Duration // one update of half the initial window each
		want      []uint32      // without the half that was read
	}{
		"fast":            {rtt, time.Millisecond, []uint32{0, 64 << 10, 0, 128 << 10, 0, 0, 0, 256 << 10}},
		"slow":            {rtt, time.Second, []uint32{0, 0, 0, 0}},
		"near":            {time.Millisecond, 0, []uint32{0, 0, 0, 0}},
		"unknown":         {0, 0, []uint32{0, 0, 0, 0}},
		"fast, then slow": {rtt, 14 * time.Millisecond, []uint32{0, 64 << 10, 0, 128 << 10, 0, 0, 0, 0, 0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				wire := &recorder{}
				conn := budget(t, 1<<20).Client(wire, windows)
				conn.SetRoundTrip(test.roundTrip)
				framer := http2.NewFramer(conn, nil)
				if _, err := conn.Write(opening(t)); err != nil {
					t.Fatal(err)
				}
				for range test.want {
					<-time.After(test.every)
					if err := framer.WriteWindowUpdate(1, half); err != nil {
						t.Fatal(err)
					}
				}
				initial, got := wire.updates(t)
				if int(initial) != windows.Initial {
					t.Errorf("announced %d, want %d", initial, windows.Initial)
				}
				for i := range got {
					got[i] -= half
				}
				if fmt.Sprint(got) != fmt.Sprint(test.want) {
					t.Errorf("got increments %v, want %v", got, test.want)
				}
			})
		})
	}
}

// TestWindowHasAnEnd lets a window grow as far as it can.
func TestWindowHasAnEnd(t *testing.T) {
	t.Parallel()
	wire := &recorder{}
	conn := budget(t, 1<<30).Client(wire, windows)
	conn.SetRoundTrip(time.Hour)
	framer := http2.NewFramer(conn, nil)
	if _, err := conn.Write(opening(t)); err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		if err := framer.WriteWindowUpdate(1, 32<<10); err != nil {
			t.Fatal(err)
		}
	}
	_, increments := wire.updates(t)
	granted := windows.Initial
	for _, increment := range increments {
		granted += int(increment) - 32<<10
	}
	if granted != windows.Max {
		t.Errorf("the window has grown to %d, want %d", granted, windows.Max)
	}
}

// TestPiecesOfAnySize counts unread bytes however the frames are cut.
func TestPiecesOfAnySize(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		var in, out bytes.Buffer
		out.Write(opening(t))
		received, sent := http2.NewFramer(&in, nil), http2.NewFramer(&out, nil)
		want := int64(0)
		for range 50 {
			n := random.IntN(5000)
			if err := errors.Join(received.WriteData(1, false, make([]byte, n)), received.WritePing(false, [8]byte{})); err != nil {
				t.Fatal(err)
			}
			want += int64(n)
			if back := random.Int64N(want + 1); back > 0 {
				if err := sent.WriteWindowUpdate(0, uint32(back)); err != nil {
					t.Fatal(err)
				}
				want -= back
			}
		}
		b := budget(t, 1<<30)
		conn := b.Client(&recorder{in: &in}, windows)
		for out.Len() > 0 {
			if _, err := conn.Write(out.Next(1 + random.IntN(40))); err != nil {
				t.Fatal(err)
			}
		}
		for in.Len() > 0 {
			if _, err := conn.Read(make([]byte, 1+random.IntN(3000))); err != nil {
				t.Fatal(err)
			}
		}
		// Updates whose value lies in two pieces are not seen; none of them may be counted twice.
		if got := conn.Unread(); got < want || got != b.Used() {
			t.Fatalf("seed %d: got %d unread and %d used, want at least %d", seed, got, b.Used(), want)
		}
		if err := conn.Close(); err != nil || b.Used() != 0 {
			t.Fatalf("seed %d: %d used after the end, %v", seed, b.Used(), err)
		}
	}
}

// pair returns an HTTP/2 client whose connection is counted, and its connection.
func pair(t *testing.T, b *flow.Budget, handler http.HandlerFunc) (*http.ClientConn, *flow.Conn) {
	t.Helper()
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	server := httptest.NewUnstartedServer(handler)
	server.Config.Protocols = protocols
	server.Start()
	near, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	conn := b.Client(near, windows)
	transport := &http.Transport{
		Protocols: protocols, DialContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil },
		HTTP2: &http.HTTP2Config{
			MaxReceiveBufferPerStream: windows.Stream(), MaxReceiveBufferPerConnection: windows.Connection(),
		},
	}
	client, err := transport.NewClientConn(t.Context(), "http", "server:80")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = client.Close()
		server.Close()
	})
	return client, conn
}

func get(t *testing.T, client *http.ClientConn) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodGet, "http://x/", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := client.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func endless(w http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(w, zeros{}) }

// await waits for what other goroutines bring about.
func await(t *testing.T, what string, yes func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !yes(); <-time.After(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// TestTheStillestReaderGoesFirst has readers stand still until there is too much.
func TestTheStillestReaderGoesFirst(t *testing.T) {
	t.Parallel()
	b := budget(t, 200<<10) // three windows of 64 KiB fit
	client, conn := pair(t, b, endless)
	var bodies []*flow.Body
	for i := range 3 {
		res := get(t, client)
		bodies = append(bodies, b.Body(res.Body, nil))
		await(t, "a full window", func() bool { return conn.Unread() > int64(i*64+60)<<10 })
	}
	if b.Cut() != 0 {
		t.Fatalf("%d streams were cut while everything fit", b.Cut())
	}
	if _, err := io.ReadFull(bodies[0], make([]byte, 1000)); err != nil { // it has not stood still for the longest any more
		t.Fatal(err)
	}
	last := get(t, client)
	bodies = append(bodies, b.Body(last.Body, nil))
	await(t, "a stream to be cut", func() bool { return b.Cut() > 0 })
	if _, err := io.Copy(io.Discard, bodies[1]); !errors.Is(err, flow.ErrTooSlow) {
		t.Errorf("the stillest reader: got %v, want ErrTooSlow", err)
	}
	if _, err := io.ReadFull(bodies[0], make([]byte, 1<<20)); err != nil {
		t.Errorf("a reader that moved: got %v, want it to go on", err)
	}
	for _, body := range bodies {
		_ = body.Close()
	}
	await(t, "everything to be given back", func() bool { return b.Used() < 8<<10 })
}

// TestF48CanceledStreamsGiveTheirWindowBack cancels downloads in the middle.
func TestF48CanceledStreamsGiveTheirWindowBack(t *testing.T) {
	t.Parallel()
	b := budget(t, 1<<30)
	client, conn := pair(t, b, endless)
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
	await(t, "the connection's window to be whole", func() bool { return conn.Unread() < 8<<10 })
	res := get(t, client)
	defer func() { _ = res.Body.Close() }()
	if _, err := io.CopyN(io.Discard, res.Body, 64<<20); err != nil {
		t.Errorf("a download after them: %v", err)
	}
}

func TestBudgetsThatCannotWork(t *testing.T) {
	t.Parallel()
	for _, bytes := range []int64{0, -1, 1 << 31} {
		if _, err := flow.NewBudget(bytes); err == nil {
			t.Errorf("%d bytes were accepted", bytes)
		}
	}
}
