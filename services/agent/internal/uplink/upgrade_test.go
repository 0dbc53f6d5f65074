// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uplink_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leatdev/leat/services/agent/internal/uplink"
)

// hubSide serves the handler over HTTP/2, as for the hub, and returns a client for it.
func hubSide(t *testing.T, h http.Handler) (*http.Client, string) {
	t.Helper()
	server := httptest.NewUnstartedServer(h)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols, DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}, server.URL
}

// apiServer is an API server with TLS that prefers HTTP/2. It passes each upgraded connection on,
// with the raw bytes of its request's head.
func apiServer(t *testing.T, agreed bool, serve func(net.Conn, *bufio.ReadWriter)) (*url.URL, *tls.Config, *atomic.Pointer[http.Request]) {
	t.Helper()
	var seen atomic.Pointer[http.Request]
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen.Store(r)
		if !agreed {
			w.Header().Set("X-Api", "old")
			http.Error(w, "no websocket here", http.StatusForbidden)
			return
		}
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		defer conn.Close()
		_, _ = fmt.Fprintf(buffered, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\nX-Stream-Protocol-Version: v4\r\n\r\n",
			r.Header.Get("Upgrade"))
		_ = buffered.Flush()
		serve(conn, buffered)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	base, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	config := server.Client().Transport.(*http.Transport).TLSClientConfig
	return base, config, &seen
}

// session requests an upgrade from the agent, with a body that continues.
func session(t *testing.T, client *http.Client, base string) (*http.Response, *io.PipeWriter) {
	t.Helper()
	body, send := io.Pipe()
	t.Cleanup(func() { _ = send.Close() })
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/kubernetes/api/v1/namespaces/a/pods/b/exec?command=a%2fb&x=1;", body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Leat-Upgrade", "SPDY/3.1")
	req.Header.Set("Impersonate-User", "alice")
	req.Header.Set("Authorization", "Bearer stolen")
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	return res, send
}

// upgradeHandler is the agent's handler for that API server.
func upgradeHandler(t *testing.T, base *url.URL, config *tls.Config) http.Handler {
	t.Helper()
	return newHandler(t, uplink.HandlerParams{
		APIServer: base, Transport: broken{}, Upgrades: uplink.NewUpgrader(uplink.UpgraderParams{TLS: config}),
	})
}

// TestF29UpgradeOfAServerThatPrefersHTTP2 also checks that the API server receives the unchanged
// request over HTTP/1.1.
func TestF29UpgradeOfAServerThatPrefersHTTP2(t *testing.T) {
	t.Parallel()
	base, config, seen := apiServer(t, true, func(conn net.Conn, buffered *bufio.ReadWriter) {
		hash := sha256.New()
		size, err := io.Copy(hash, buffered) // ends with the caller's direction
		_, _ = fmt.Fprintf(conn, "%d %x %v", size, hash.Sum(nil), err)
	})
	client, hub := hubSide(t, upgradeHandler(t, base, config))
	res, send := session(t, client, hub)
	if res.StatusCode != http.StatusOK || res.Header.Get("Leat-Upgrade-Status") != "101" || res.Header.Get("Leat-Upgrade") != "SPDY/3.1" ||
		res.Header.Get("X-Stream-Protocol-Version") != "v4" {
		t.Fatalf("got %s %v, want 200 that stands for 101", res.Status, res.Header)
	}
	sent := make([]byte, 1<<20)
	_, _ = rand.Read(sent)
	_, _ = send.Write(sent)
	_ = send.Close()
	got, err := io.ReadAll(res.Body)
	if want := fmt.Sprintf("%d %x <nil>", len(sent), sha256.Sum256(sent)); err != nil || string(got) != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
	r := seen.Load()
	if r.ProtoMajor != 1 || r.RequestURI != "/api/v1/namespaces/a/pods/b/exec?command=a%2fb&x=1;" || r.Header.Get("Impersonate-User") != "alice" ||
		r.Header.Get("Authorization") != "" || r.Header.Get("Leat-Upgrade") != "" || r.Header.Get("Connection") != "Upgrade" {
		t.Errorf("API server saw %s %s %v", r.Proto, r.RequestURI, r.Header)
	}
}

