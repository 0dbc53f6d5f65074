// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/test/bufconn"

	"github.com/leatdev/leat/internal/runtime/h2"
	"github.com/leatdev/leat/internal/testkit/loopback"
)

// The conformance suite holds HTTP/2 to what net/http's callers rely on: each case runs for every
// pair of a client and a server, of which the pair of well-known ones is the reference. A case that
// fails for the reference is wrong.

// patience is how long anything in a case may take. Nothing in a case waits for it unless the case
// fails.
const patience = 30 * time.Second

// origin is where requests of the suite go.
const origin = "http://cluster.example"

// options are the settings of a side that a case needs. The zero value leaves it as it is.
type options struct {
	maxHeader       int           // the largest header, of a request at the server and of an answer at the client
	maxStreams      int           // how many requests the server answers at once
	continueTimeout time.Duration // how long the client waits for "100 Continue"
	frameSize       int           // the largest frame that both sides accept
}

// defaults fills in what the case does not care about.
func (o options) defaults() options {
	if o.maxHeader == 0 {
		o.maxHeader = 64 << 10
	}
	if o.maxStreams == 0 {
		o.maxStreams = 1000
	}
	if o.continueTimeout == 0 {
		o.continueTimeout = patience
	}
	if o.frameSize == 0 {
		o.frameSize = 64 << 10
	}
	return o
}

// side is one end of a connection.
type side interface {
	Shutdown(ctx context.Context) error
	Close() error
}

// requester is the client's end.
type requester interface {
	http.RoundTripper
	side
}

// implementation is an HTTP/2 under test.
type implementation struct {
	name   string
	client func(t testing.TB, conn net.Conn, o options) requester
	// server serves the connection, in a goroutine of its own.
	server func(t testing.TB, conn net.Conn, handler http.Handler, o options) side
	// refused reports whether a request's error means that the server has certainly not begun it.
	refused func(err error) bool
}

