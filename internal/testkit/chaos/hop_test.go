// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package chaos_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/testkit/chaos"
)

// target answers with the protocol of the request, and grants every upgrade with one line of
// greeting.
func target(t *testing.T) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if token := r.Header.Get("Upgrade"); token != "" {
			greet(w, token)
			return
		}
		_, _ = io.WriteString(w, r.Proto+" "+r.URL.String())
		_ = http.NewResponseController(w).Flush()
		if r.URL.Path == "/held" {
			<-r.Context().Done()
		}
	}))
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	return server
}

func greet(w http.ResponseWriter, token string) {
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	fmt.Fprintf(buffered, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\nhello\n", token)
	_ = buffered.Flush()
	_, _ = io.Copy(io.Discard, conn)
}

// upgrade requests an upgrade and returns the status and the first line that follows.
func upgrade(t *testing.T, addr, token string) (int, string) {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: hub\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", token)
	reader := bufio.NewReader(conn)
	response, err := http.ReadResponse(reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusSwitchingProtocols {
		return response.StatusCode, ""
	}
	line, err := reader.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, strings.TrimSpace(line)
}

func TestHTTP1Only(t *testing.T) {
	t.Parallel()
	proxy := chaos.Start(t, chaos.Params{Target: target(t).Listener.Addr().String()})
	proxy.HTTP1Only()
	if code, line := upgrade(t, proxy.Addr(), "websocket"); code != http.StatusSwitchingProtocols || line != "hello" {
		t.Errorf("websocket: got %d %q, want 101 hello", code, line)
	}
	if code, _ := upgrade(t, proxy.Addr(), "leat-tunnel/1"); code != http.StatusOK {
		t.Errorf("another token: got %d, want 200: the target never saw it", code)
	}
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", proxy.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, preface)
	answer, _ := io.ReadAll(conn) // a reset after the answer does not matter
	if !strings.HasPrefix(string(answer), "HTTP/1.1 ") {
		t.Errorf("preface of HTTP/2: got %q, want an answer in HTTP/1.1", answer)
	}
}

func TestNoHop(t *testing.T) {
	t.Parallel()
	proxy := chaos.Start(t, chaos.Params{Target: target(t).Listener.Addr().String()})
	proxy.HTTP1Only()
	proxy.NoHop()
	if code, line := upgrade(t, proxy.Addr(), "leat-tunnel/1"); code != http.StatusSwitchingProtocols || line != "hello" {
		t.Errorf("any token: got %d %q, want 101 hello", code, line)
	}
}

func TestHTTP1OnlyOverTLS(t *testing.T) {
	t.Parallel()
	certificates := httptest.NewTLSServer(http.NotFoundHandler())
	defer certificates.Close()
	proxy := chaos.Start(t, chaos.Params{Target: target(t).Listener.Addr().String(), TLS: certificates.TLS})
	proxy.HTTP1Only()
	conn, err := tls.Dial("tcp", proxy.Addr(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if got := conn.ConnectionState().NegotiatedProtocol; got == "h2" {
		t.Errorf("negotiated %q, want no h2", got)
	}
}

func TestH2Only(t *testing.T) {
	t.Parallel()
	proxy := chaos.Start(t, chaos.Params{Target: target(t).Listener.Addr().String()})
	proxy.H2Only()
	for _, token := range []string{"websocket", "leat-tunnel/1"} {
		if code, _ := upgrade(t, proxy.Addr(), token); code != http.StatusOK {
			t.Errorf("%s: got %d, want 200: the target never saw it", token, code)
		}
	}
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+proxy.Addr()+"/held?a=1;b&a=2", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	want := "HTTP/2.0 /held?a=1;b&a=2"
	got := make([]byte, len(want))
	if _, err := io.ReadFull(response.Body, got); err != nil || string(got) != want {
		t.Errorf("got %q %v, want %q while the answer continues", got, err, want)
	}
}
