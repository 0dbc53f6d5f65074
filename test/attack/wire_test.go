// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package attack_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// These are the source addresses of attacks and of normal requests, so that bounds per address
// affect only attacks. A service behind a load balancer gets the first of each pair; otherwise the
// second, on loopback, is enough.
const (
	attackerAddress, attackerLoopback = "203.0.113.66", "127.0.0.1"
	normalAddress, normalLoopback     = "198.51.100.10", "127.0.0.2"
	// balancer is the address of the load balancer, if there is one.
	balancer = "127.0.0.3"
)

// dial opens a connection to a port from a client address. Services allow loopback addresses more
// than others. So connections to the public port come through a load balancer that speaks the PROXY
// protocol, if the service supports it.
func (s *server) dial(ctx context.Context, addr, address, loopback string) (net.Conn, error) {
	proxied := s.proxied && addr == s.public
	if proxied {
		loopback = balancer
	}
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(loopback)}}
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil || !proxied {
		return conn, err
	}
	if _, err := fmt.Fprintf(conn, "PROXY TCP4 %s 192.0.2.1 50000 443\r\n", address); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// victim is one port of one server while one attack runs against it.
type victim struct {
	attack *attack
	server *server
	addr   string
	tls    *tls.Config // nil: without TLS

	agentToken, personToken string // empty unless the attack uses them

	left  atomic.Int64 // bytes that may still be sent
	sent  atomic.Int64 // bytes that were sent
	conns atomic.Int64 // connections that were opened
}

// each runs do repeatedly until ctx ends, in as many goroutines as the attack has connections. A
// goroutine pauses when do returns an error, so that all goroutines together reconnect at most a
// thousand times a second.
func (v *victim) each(ctx context.Context, do func(ctx context.Context) error) {
	pause := time.Second * time.Duration(max(20, v.attack.conns)) / 1000
	var group sync.WaitGroup
	defer group.Wait()
	for range v.attack.conns {
		group.Go(func() {
			for ctx.Err() == nil {
				if do(ctx) != nil {
					wait(ctx, pause)
				}
			}
		})
	}
}

// wait returns after d, or when ctx ends.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// errSpent ends a write of an attack that has used up its megabytes.
var errSpent = errors.New("the attack has sent all that it may")

// wire is a connection of an attack. It closes when the attack ends.
type wire struct {
	net.Conn

	ctx    context.Context
	victim *victim
	stop   func() bool
}

// dial opens a connection to the victim.
func (v *victim) dial(ctx context.Context) (net.Conn, error) {
	conn, err := v.server.dial(ctx, v.addr, attackerAddress, attackerLoopback)
	if err != nil {
		return nil, err
	}
	v.conns.Add(1)
	w := &wire{Conn: conn, ctx: ctx, victim: v}
	w.stop = context.AfterFunc(ctx, func() { _ = conn.Close() })
	return w, nil
}

// Write sends p. If the attack has used up its megabytes, Write blocks until the attack ends and
// leaves the connection open.
func (w *wire) Write(p []byte) (int, error) {
	if w.victim.left.Add(-int64(len(p))) < 0 {
		<-w.ctx.Done()
		return 0, errSpent
	}
	n, err := w.Conn.Write(p)
	w.victim.sent.Add(int64(n))
	return n, err
}

// Close resets the connection: unsent data is dropped, and no port remains in TIME_WAIT.
func (w *wire) Close() error {
	w.stop()
	if tcp, ok := w.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	return w.Conn.Close()
}

// open opens a connection to the victim, with TLS if the victim uses it.
func (v *victim) open(ctx context.Context, protocols ...string) (net.Conn, error) {
	conn, err := v.dial(ctx)
	if err != nil || v.tls == nil {
		return conn, err
	}
	cfg := v.tls.Clone()
	cfg.NextProtos = protocols
	secure := tls.Client(conn, cfg)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return secure, nil
}