// wellKnown is x/net's client and net/http's server.
var wellKnown = implementation{
	name: "known",
	client: func(t testing.TB, conn net.Conn, o options) requester {
		t.Helper()
		transport, err := http2.ConfigureTransports(&http.Transport{
			DisableCompression: true, MaxResponseHeaderBytes: int64(o.maxHeader), ExpectContinueTimeout: o.continueTimeout,
			HTTP2: &http.HTTP2Config{
				MaxReceiveBufferPerStream: 512 << 10, MaxReceiveBufferPerConnection: 1 << 30, MaxReadFrameSize: o.frameSize,
				SendPingTimeout: patience / 2, PingTimeout: patience / 2, WriteByteTimeout: patience / 2,
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		client, err := transport.NewClientConn(conn)
		if err != nil {
			t.Fatal(err)
		}
		return client
	},
	server: func(t testing.TB, conn net.Conn, handler http.Handler, o options) side {
		t.Helper()
		protocols := new(http.Protocols)
		protocols.SetUnencryptedHTTP2(true)
		server := &http.Server{
			Handler: handler, Protocols: protocols, MaxHeaderBytes: o.maxHeader, ReadHeaderTimeout: time.Minute,
			HTTP2: &http.HTTP2Config{
				MaxConcurrentStreams: o.maxStreams, MaxReadFrameSize: o.frameSize, MaxReceiveBufferPerStream: 512 << 10,
				MaxReceiveBufferPerConnection: 1 << 30,
			},
			ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = server.Serve(loopback.Single(conn))
		}()
		t.Cleanup(func() {
			_ = server.Close()
			<-ended
		})
		return server
	},
	refused: func(err error) bool {
		var stream http2.StreamError
		if errors.As(err, &stream) {
			return stream.Code == http2.ErrCodeRefusedStream
		}
		return strings.Contains(err.Error(), "graceful shutdown GOAWAY") || strings.Contains(err.Error(), "client conn not usable")
	},
}

// ours is this package.
var ours = implementation{
	name: "ours",
	client: func(t testing.TB, conn net.Conn, o options) requester {
		t.Helper()
		return h2.NewClient(conn, o.settings(), newBudget(t))
	},
	server: func(t testing.TB, conn net.Conn, handler http.Handler, o options) side {
		t.Helper()
		server := h2.NewServer(context.WithoutCancel(t.Context()), conn, h2.ServerParams{
			Settings: o.settings(), Budget: newBudget(t), Handler: handler, Logger: slog.New(slog.DiscardHandler),
		})
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = server.Serve()
		}()
		t.Cleanup(func() {
			_ = server.Close()
			<-ended
		})
		return server
	},
	refused: func(err error) bool { return errors.Is(err, h2.ErrRefused) },
}

// settings are this package's settings.
func (o options) settings() h2.Settings {
	return h2.Settings{
		Windows: h2.DefaultWindows(), FrameSize: o.frameSize, MaxHeaderBytes: o.maxHeader, MaxStreams: o.maxStreams,
		PingAfter: patience / 2, PingTimeout: patience / 2, WriteTimeout: patience / 2, ContinueTimeout: o.continueTimeout,
	}
}

// newBudget is one that no case uses up.
func newBudget(t testing.TB) *h2.Budget {
	t.Helper()
	budget, err := h2.NewBudget(1 << 30)
	if err != nil {
		t.Fatal(err)
	}
	return budget
}

// implementations are all there are.
var implementations = []implementation{wellKnown, ours}

// pairing is a pair of sides that a case runs for.
type pairing struct{ client, server implementation }

// conform runs a case for each pair, and looks whether all goroutines that came of it have ended.
func conform(t *testing.T, run func(t *testing.T, p pairing)) {
	t.Helper()
	t.Parallel()
	for _, client := range implementations {
		for _, server := range implementations {
			t.Run(client.name+"-"+server.name, func(t *testing.T) {
				t.Parallel()
				watchGoroutines(t)
				run(t, pairing{client, server})
			})
		}
	}
}

// conformClient runs a case whose server is the test's own for each client.
func conformClient(t *testing.T, run func(t *testing.T, client implementation)) {
	t.Helper()
	t.Parallel()
	for _, client := range implementations {
		t.Run(client.name, func(t *testing.T) {
			t.Parallel()
			watchGoroutines(t)
			run(t, client)
		})
	}
}

// conformServer runs a case whose client is the test's own for each server.
func conformServer(t *testing.T, run func(t *testing.T, server implementation)) {
	t.Helper()
	t.Parallel()
	for _, server := range implementations {
		t.Run(server.name, func(t *testing.T) {
			t.Parallel()
			watchGoroutines(t)
			run(t, server)
		})
	}
}

// watchGoroutines marks this test's goroutine and with it all that come of it, and looks for them
// when the test is over.
func watchGoroutines(t *testing.T) {
	t.Helper()
	const key = "conformance"
	pprof.SetGoroutineLabels(pprof.WithLabels(t.Context(), pprof.Labels(key, t.Name())))
	t.Cleanup(func() {
		pprof.SetGoroutineLabels(context.WithoutCancel(t.Context()))
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
		defer cancel()
		look := time.NewTicker(5 * time.Millisecond)
		defer look.Stop()
		for {
			left := labelled(t, `"`+key+`":"`+t.Name()+`"`)
			if len(left) == 0 {
				return
			}
			select {
			case <-look.C:
			case <-ctx.Done():
				t.Errorf("goroutines are left:\n%s", strings.Join(left, "\n\n"))
				return
			}
		}
	})
}

// labelled are the stacks of the goroutines with this label.
func labelled(t *testing.T, label string) []string {
	t.Helper()
	var stacks bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&stacks, 1); err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(strings.Split(stacks.String(), "\n\n"), func(s string) bool { return !strings.Contains(s, label) })
}

// rig is a connection with both sides at work.
type rig struct {
	client             requester
	server             side
	clientEnd, farther net.Conn // the connection's two ends
}

// connect begins HTTP/2 over a connection of the loopback interface.
func (p pairing) connect(t *testing.T, handler http.HandlerFunc, o options) *rig {
	t.Helper()
	near, far := loopbackPair(t)
	return p.over(t, near, far, handler, o)
}

// connectInMemory begins HTTP/2 over a connection that works where time is virtual.
func (p pairing) connectInMemory(t *testing.T, handler http.HandlerFunc, o options) *rig {
	t.Helper()
	near, far := memoryPair(t)
	return p.over(t, near, far, handler, o)
}

func (p pairing) over(t *testing.T, near, far net.Conn, handler http.Handler, o options) *rig {
	t.Helper()
	r := &rig{clientEnd: near, farther: far}
	r.server = p.server.server(t, far, handler, o.defaults())
	r.client = p.client.client(t, near, o.defaults())
	t.Cleanup(func() {
		_ = r.client.Close()
		_ = r.server.Close()
	})
	return r
}

// loopbackPair is a TCP connection.
func loopbackPair(t testing.TB) (near, far net.Conn) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if near, err = (&net.Dialer{}).DialContext(t.Context(), "tcp", listener.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if far, err = listener.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = near.Close()
		_ = far.Close()
	})
	return near, far
}

