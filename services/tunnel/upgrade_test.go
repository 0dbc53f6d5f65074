// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"bufio"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/testkit/await"
)

// execPath is where commands are run.
const execPath = "/api/v1/namespaces/a/pods/b/exec?command=cat&stdin=true"

// caller is a person's connection to the hub that was upgraded, or not.
type caller struct {
	net.Conn

	reader *bufio.Reader
	res    *http.Response
}

// upgrade asks for a protocol. The early bytes are sent in one packet with the request.
func (h *hub) upgrade(protocol, user, cluster, path, early string) *caller {
	h.tb.Helper()
	conn, err := h.connect(h.tb.Context())
	if err != nil {
		h.tb.Fatal(err)
	}
	h.tb.Cleanup(func() { _ = conn.Close() })
	_, err = fmt.Fprintf(conn, "POST /clusters/%s%s HTTP/1.1\r\nHost: hub\r\nAuthorization: Bearer %s\r\nConnection: Upgrade\r\n"+
		"Upgrade: %s\r\nContent-Length: 0\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\nImpersonate-User: root\r\n\r\n%s",
		cluster, path, h.user(user), protocol, early)
	if err != nil {
		h.tb.Fatal(err)
	}
	c := &caller{Conn: conn, reader: bufio.NewReader(conn)}
	if c.res, err = http.ReadResponse(c.reader, nil); err != nil {
		h.tb.Fatalf("read answer to upgrade: %v", err)
	}
	return c
}

// upgraded is like upgrade, and fails the test without a 101.
func (h *hub) upgraded(protocol, user, cluster string) *caller {
	h.tb.Helper()
	c := h.upgrade(protocol, user, cluster, execPath, "")
	if c.res.StatusCode != http.StatusSwitchingProtocols {
		h.tb.Fatalf("upgrade: got %s, want 101", c.res.Status)
	}
	return c
}

func (c *caller) Read(p []byte) (int, error) { return c.reader.Read(p) }

// stream is an agent's side of an upgraded connection.
type stream struct {
	io.Reader

	w       http.ResponseWriter
	request *http.Request
}

// Write implements io.Writer.
func (s *stream) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	return n, errors.Join(err, http.NewResponseController(s.w).Flush())
}

// switching is an agent that agrees to every upgrade.
func switching(serve func(*stream)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Leat-Upgrade-Status", "101")
		w.Header().Set("Leat-Upgrade", r.Header.Get("Leat-Upgrade"))
		w.Header().Set("X-Stream-Protocol-Version", r.Header.Get("X-Stream-Protocol-Version"))
		w.Header().Set("Set-Cookie", "a=b")
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		serve(&stream{Reader: r.Body, w: w, request: r})
	}
}

// TestTokenOfAWebSocketStaysAtTheHub upgrades as a browser's script does, who can put its token
// nowhere but among the protocols.
func TestTokenOfAWebSocketStaysAtTheHub(t *testing.T) {
	h := startHub(t, nil)
	h.access.grant("ada", "demo")
	headers := make(chan http.Header, 1)
	h.agent("demo", func(w http.ResponseWriter, r *http.Request) {
		headers <- r.Header.Clone()
		w.Header().Set("Sec-WebSocket-Protocol", "v5.channel.k8s.io")
		switching(func(s *stream) { _, _ = io.Copy(s, s) })(w, r)
	})
	token := h.user("ada")
	protocol := "base64url.bearer.authorization.k8s.io." + base64.RawURLEncoding.EncodeToString([]byte(token))
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", h.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_, err = fmt.Fprintf(conn, "GET /clusters/demo%s HTTP/1.1\r\nHost: hub\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"+
		"Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\nSec-WebSocket-Protocol: v5.channel.k8s.io\r\nSec-WebSocket-Protocol: %s, v4.channel.k8s.io\r\n\r\nearly",
		execPath, protocol)
	if err != nil {
		t.Fatal(err)
	}
	reader := bufio.NewReader(conn)
	res, err := http.ReadResponse(reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != http.StatusSwitchingProtocols || res.Header.Get("Sec-WebSocket-Protocol") != "v5.channel.k8s.io" {
		t.Fatalf("got %s %v, want 101 with the protocol that the cluster chose", res.Status, res.Header)
	}
	sent := <-headers
	if got := sent.Values("Sec-WebSocket-Protocol"); !slices.Equal(got, []string{"v5.channel.k8s.io, v4.channel.k8s.io"}) {
		t.Errorf("protocols: got %q, want the others in their order", got)
	}
	if all := fmt.Sprint(sent); strings.Contains(all, token) || strings.Contains(all, "bearer.authorization") || sent.Get("Impersonate-User") != "ada" {
		t.Errorf("got %s, want ada without her token", all)
	}
	_ = conn.(*net.TCPConn).CloseWrite()
	if got, err := io.ReadAll(reader); err != nil || string(got) != "early" {
		t.Errorf("got %q, %v, want the bytes back", got, err)
	}
	if log := h.audit.String(); strings.Contains(log, token) || strings.Contains(log, protocol) || !strings.Contains(log, `"user:ada"`) {
		t.Errorf("audit: got %s, want ada without her token", log)
	}
}

