// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package carrier_test

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"github.com/coder/websocket"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	tunnelv1 "github.com/leatdev/leat/gen/go/leat/tunnel/v1"
	"github.com/leatdev/leat/gen/go/leat/tunnel/v1/tunnelv1connect"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/internal/testkit/offline"
	"github.com/leatdev/leat/services/agent/internal/carrier"
)

func TestMain(m *testing.M) { os.Exit(offline.Run(m)) }

// echoHub accepts connections over TLS and echoes their bytes.
type echoHub struct {
	tunnelv1connect.UnimplementedTunnelServiceHandler

	server *httptest.Server
	refuse func(via string) error

	mu    sync.Mutex
	asked []string // ways that were tried
}

func startHub(t *testing.T, refuse func(via string) error) *echoHub {
	t.Helper()
	h := &echoHub{refuse: refuse}
	mux := http.NewServeMux()
	mux.HandleFunc("/base/tunnel/v1/connect", h.take)
	path, handler := tunnelv1connect.NewTunnelServiceHandler(h)
	mux.Handle("/base"+path, http.StripPrefix("/base", handler))
	h.server = httptest.NewUnstartedServer(mux)
	h.server.EnableHTTP2 = true
	h.server.StartTLS()
	t.Cleanup(h.server.Close)
	return h
}

func (h *echoHub) check(via, authorization string) error {
	h.mu.Lock()
	h.asked = append(h.asked, via)
	h.mu.Unlock()
	if authorization != "Bearer t" {
		return errors.New("no token")
	}
	if h.refuse != nil {
		return h.refuse(via)
	}
	return nil
}

func (h *echoHub) tried() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	tried := h.asked
	h.asked = nil
	return tried
}

func (h *echoHub) take(w http.ResponseWriter, r *http.Request) {
	via := "upgrade"
	if r.Header.Get("Upgrade") == "websocket" {
		via = "websocket"
	}
	if err := h.check(via, r.Header.Get("Authorization")); err != nil {
		rpcerr.WriteHTTP(w, r, err)
		return
	}
	var conn net.Conn
	if via == "websocket" {
		socket, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"leat-tunnel.1"}})
		if err != nil {
			return
		}
		socket.SetReadLimit(-1)
		conn = websocket.NetConn(context.Background(), socket, websocket.MessageBinary)
	} else {
		hijacked, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		// The first bytes arrive in one packet with the answer.
		_, _ = io.WriteString(hijacked, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: leat-tunnel/1\r\n\r\n")
		conn = hijacked
	}
	defer func() { _ = conn.Close() }()
	_, _ = io.Copy(conn, conn)
}

func (h *echoHub) Connect(_ context.Context, stream *connect.BidiStream[tunnelv1.ConnectRequest, tunnelv1.ConnectResponse]) error {
	if err := h.check("connect", stream.RequestHeader().Get("Authorization")); err != nil {
		return err
	}
	for {
		message, err := stream.Receive()
		if err != nil {
			return nil //nolint:nilerr // the caller has ended the call
		}
		if err := stream.Send(&tunnelv1.ConnectResponse{Data: message.GetData()}); err != nil {
			return err
		}
	}
}

func (h *echoHub) roots() *x509.CertPool {
	roots := x509.NewCertPool()
	roots.AddCert(h.server.Certificate())
	return roots
}

func (h *echoHub) url() string { return h.server.URL + "/base/" }

var header = http.Header{"Authorization": {"Bearer t"}}

// noProxy is for tests without a proxy, regardless of the environment.
func noProxy(*http.Request) (*url.URL, error) { return nil, nil }

// echo sends a large message and expects it back.
func echo(t *testing.T, conn net.Conn) {
	t.Helper()
	text := strings.Repeat("0123456789abcdef", 40_000)
	var sending sync.WaitGroup
	sending.Go(func() {
		if _, err := io.WriteString(conn, text); err != nil {
			t.Errorf("write: %v", err)
		}
	})
	got := make([]byte, len(text))
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != text {
		t.Errorf("the echo differs, or ended: %v", err)
	}
	sending.Wait()
}

// TestThroughAProxy reaches the hub over an HTTP proxy that supports CONNECT, by each transport.
func TestThroughAProxy(t *testing.T) {
	t.Parallel()
	for _, transport := range carrier.Transports() {
		t.Run(string(transport), func(t *testing.T) {
			t.Parallel()
			h := startHub(t, nil)
			proxy, used := startProxy(t)
			d := carrier.New(carrier.Params{
				Roots: h.roots(), Transports: []carrier.Transport{transport}, Proxy: http.ProxyURL(proxy),
			})
			conn, err := d.Dial(t.Context(), h.url(), header)
			if err != nil {
				t.Fatal(err)
			}
			echo(t, conn)
			_ = conn.Close()
			if _, err := conn.Read(make([]byte, 1)); err == nil {
				t.Error("a closed connection can be read")
			}
			if got := used(); got != 1 {
				t.Errorf("the proxy was asked %d times, want once", got)
			}
		})
	}
}