// memoryPair is a connection that holds some bytes, as the network does.
func memoryPair(t testing.TB) (near, far net.Conn) {
	t.Helper()
	listener := bufconn.Listen(256 << 10)
	defer listener.Close()
	accepted := make(chan net.Conn, 1)
	go func() {
		conn, _ := listener.Accept()
		accepted <- conn
	}()
	near, err := listener.DialContext(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	far = <-accepted
	t.Cleanup(func() {
		_ = near.Close()
		_ = far.Close()
	})
	return near, far
}

// request is one that fails when nothing comes of it.
func (r *rig) request(t *testing.T, method, target string, body io.Reader) *http.Request {
	t.Helper()
	return newRequest(t, method, target, body)
}

func newRequest(t *testing.T, method, target string, body io.Reader) *http.Request {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, method, origin+target, body)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// do makes a request that has to succeed.
func (r *rig) do(t *testing.T, req *http.Request) *http.Response {
	t.Helper()
	return roundTrip(t, r.client, req)
}

func roundTrip(t *testing.T, client http.RoundTripper, req *http.Request) *http.Response {
	t.Helper()
	res, err := client.RoundTrip(req)
	if err != nil {
		t.Fatalf("%s %s: %v", req.Method, req.URL, err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

// get asks for a path, and wants this status.
func (r *rig) get(t *testing.T, target string, status int) *http.Response {
	t.Helper()
	res := r.do(t, r.request(t, http.MethodGet, target, nil))
	if res.StatusCode != status {
		t.Fatalf("GET %s: got %s, want %d", target, res.Status, status)
	}
	return res
}

// alive fails when the connection takes no further requests. The handler has to answer /alive with
// 200.
func (r *rig) alive(t *testing.T) {
	t.Helper()
	res := r.get(t, "/alive", http.StatusOK)
	_ = text(t, res.Body)
}

// text is all there is to read.
func text(t *testing.T, r io.Reader) string {
	t.Helper()
	all, err := io.ReadAll(r)
	if err != nil {
		t.Errorf("read: got %v after %d bytes", err, len(all))
	}
	return string(all)
}

// want compares, and names what was compared.
func want[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// wantList compares in order; none and empty are the same.
func wantList(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

// wantCut fails when a body ends as if it were complete.
func wantCut(t *testing.T, what string, body io.Reader) {
	t.Helper()
	if n, err := io.Copy(io.Discard, body); err == nil {
		t.Errorf("%s: the body has ended well after %d bytes, want an error", what, n)
	}
}

// receive waits for a value from a goroutine of the case.
func receive[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case v := <-from:
		return v
	case <-timer.C:
		t.Fatalf("%s: waited in vain", what)
		panic("unreachable")
	}
}

// content is so many bytes that do not compress, and their sum.
func content(seed uint64, size int) (data []byte, sum string) {
	var key [32]byte
	key[0], key[1] = byte(seed), byte(seed>>8)
	data = make([]byte, size)
	_, _ = rand.NewChaCha8(key).Read(data) // it never fails
	digest := sha256.Sum256(data)
	return data, hex.EncodeToString(digest[:])
}

// sumOf reads to the end.
func sumOf(r io.Reader) (sum string, size int64, err error) {
	hash := sha256.New()
	size, err = io.Copy(hash, r)
	return hex.EncodeToString(hash.Sum(nil)), size, err
}

// reader is a request's body that knows when it was read and closed.
type reader struct {
	read   func(p []byte) (int, error)
	closed chan struct{}
}

func newReader(read func(p []byte) (int, error)) *reader {
	return &reader{read: read, closed: make(chan struct{}, 16)}
}

func (r *reader) Read(p []byte) (int, error) { return r.read(p) }

func (r *reader) Close() error {
	select {
	case r.closed <- struct{}{}:
	default:
	}
	return nil
}

// noEnd never runs dry.
func noEnd(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