// outcome waits for the outcome of a request whose audit record has this status, and takes it.
func (h *hub) outcome() map[string]any {
	h.tb.Helper()
	var found map[string]any
	await.True(h.tb, "an outcome in the audit log", func() bool {
		for _, record := range h.audit.records(h.tb) {
			if record["phase"] == "outcome" {
				found = record
			}
		}
		return found != nil
	})
	return found
}

func TestUpgradeBecomesOneStream(t *testing.T) {
	h := startHub(t, nil)
	h.access.grant("ada", "demo")
	header := make(chan http.Header, 1)
	h.agent("demo", switching(func(s *stream) {
		header <- s.request.Header.Clone()
		all, err := io.ReadAll(s) // ends because the caller ends its direction
		_, _ = fmt.Fprintf(s, "%s %s %q %v", s.request.Method, s.request.RequestURI, all, err)
	}))
	c := h.upgrade("SPDY/3.1", "ada", "demo", execPath, "early ")
	if c.res.StatusCode != http.StatusSwitchingProtocols || c.res.Header.Get("Upgrade") != "SPDY/3.1" || c.res.Header.Get("Connection") != "Upgrade" ||
		c.res.Header.Get("X-Stream-Protocol-Version") != "v4.channel.k8s.io" {
		t.Errorf("answer: got %s %v, want 101 with the cluster's headers", c.res.Status, c.res.Header)
	}
	for name := range c.res.Header {
		if strings.HasPrefix(name, "Leat-") || name == "Set-Cookie" {
			t.Errorf("answer has %s, want it removed", name)
		}
	}
	_, _ = io.WriteString(c, "and late")
	_ = c.Conn.(*net.TCPConn).CloseWrite()
	got, err := io.ReadAll(c)
	if want := "POST " + execPath + ` "early and late" <nil>`; err != nil || string(got) != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	sent := <-header
	if sent.Get("Impersonate-User") != "ada" || sent.Get("Authorization") != "" || sent.Get("Leat-Upgrade") != "SPDY/3.1" {
		t.Errorf("request: got %v, want it as ada, without a token, and with Leat-Upgrade", sent)
	}
	record := h.outcome()
	if record["outcome"] != "completed" || record["status"] != 101.0 || record["bytes_in"] != 14.0 || record["bytes_out"] != float64(len(got)) {
		t.Errorf("audit: got %v, want a completed 101 with 14 bytes in and %d out", record, len(got))
	}
}

func TestF31RefusedUpgradeIsPassedOnVerbatim(t *testing.T) {
	h := startHub(t, nil)
	h.access.grant("ada", "demo")
	h.agent("demo", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Api", "old")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"kind":"Status","message":"unable to upgrade: missing upgrade headers"}`)
	})
	c := h.upgrade("websocket", "ada", "demo", execPath, "")
	body, err := io.ReadAll(c.res.Body)
	if c.res.StatusCode != http.StatusBadRequest || c.res.Header.Get("X-Api") != "old" || err != nil ||
		string(body) != `{"kind":"Status","message":"unable to upgrade: missing upgrade headers"}` {
		t.Errorf("got %s %v %s, %v, want the API server's answer", c.res.Status, c.res.Header, body, err)
	}
	// The connection serves the next attempt.
	_, _ = fmt.Fprintf(c, "GET /clusters/demo/version HTTP/1.1\r\nHost: hub\r\nAuthorization: Bearer %s\r\n\r\n", h.user("ada"))
	if res, err := http.ReadResponse(c.reader, nil); err != nil || res.StatusCode != http.StatusBadRequest {
		t.Errorf("second request: got %v, %v, want its own answer", res, err)
	}
	if record := h.outcome(); record["outcome"] != "completed" || record["status"] != 400.0 {
		t.Errorf("audit: got %v, want a completed 400", record)
	}
}

func TestUpgradesThatCannotBe(t *testing.T) {
	h := startHub(t, nil)
	h.access.grant("ada", "demo")
	h.agent("demo", switching(func(*stream) {}))
	t.Run("over HTTP/2", func(t *testing.T) {
		res, body := h.do(client(t, true), h.request(t.Context(), http.MethodPost, "ada", "demo", execPath, nil))
		if res.StatusCode != http.StatusBadRequest {
			t.Errorf("got %d, want 400", res.StatusCode)
		}
		checkStatus(t, "exec", body, http.StatusBadRequest, "hub", "use HTTP/1.1")
	})
	t.Run("with a body", func(t *testing.T) {
		req := h.request(t.Context(), http.MethodPost, "ada", "demo", execPath, strings.NewReader("body"))
		req.Header.Set("Connection", "Upgrade")
		req.Header.Set("Upgrade", "SPDY/3.1")
		res, body := h.do(client(t, false), req)
		if res.StatusCode != http.StatusBadRequest {
			t.Errorf("got %d, want 400", res.StatusCode)
		}
		checkStatus(t, "exec", body, http.StatusBadRequest, "hub", "after the 101")
	})
	t.Run("offer of HTTP/2", func(t *testing.T) {
		req := h.request(t.Context(), http.MethodGet, "ada", "demo", "/version", nil)
		req.Header.Set("Connection", "Upgrade, HTTP2-Settings")
		req.Header.Set("Upgrade", "h2c")
		if res, _ := h.do(client(t, false), req); res.StatusCode != http.StatusOK {
			t.Errorf("got %d, want the answer over HTTP/1.1", res.StatusCode)
		}
	})
}