// http1 opens a connection and sends text.
func (v *victim) http1(ctx context.Context, text string) (net.Conn, error) {
	conn, err := v.open(ctx, "http/1.1")
	if err != nil {
		return nil, err
	}
	if _, err := io.WriteString(conn, text); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// client returns a client that speaks well-formed HTTP, over HTTP/2 only or over HTTP/1.1 only. The
// caller closes its idle connections.
func (v *victim) client(ctx context.Context, overHTTP2 bool) *http.Client {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!overHTTP2)
	protocols.SetHTTP2(overHTTP2 && v.tls != nil)
	protocols.SetUnencryptedHTTP2(overHTTP2 && v.tls == nil)
	return &http.Client{
		Transport: &http.Transport{
			Protocols: protocols, TLSClientConfig: v.tls, DisableCompression: true, WriteBufferSize: 64 << 10,
			// Connections last as long as the attack, not only as long as the request that opened
			// them.
			DialContext: func(context.Context, string, string) (net.Conn, error) { return v.dial(ctx) },
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// url returns the URL of a path at the victim.
func (v *victim) url(path string) string {
	if v.tls != nil {
		return "https://" + v.addr + path
	}
	return "http://" + v.addr + path
}

// frames is a connection on which an attack sends arbitrary HTTP/2 frames. One goroutine sends, and
// the one that [frames.answer] starts reads.
type frames struct {
	net.Conn
	*http2.Framer

	mu     sync.Mutex // guards the buffer, which also receives answers to PINGs
	buffer *bufio.Writer
	block  bytes.Buffer
	hpack  *hpack.Encoder
	stream uint32 // the last opened stream
	host   string
}

// http2 opens a connection, sends the preface and the settings, and waits for the server's
// settings.
func (v *victim) http2(ctx context.Context, settings ...http2.Setting) (*frames, error) {
	conn, err := v.open(ctx, "h2")
	if err != nil {
		return nil, err
	}
	f := &frames{Conn: conn, buffer: bufio.NewWriterSize(conn, 16<<10), host: v.addr}
	f.Framer = http2.NewFramer(f.buffer, conn)
	f.AllowIllegalWrites = true
	f.hpack = hpack.NewEncoder(&f.block)
	if err := f.greet(settings); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return f, nil
}

func (f *frames) greet(settings []http2.Setting) error {
	if _, err := f.buffer.WriteString(http2.ClientPreface); err != nil {
		return err
	}
	if err := f.WriteSettings(settings...); err != nil {
		return err
	}
	if err := f.buffer.Flush(); err != nil {
		return err
	}
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return err
		}
		if theirs, ok := frame.(*http2.SettingsFrame); ok && !theirs.IsAck() {
			return f.send(f.WriteSettingsAck)
		}
	}
}

// send writes frames and flushes them.
func (f *frames) send(write func() error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := write(); err != nil {
		return err
	}
	return f.buffer.Flush()
}

// queue writes frames to the buffer, which is sent when it is full.
func (f *frames) queue(write func() error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return write()
}

// answer starts a goroutine that reads everything the server sends, and answers its PINGs, until
// the connection ends. The returned channel is then closed.
func (f *frames) answer() <-chan struct{} {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			frame, err := f.ReadFrame()
			if err != nil && !errors.As(err, new(http2.StreamError)) {
				return
			}
			if ping, ok := frame.(*http2.PingFrame); ok && !ping.IsAck() {
				data := ping.Data
				if f.send(func() error { return f.WritePing(true, data) }) != nil {
					return
				}
			}
		}
	}()
	return ended
}

// next returns the id of a new stream.
func (f *frames) next() uint32 {
	if f.stream == 0 {
		f.stream = 1
	} else {
		f.stream += 2
	}
	return f.stream
}

// head encodes the head of a request. The bytes are valid until the next call.
func (f *frames) head(method, path string, fields ...string) []byte {
	f.block.Reset()
	for _, field := range [][2]string{{":method", method}, {":scheme", "http"}, {":authority", f.host}, {":path", path}} {
		_ = f.hpack.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}) // cannot fail: the buffer is in memory
	}
	for i := 0; i+1 < len(fields); i += 2 {
		_ = f.hpack.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return f.block.Bytes()
}

// request queues the head of a request on a new stream, and returns the stream.
func (f *frames) request(endStream bool, method, path string, fields ...string) (uint32, error) {
	id := f.next()
	return id, f.queue(func() error {
		return f.WriteHeaders(http2.HeadersFrameParam{
			StreamID: id, BlockFragment: f.head(method, path, fields...), EndStream: endStream, EndHeaders: true,
		})
	})
}

// trickle reads a few bytes now and then until ctx or the connection ends, often enough that the
// server does not consider its peer stalled.
func trickle(ctx context.Context, conn net.Conn) error {
	few := make([]byte, 512)
	for {
		wait(ctx, 250*time.Millisecond)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if _, err := conn.Read(few); err != nil {
			return err
		}
	}
}

// narrow makes the kernel buffer little of what a connection receives, so that the server must keep
// it.
func narrow(conn net.Conn) {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	if w, ok := conn.(*wire); ok {
		conn = w.Conn
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetReadBuffer(4 << 10) // the kernel may choose another size
	}
}

// stalled is a body that never ends: left bytes, and then nothing until the attack ends.
type stalled struct {
	ctx  context.Context
	left int64
}

// Read implements io.Reader.
func (s *stalled) Read(p []byte) (int, error) {
	if s.left <= 0 {
		<-s.ctx.Done()
		return 0, errSpent
	}
	n := int(min(int64(len(p)), s.left))
	clear(p[:n])
	s.left -= int64(n)
	return n, nil
}

// dripping is a body that arrives one byte at a time.
type dripping struct {
	ctx   context.Context
	every time.Duration
}

// Read implements io.Reader.
func (d *dripping) Read(p []byte) (int, error) {
	wait(d.ctx, d.every)
	if d.ctx.Err() != nil {
		return 0, errSpent
	}
	p[0] = 0
	return 1, nil
}
