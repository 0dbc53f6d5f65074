// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uplink_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/leatdev/leat/services/agent/internal/uplink"
)

// endless starts a server that answers every connection with first, and then with more again and
// again. It counts the bytes that clients accept of the latter.
func endless(t *testing.T, first, more string) (addr string, taken *atomic.Int64) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	taken = new(atomic.Int64)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = conn.Read(make([]byte, 4<<10))
				_, _ = io.WriteString(conn, first)
				for taken.Load() < 64<<20 {
					n, err := io.WriteString(conn, more)
					taken.Add(int64(n))
					if err != nil {
						return
					}
				}
			}()
		}
	}()
	return listener.Addr().String(), taken
}

// TestSecServersCannotAnswerWithoutEnd calls an API server, and a service, that send a head that
// never ends.
func TestSecServersCannotAnswerWithoutEnd(t *testing.T) {
	t.Parallel()
	filler := strings.Repeat("x", 32<<10)
	for name, test := range map[string]struct{ first, more string }{
		"headers":          {"HTTP/1.1 200 OK\r\n", "X-A: " + filler + "\r\n"},
		"one header":       {"HTTP/1.1 200 OK\r\nX-A: ", filler},
		"status text":      {"HTTP/1.1 200 ", filler},
		"status line":      {"", filler},
		"hints":            {"", "HTTP/1.1 103 Early Hints\r\nLink: " + filler + "\r\n\r\n"},
		"switching":        {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n", "X-A: " + filler + "\r\n"},
		"proxied continue": {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n", "X-A: " + filler + "\r\n"},
	} {
		for _, header := range []http.Header{{}, {"Leat-Upgrade": {"websocket"}}} {
			for _, path := range []string{"/kubernetes/api", "/services/shop/web:80/"} {
				addr, taken := endless(t, test.first, test.more)
				services, err := uplink.NewServices(uplink.ServiceParams{
					Allow: []uplink.Service{{Namespace: "shop", Name: "web", Port: 80}}, Logger: slog.New(slog.DiscardHandler),
					Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
						return new(net.Dialer).DialContext(ctx, network, addr)
					},
				})
				if err != nil {
					t.Fatal(err)
				}
				transport := &http.Transport{MaxResponseHeaderBytes: 128 << 10}
				h := newHandler(t, uplink.HandlerParams{APIServer: &url.URL{Scheme: "http", Host: addr}, Transport: transport, Services: services})
				request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
				request.Header = header.Clone()
				request.Header.Set("Impersonate-User", "ada")
				recorder := httptest.NewRecorder()
				h.ServeHTTP(recorder, request)
				transport.CloseIdleConnections()
				// The recorder records the status of a hint as the answer's.
				if recorder.Code != http.StatusBadGateway && recorder.Code >= 200 || !strings.Contains(recorder.Body.String(), "CLUSTER_UNREACHABLE") {
					t.Errorf("%s of %s, %v: got %d %.200s, want 502", name, path, header, recorder.Code, recorder.Body)
				}
				// The kernel's buffers also accept some megabytes.
				if got := taken.Load(); got > 32<<20 {
					t.Errorf("%s of %s, %v: took %d bytes", name, path, header, got)
				}
			}
		}
	}
}

// TestSecServicesAreNotTheAgentItself resolves the name of an allowed service to the agent's own
// machine, as an ExternalName may.
func TestSecServicesAreNotTheAgentItself(t *testing.T) {
	t.Parallel()
	secret := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "profiles of the agent") }))
	defer secret.Close()
	port := secret.Listener.Addr().(*net.TCPAddr).Port
	services, err := uplink.NewServices(uplink.ServiceParams{
		Allow: []uplink.Service{{Namespace: "shop", Name: "web", Port: port}}, Logger: slog.New(slog.DiscardHandler),
		Resolver: nameServer(t, [4]byte{127, 0, 0, 1}),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, header := range []http.Header{{}, {"Leat-Upgrade": {"websocket"}}} {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/services/shop/web:"+strconv.Itoa(port)+"/", nil)
		request.Header = header
		recorder := httptest.NewRecorder()
		services.ServeHTTP(recorder, request)
		if recorder.Code != http.StatusBadGateway || strings.Contains(recorder.Body.String(), "profiles") {
			t.Errorf("%v: got %d %s, want no connection", header, recorder.Code, recorder.Body)
		}
	}
}

// nameServer returns a resolver that resolves every name to address.
func nameServer(t *testing.T, address [4]byte) *net.Resolver {
	t.Helper()
	socket, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = socket.Close() })
	go func() {
		buffer := make([]byte, 1500)
		for {
			n, from, err := socket.ReadFrom(buffer)
			if err != nil {
				return
			}
			var message dnsmessage.Message
			if message.Unpack(buffer[:n]) != nil || len(message.Questions) != 1 {
				continue
			}
			message.Response, message.Additionals = true, nil
			if q := message.Questions[0]; q.Type == dnsmessage.TypeA {
				message.Answers = []dnsmessage.Resource{{
					Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 1}, Body: &dnsmessage.AResource{A: address},
				}}
			}
			if packed, err := message.Pack(); err == nil {
				_, _ = socket.WriteTo(packed, from)
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", socket.LocalAddr().String())
	}}
}