// startProxy starts a proxy that supports only CONNECT, and counts its requests.
func startProxy(t *testing.T) (address *url.URL, used func() int) {
	t.Helper()
	var mu sync.Mutex
	count := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			http.Error(w, "only CONNECT", http.StatusMethodNotAllowed)
			return
		}
		mu.Lock()
		count++
		mu.Unlock()
		back, err := net.Dial("tcp", r.Host)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		front, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		_, _ = io.WriteString(front, "HTTP/1.1 200 Connection established\r\n\r\n")
		go func() {
			_, _ = io.Copy(back, front)
			_ = back.Close()
		}()
		_, _ = io.Copy(front, back)
		_ = front.Close()
	}))
	t.Cleanup(server.Close)
	address, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return address, func() int {
		mu.Lock()
		defer mu.Unlock()
		return count
	}
}

// only refuses all transports but one, like an ingress that supports no other.
func only(transport string) func(string) error {
	return func(via string) error {
		if via == transport {
			return nil
		}
		return rpcerr.New(connect.CodeUnimplemented, errorsv1.Reason_REASON_UNIMPLEMENTED, "not this way")
	}
}

func TestWhatWorkedIsRemembered(t *testing.T) {
	t.Parallel()
	h := startHub(t, only("connect"))
	d := carrier.New(carrier.Params{Roots: h.roots(), Proxy: noProxy})
	for _, want := range [][]string{{"upgrade", "websocket", "connect"}, {"connect"}} {
		conn, err := d.Dial(t.Context(), h.url(), header)
		if err != nil || conn.Transport != carrier.Connect {
			t.Fatalf("got %v, %v", conn, err)
		}
		_ = conn.Close()
		if got := h.tried(); !slices.Equal(got, want) {
			t.Errorf("tried %v, want %v", got, want)
		}
	}
	d.Blame(h.url(), carrier.Connect)
	conn, err := d.Dial(t.Context(), h.url(), header)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	if got, want := h.tried(), []string{"upgrade", "websocket", "connect"}; !slices.Equal(got, want) {
		t.Errorf("after blame: tried %v, want %v", got, want)
	}
}

// TestRefusalsOfTheHubAreFinal tries no second transport after the hub itself has refused.
func TestRefusalsOfTheHubAreFinal(t *testing.T) {
	t.Parallel()
	h := startHub(t, func(string) error {
		return rpcerr.New(connect.CodeAlreadyExists, errorsv1.Reason_REASON_ALREADY_EXISTS, "connected already")
	})
	d := carrier.New(carrier.Params{Roots: h.roots(), Proxy: noProxy})
	if _, err := d.Dial(t.Context(), h.url(), header); rpcerr.ReasonOf(err) != errorsv1.Reason_REASON_ALREADY_EXISTS {
		t.Errorf("got %v, want the hub's refusal", err)
	}
	if got := h.tried(); len(got) != 1 {
		t.Errorf("tried %v, want one way", got)
	}
}

func TestErrorsNameEachWay(t *testing.T) {
	t.Parallel()
	h := startHub(t, only("none"))
	d := carrier.New(carrier.Params{Roots: h.roots(), Proxy: noProxy})
	_, err := d.Dial(t.Context(), h.url(), header)
	for _, transport := range carrier.Transports() {
		if err == nil || !strings.Contains(err.Error(), string(transport)+": ") {
			t.Errorf("got %v, want it to say what was wrong with %s", err, transport)
		}
	}
	for _, bad := range []string{"", "ftp://hub", "https://", "hub:8080"} {
		if _, err := d.Dial(t.Context(), bad, header); err == nil || !strings.Contains(err.Error(), "want http or https") {
			t.Errorf("%q: got %v, want an error that says what is wanted", bad, err)
		}
	}
}

// TestRefusalThatHasNoEnd has a proxy that forwards a refusal and keeps the call open: the attempt
// ends with its context.
func TestRefusalThatHasNoEnd(t *testing.T) {
	t.Parallel()
	began := make(chan struct{})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadFull(r.Body, make([]byte, 5)) // the agent has sent its messages, and waits
		w.Header().Set("Content-Type", "application/connect+proto")
		refusal := `{"error":{"code":"already_exists","message":"connected already"}}`
		_, _ = w.Write(append([]byte{2, 0, 0, 0, byte(len(refusal))}, refusal...)) // the last message of the stream
		_ = http.NewResponseController(w).Flush()
		close(began)
		<-r.Context().Done()
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	d := carrier.New(carrier.Params{Roots: roots, Transports: []carrier.Transport{carrier.Connect}, Proxy: noProxy})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-began
		cancel()
	}()
	if _, err := d.Dial(ctx, server.URL, header); err == nil {
		t.Error("got a connection, want the end of the context")
	}
}

// TestNobodyAnswers fails at once, because no other transport would reach the hub either.
func TestNobodyAnswers(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close()
	_, err = carrier.New(carrier.Params{Proxy: noProxy}).Dial(t.Context(), "http://"+address, header)
	if err == nil || strings.Contains(err.Error(), "websocket") {
		t.Errorf("got %v, want one failure to connect", err)
	}
}

// TestMemoryFades tries a better transport again after a while.
func TestMemoryFades(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := carrier.New(carrier.Params{Proxy: noProxy})
		d.Blame("https://hub", carrier.Upgrade)
		if got := d.Order("https://hub")[0]; got != carrier.WebSocket {
			t.Errorf("at first: got %s, want websocket", got)
		}
		<-time.After(time.Hour)
		if got := d.Order("https://hub")[0]; got != carrier.Upgrade {
			t.Errorf("later: got %s, want upgrade", got)
		}
	})
}
