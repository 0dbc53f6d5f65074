// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package up_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/leatdev/leat/cli/internal/up"
	"github.com/leatdev/leat/internal/contract/hubroutes"
	"github.com/leatdev/leat/internal/testkit/selfsigned"
)

// startFront serves the front before doubles of the services, and returns its address. Each double
// names itself in the header Reached, and leaves the rest of the answer to the handler.
func startFront(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	certificate, urls := selfsigned.New(t, "127.0.0.1"), map[hubroutes.Service]string{}
	for _, service := range []hubroutes.Service{hubroutes.Distributor, hubroutes.GitCache, hubroutes.Tunnel} {
		server := newDouble(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Reached", string(service))
			handler(w, r)
		}))
		if service == hubroutes.Tunnel {
			server.EnableHTTP2 = true
			server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate.Pair}, MinVersion: tls.VersionTLS12}
			server.StartTLS()
		} else {
			server.Start()
		}
		t.Cleanup(server.Close)
		urls[service] = server.URL
	}
	front, err := up.NewFront(urls, certificate.Roots())
	if err != nil {
		t.Fatal(err)
	}
	server := newDouble(front)
	server.Start()
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// newDouble returns a server that speaks HTTP/1.1 and HTTP/2, also without TLS.
func newDouble(handler http.Handler) *httptest.Server {
	server := httptest.NewUnstartedServer(handler)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetHTTP2(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	return server
}

// clientOf returns a client that speaks one version of HTTP, without TLS.
func clientOf(t *testing.T, version int) *http.Client {
	t.Helper()
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetHTTP1(version == 1)
	transport.Protocols.SetUnencryptedHTTP2(version == 2)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// TestFrontLeadsByTheRoutes asks for a path of each route, and for one of none.
func TestFrontLeadsByTheRoutes(t *testing.T) {
	t.Parallel()
	front := startFront(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "%s %s HTTP/%d for %s by %s", r.Host, r.RequestURI, r.ProtoMajor, r.Header.Get("X-Forwarded-For"), r.Header.Get("X-Forwarded-Host"))
	})
	want := map[string]string{"/leat.gitcache.v1.GitCacheService/Get": "", "/metrics": "", "/ui/../metrics": "", "/clusters/berlin/a%2Fb?watch=1&x=%2e": "tunnel"}
	for _, route := range hubroutes.All() {
		want[route.Path] = string(route.Service)
	}
	for _, version := range []int{1, 2} {
		client := clientOf(t, version)
		for path, service := range want {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+front+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			request.Host = "leat.localhost:8700"
			request.Header.Set("X-Forwarded-For", "192.0.2.1") // which only the front may set
			response, err := client.Do(request)
			if err != nil {
				t.Fatal(path, err)
			}
			text, err := io.ReadAll(response.Body)
			_ = response.Body.Close()
			if err != nil || response.Header.Get("Reached") != service {
				t.Errorf("%s leads to %q, %v, want %q", path, response.Header.Get("Reached"), err, service)
			}
			wantText := fmt.Sprintf("leat.localhost:8700 %s HTTP/%d for 127.0.0.1 by leat.localhost:8700", path, version)
			if service != "" && string(text) != wantText {
				t.Errorf("got %q, want %q", text, wantText)
			}
		}
	}
}

// TestFrontPassesStreams sends messages in both directions of one call, and reads the trailers after
// the last one. The answer to each arrives before the next is sent.
func TestFrontPassesStreams(t *testing.T) {
	t.Parallel()
	front := startFront(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Trailer", "Grpc-Status")
		for lines := bufio.NewScanner(r.Body); lines.Scan(); {
			_, _ = fmt.Fprintf(w, "%s by HTTP/%d\n", lines.Text(), r.ProtoMajor)
			_ = http.NewResponseController(w).Flush()
		}
		w.Header().Set("Grpc-Status", "7")
	})
	client := clientOf(t, 2)
	for _, path := range []string{"/leat.distributor.v1.DistributorService/WatchPlan", "/leat.tunnel.v1.TunnelService/Connect"} {
		body, sent := io.Pipe()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+front+path, body)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Te", "trailers")
		go func() { _, _ = io.WriteString(sent, "first\n") }()
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(path, err)
		}
		defer response.Body.Close()
		lines := bufio.NewReader(response.Body)
		for _, message := range []string{"first", "second"} {
			if message == "second" {
				_, _ = io.WriteString(sent, "second\n")
			}
			if got, err := lines.ReadString('\n'); got != message+" by HTTP/2\n" {
				t.Fatalf("%s: got %q, %v, want the message %s by HTTP/2", path, got, err, message)
			}
		}
		_ = sent.Close()
		if _, err := io.Copy(io.Discard, lines); err != nil || response.Trailer.Get("Grpc-Status") != "7" {
			t.Errorf("%s: got %v, and the trailers %v", path, err, response.Trailer)
		}
	}
}

// TestFrontPassesUpgrades opens connections as kubectl exec, browsers and agents do, and talks over
// them.
func TestFrontPassesUpgrades(t *testing.T) {
	t.Parallel()
	front := startFront(t, func(w http.ResponseWriter, r *http.Request) {
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			w.WriteHeader(http.StatusUpgradeRequired)
			return
		}
		defer conn.Close()
		_, _ = fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", r.Header.Get("Upgrade"))
		line, _ := buffered.ReadString('\n')
		_, _ = io.WriteString(conn, "got "+line)
	})
	for path, protocol := range map[string]string{
		"/clusters/berlin/api/v1/namespaces/a/pods/b/exec": "SPDY/3.1", "/clusters/berlin/api/v1/namespaces/a/pods/b/attach": "websocket",
		"/tunnel/v1/connect": "leat-tunnel/1",
	} {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", front)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, _ = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: hub\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", path, protocol)
		reader := bufio.NewReader(conn)
		response, err := http.ReadResponse(reader, nil)
		if err != nil || response.StatusCode != http.StatusSwitchingProtocols || response.Header.Get("Upgrade") != protocol {
			t.Fatalf("%s: got %+v, %v, want %s", path, response, err, protocol)
		}
		_ = response.Body.Close()
		_, _ = io.WriteString(conn, "hello\n")
		if got, err := reader.ReadString('\n'); got != "got hello\n" {
			t.Errorf("%s: got %q, %v", path, got, err)
		}
	}
}

// TestFrontOfAServiceThatIsAway asks for a service that does not listen, and for one that cuts its
// answer.
func TestFrontOfAServiceThatIsAway(t *testing.T) {
	t.Parallel()
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	cutting := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "10")
		_, _ = io.WriteString(w, "half")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(cutting.Close)
	handler, err := up.NewFront(map[hubroutes.Service]string{hubroutes.Distributor: closed.URL, hubroutes.GitCache: cutting.URL}, nil)
	if err != nil {
		t.Fatal(err)
	}
	front := newDouble(handler)
	front.Start()
	t.Cleanup(front.Close)
	ask := func(path string) (*http.Response, string, error) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, front.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := clientOf(t, 1).Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		return response, string(text), err
	}
	if response, text, err := ask("/ui/"); response.StatusCode != http.StatusServiceUnavailable || err != nil || !strings.Contains(text, "does not answer") {
		t.Errorf("got %s, %q, %v, want 503", response.Status, text, err)
	}
	if _, text, err := ask("/webhooks/github/shop"); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %q, %v, want half an answer to be no whole one", text, err)
	}
}
