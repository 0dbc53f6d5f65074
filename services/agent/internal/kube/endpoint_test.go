// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/leatdev/leat/services/agent/internal/kube"
)

// TestWindowsOfAnswersAreBounded reads the windows for the API server from the transports' own
// first frames.
func TestWindowsOfAnswersAreBounded(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(nil) // for its certificate
	server.StartTLS()
	certificate := server.TLS.Certificates[0]
	server.Close()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{certificate}, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	config := filepath.Join(t.TempDir(), "kubeconfig")
	content := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"c"}}],
		"users":[{"name":"c","user":{"token":"t"}}],"clusters":[{"name":"c","cluster":{"server":"https://%s","insecure-skip-tls-verify":true}}]}`, listener.Addr())
	if err := os.WriteFile(config, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	client, err := kube.New(kube.Params{Kubeconfig: config, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	endpoint, err := client.Endpoint()
	if err != nil {
		t.Fatal(err)
	}
	for name, transport := range map[string]http.RoundTripper{"short": endpoint.Transport, "watch": endpoint.Watches} {
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, endpoint.Base.String()+"/version", nil)
			req.RequestURI = ""
			if res, err := transport.RoundTrip(req); err == nil {
				_ = res.Body.Close()
				t.Errorf("%s: got %s, want an error from a server that hangs up", name, res.Status)
			}
		}()
		conn, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if stream, connection := windows(t, conn); stream != 512<<10 || connection <= 512<<20 {
			t.Errorf("%s: got windows of %d a stream and %d a connection, want 512 KiB, and more than may be unread", name, stream, connection)
		}
		_ = conn.Close()
		<-ended
	}
}

// windows reads the beginning of a connection: the preface, SETTINGS and the connection's
// WINDOW_UPDATE.
func windows(t *testing.T, r io.Reader) (stream, connection uint32) {
	t.Helper()
	const preface, settings, windowUpdate, initialWindow = 24, 4, 8, 4
	if _, err := io.ReadFull(r, make([]byte, preface)); err != nil {
		t.Fatalf("read preface: %v", err)
	}
	for connection == 0 {
		head := make([]byte, 9)
		if _, err := io.ReadFull(r, head); err != nil {
			t.Fatalf("read frame: %v", err)
		}
		payload := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
		if _, err := io.ReadFull(r, payload); err != nil {
			t.Fatalf("read frame: %v", err)
		}
		switch head[3] {
		case settings:
			for ; len(payload) >= 6; payload = payload[6:] {
				if binary.BigEndian.Uint16(payload) == initialWindow {
					stream = binary.BigEndian.Uint32(payload[2:])
				}
			}
		case windowUpdate:
			connection = binary.BigEndian.Uint32(payload)
		}
	}
	return stream, connection
}
