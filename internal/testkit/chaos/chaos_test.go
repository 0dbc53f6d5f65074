// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package chaos_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/leatdev/leat/internal/testkit/chaos"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pipes returns both ends of a connection through a proxy inside a bubble.
func pipes(t *testing.T) (*chaos.Proxy, net.Conn, net.Conn) {
	t.Helper()
	servers := make(chan net.Conn, 1)
	proxy := chaos.New(chaos.Params{Dial: func(context.Context) (net.Conn, error) {
		near, far := net.Pipe()
		servers <- far
		return near, nil
	}})
	client := proxy.Pipe()
	server := <-servers
	t.Cleanup(func() {
		_ = client.Close()
		_ = server.Close()
		proxy.Close()
	})
	return proxy, client, server
}

// sockets returns both ends of a TCP connection through a proxy that has already forwarded bytes on
// it.
func sockets(t *testing.T) (*chaos.Proxy, net.Conn, net.Conn) {
	t.Helper()
	proxy, client, server := fresh(t)
	echoOnce(t, client, server)
	return proxy, client, server
}

// fresh is sockets without any forwarded byte.
func fresh(t *testing.T) (*chaos.Proxy, net.Conn, net.Conn) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	proxy := chaos.Start(t, chaos.Params{Target: listener.Addr().String()})
	client, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", proxy.Addr())
	if err != nil {
		t.Fatal(err)
	}
	server, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = client.Close()
		_ = server.Close()
	})
	return proxy, client, server
}

func echoOnce(t *testing.T, from, to net.Conn) {
	t.Helper()
	go func() { _, _ = from.Write([]byte("x")) }()
	if _, err := io.ReadFull(to, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
}

// transfer sends n bytes, and returns when the last one has arrived.
func transfer(t *testing.T, from, to net.Conn, n int) {
	t.Helper()
	sent := bytes.Repeat([]byte("leat"), n/4)
	go func() { _, _ = from.Write(sent) }()
	got := make([]byte, len(sent))
	if _, err := io.ReadFull(to, got); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, sent) {
		t.Error("the bytes changed on their way")
	}
}

func TestDelay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		proxy, client, server := pipes(t)
		proxy.Delay(30 * time.Millisecond)
		began := time.Now()
		transfer(t, client, server, 4)
		transfer(t, server, client, 4)
		if got := time.Since(began); got != 30*time.Millisecond {
			t.Errorf("there and back: got %s, want 30ms", got)
		}
	})
}

func TestCap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		proxy, client, server := pipes(t)
		echoOnce(t, client, server)
		proxy.Cap(10 << 10)
		began := time.Now()
		transfer(t, client, server, 100<<10)
		if got := time.Since(began); got < 9*time.Second || got > 11*time.Second {
			t.Errorf("100 KiB at 10 KiB/s: got %s, want about 10s", got)
		}
	})
}

func TestIdleCut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		proxy, client, server := pipes(t)
		proxy.IdleCut(time.Minute)
		for range 10 {
			time.Sleep(50 * time.Second)
			transfer(t, server, client, 4) // either direction counts
		}
		began := time.Now()
		if _, err := client.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("read: got %v, want the end", err)
		}
		if got := time.Since(began); got != time.Minute {
			t.Errorf("cut after %s, want 1m", got)
		}
		if _, err := server.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("read at the other end: got %v, want the end", err)
		}
	})
}

func TestHalfOpen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		proxy, client, server := pipes(t)
		transfer(t, client, server, 4)
		proxy.HalfOpen()
		if _, err := client.Write(make([]byte, 1<<20)); err != nil {
			t.Errorf("write: got %v, want success: no end can know yet", err)
		}
		for name, conn := range map[string]net.Conn{"client": client, "server": server} {
			_ = conn.SetReadDeadline(time.Now().Add(time.Hour))
			if n, err := conn.Read(make([]byte, 1)); n != 0 || !isTimeout(err) {
				t.Errorf("%s read %d bytes and %v, want nothing for an hour", name, n, err)
			}
		}
		_ = server.Close()
		_ = client.SetReadDeadline(time.Now().Add(time.Hour))
		if _, err := client.Read(make([]byte, 1)); !isTimeout(err) {
			t.Errorf("read after the other end closed: got %v, want nothing for an hour", err)
		}
	})
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

func TestFreeze(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		proxy, client, server := pipes(t)
		transfer(t, client, server, 4)
		proxy.Freeze()
		_ = client.SetWriteDeadline(time.Now().Add(time.Hour))
		if n, err := client.Write(make([]byte, 1<<20)); !isTimeout(err) || n > 128<<10 {
			t.Errorf("write: got %d bytes and %v, want it to block", n, err)
		}
		proxy.Thaw()
		if _, err := server.Read(make([]byte, 1)); err != nil {
			t.Errorf("after the thaw: got %v", err)
		}
	})
}

func TestReset(t *testing.T) {
	t.Parallel()
	proxy, client, server := sockets(t)
	proxy.Reset()
	for name, conn := range map[string]net.Conn{"client": client, "server": server} {
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%s: got %v, want a reset", name, err)
		}
	}
}

func TestHalfClose(t *testing.T) {
	t.Parallel()
	_, client, server := sockets(t)
	half, ok := client.(*net.TCPConn)
	if !ok {
		t.Fatalf("got %T", client)
	}
	if err := half.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the other end: got %v, want the end of one direction", err)
	}
	transfer(t, server, client, 1<<20)
}

func TestCut(t *testing.T) {
	t.Parallel()
	proxy, client, server := sockets(t)
	transfer(t, client, server, 1<<20)
	if proxy.Accepted() != 1 || proxy.Open() != 1 {
		t.Errorf("counts: got %d accepted, %d open, want 1 and 1", proxy.Accepted(), proxy.Open())
	}
	proxy.Cut()
	if _, err := client.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("got %v, want the end", err)
	}
}