// TestF30UpgradeHasNoBodyFraming reads the raw bytes of the request.
func TestF30UpgradeHasNoBodyFraming(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	head := make(chan string, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		reader, lines := bufio.NewReader(conn), strings.Builder{}
		for {
			line, err := reader.ReadString('\n')
			lines.WriteString(line)
			if err != nil || line == "\r\n" {
				break
			}
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n")
		first := make([]byte, 5)
		_, _ = io.ReadFull(reader, first)
		head <- lines.String() + string(first)
	}()
	base := &url.URL{Scheme: "http", Host: listener.Addr().String()}
	client, hub := hubSide(t, upgradeHandler(t, base, nil))
	_, send := session(t, client, hub)
	_, _ = io.WriteString(send, "bytes")
	got := <-head
	for _, framing := range []string{"Content-Length", "Transfer-Encoding", "close"} {
		if strings.Contains(got, framing) {
			t.Errorf("request has %s, want none:\n%s", framing, got)
		}
	}
	if !strings.HasPrefix(got, "POST /api/v1/namespaces/a/pods/b/exec?command=a%2fb&x=1; HTTP/1.1\r\n") || !strings.HasSuffix(got, "\r\n\r\nbytes") {
		t.Errorf("got %q, want the request line as it came, and the bytes right behind the head", got)
	}
}

func TestF31RefusalOfAnUpgradeComesBackVerbatim(t *testing.T) {
	t.Parallel()
	base, config, _ := apiServer(t, false, nil)
	client, hub := hubSide(t, upgradeHandler(t, base, config))
	res, _ := session(t, client, hub)
	body, err := io.ReadAll(res.Body)
	if res.StatusCode != http.StatusForbidden || res.Header.Get("X-Api") != "old" || string(body) != "no websocket here\n" || err != nil {
		t.Errorf("got %s %v %q, %v, want the API server's 403", res.Status, res.Header, body, err)
	}
	if got := res.Header.Get("Leat-Error-Origin"); got != "" {
		t.Errorf("origin: got %q, want none: it is the API server's", got)
	}
}

// TestF12ServerThatTakesNoConnection has a dial that never ends without the timeout.
func TestF12ServerThatTakesNoConnection(t *testing.T) {
	t.Parallel()
	upgrader := uplink.NewUpgrader(uplink.UpgraderParams{
		DialTimeout: 20 * time.Millisecond,
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
	})
	client, hub := hubSide(t, newHandler(t, uplink.HandlerParams{
		APIServer: &url.URL{Scheme: "https", Host: "blackhole"}, Transport: broken{}, Upgrades: upgrader,
	}))
	res, _ := session(t, client, hub)
	body, _ := io.ReadAll(res.Body)
	if res.StatusCode != http.StatusGatewayTimeout || res.Header.Get("Leat-Error-Origin") != "agent" ||
		res.Header.Get("Leat-Error-Reason") != "CLUSTER_UNREACHABLE" || !strings.Contains(string(body), "cannot connect") {
		t.Errorf("got %s %v %s, want 504 from the agent", res.Status, res.Header, body)
	}
}

// TestUpgradeEndsWithEitherSide closes the hub's side, and then the server's.
func TestUpgradeEndsWithEitherSide(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	base, config, _ := apiServer(t, true, func(conn net.Conn, buffered *bufio.ReadWriter) {
		first := make([]byte, 4)
		_, _ = io.ReadFull(buffered, first)
		if string(first) == "quit" {
			return
		}
		_, err := buffered.Read(first)
		ended <- err
	})
	client, hub := hubSide(t, upgradeHandler(t, base, config))
	res, send := session(t, client, hub)
	_, _ = io.WriteString(send, "stay")
	_ = send.CloseWithError(context.Canceled) // resets the stream
	if err := <-ended; err == nil {
		t.Error("server read a byte, want the end")
	}
	_ = res.Body.Close()

	res, send = session(t, client, hub)
	_, _ = io.WriteString(send, "quit")
	if got, err := io.ReadAll(res.Body); len(got) > 0 || err != nil {
		t.Errorf("got %q, %v, want the end", got, err)
	}
}

// TestF47StalledReaderLetsTheServerGo has a caller that does not read an answer.
func TestF47StalledReaderLetsTheServerGo(t *testing.T) {
	t.Parallel()
	released := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(released)
		chunk := make([]byte, 64<<10)
		for {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}))
	defer server.Close()
	base, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	client, hub := hubSide(t, newHandler(t, uplink.HandlerParams{
		APIServer: base, Transport: http.DefaultTransport, StallTimeout: 200 * time.Millisecond,
	}))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, hub+"/kubernetes/api/v1/pods", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Impersonate-User", "alice")
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	<-released // hangs if the request is not ended
	if _, err := io.Copy(io.Discard, res.Body); err == nil {
		t.Error("answer ended without an error, want it broken off")
	}
}
