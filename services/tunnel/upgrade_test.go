// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/serve"
	"github.com/leatdev/leat/services/tunnel"
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
	conn, err := new(net.Dialer).DialContext(h.tb.Context(), "tcp", h.addr)
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

// TestTokenOfAWebSocketStaysAtTheHub upgrades as a browser's script does, who can put its token nowhere but among the protocols.
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
	h.await("an outcome in the audit log", func() bool {
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

// TestF42TailsArrive sends bodies of random size both ways and compares them.
func TestF42TailsArrive(t *testing.T) {
	h := startHub(t, nil)
	h.access.grant("ada", "demo")
	h.agent("demo", switching(func(s *stream) {
		hash := sha256.New()
		size, err := io.Copy(hash, s)
		if err != nil {
			return
		}
		tail := make([]byte, size)
		_, _ = rand.Read(tail)
		_, _ = s.Write(hash.Sum(nil))
		sum := sha256.Sum256(tail)
		_, _ = s.Write(sum[:])
		_, _ = s.Write(tail)
	}))
	rounds := 300
	if os.Getenv("LEAT_FAULT_LONG") == "1" {
		rounds = 10_000
	}
	for round := range rounds {
		body := make([]byte, mathrand.IntN(200_000))
		_, _ = rand.Read(body)
		c := h.upgraded("SPDY/3.1", "ada", "demo")
		go func() {
			_, _ = c.Write(body)
			_ = c.Conn.(*net.TCPConn).CloseWrite()
		}()
		got, err := io.ReadAll(c)
		want := sha256.Sum256(body)
		if err != nil || len(got) != 64+len(body) || !bytes.Equal(got[:32], want[:]) || !equalSum(got[32:64], got[64:]) {
			t.Fatalf("round %d: got %d bytes, %v, want both bodies of %d whole", round, len(got), err, len(body))
		}
		_ = c.Close()
	}
}

func equalSum(want, body []byte) bool {
	sum := sha256.Sum256(body)
	return bytes.Equal(sum[:], want)
}

// TestF11CopyKilledMidway kills the client of a large download again and again; the next request works.
func TestF11CopyKilledMidway(t *testing.T) {
	h := startHub(t, nil)
	h.access.grant("ada", "demo")
	ended := make(chan struct{}, 100)
	h.agent("demo", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Leat-Upgrade") == "" {
			_, _ = io.WriteString(w, "ok")
			return
		}
		switching(func(s *stream) {
			defer func() { ended <- struct{}{} }()
			chunk := make([]byte, 64<<10)
			for range 1 << 14 { // a gibibyte
				if _, err := s.Write(chunk); err != nil {
					return
				}
			}
		})(w, r)
	})
	for range 20 {
		c := h.upgraded("SPDY/3.1", "ada", "demo")
		if _, err := io.CopyN(io.Discard, c, 4<<20); err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
		<-ended // hangs if nobody tells the agent
		if status, body := h.get(client(t, false), "ada", "demo", "/version"); status != http.StatusOK || body != "ok" {
			t.Fatalf("next request: got %d %s, want 200", status, body)
		}
	}
}

// TestF13PortForwardsLeaveNothing opens and drops many of them.
func TestF13PortForwardsLeaveNothing(t *testing.T) {
	h := startHub(t, nil)
	h.access.grant("ada", "demo")
	var open atomic.Int64
	h.agent("demo", switching(func(s *stream) {
		open.Add(1)
		defer open.Add(-1)
		_, _ = io.Copy(s, s)
	}))
	once := func(mode int) {
		c := h.upgraded("SPDY/3.1", "ada", "demo")
		defer c.Close()
		switch mode {
		case 0: // in the middle of a conversation
			_, _ = io.WriteString(c, "ping")
			_, _ = io.ReadFull(c, make([]byte, 4))
		case 1: // without a word
			_ = c.Conn.(*net.TCPConn).SetLinger(0)
		case 2: // orderly
			_ = c.Conn.(*net.TCPConn).CloseWrite()
			_, _ = io.Copy(io.Discard, c)
		case 3: // with an echo that nobody reads
			_, _ = c.Write(make([]byte, 100_000))
		}
	}
	idle := func() bool { return open.Load() == 0 }
	for mode := range 4 {
		once(mode)
	}
	h.await("the first ones to end", idle)
	goroutines, files := runtime.NumGoroutine(), openFiles(t)
	for i := range 1000 {
		once(i % 4)
	}
	h.await("all streams to end", idle)
	h.await("goroutines and files to be as before", func() bool {
		return runtime.NumGoroutine() <= goroutines+10 && openFiles(t) <= files+10
	})
}

func openFiles(tb testing.TB) int {
	tb.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		tb.Skipf("count open files: %v", err)
	}
	return len(entries)
}

// readClose reads a WebSocket frame that closes the connection.
func readClose(t *testing.T, r io.Reader) (code uint16, reason string) {
	t.Helper()
	all, err := io.ReadAll(r)
	if err != nil || len(all) < 4 || all[0] != 0x88 || int(all[1]) != len(all)-2 {
		t.Fatalf("got %s, %v, want a close frame and then the end", hex.EncodeToString(all), err)
	}
	return binary.BigEndian.Uint16(all[2:]), string(all[4:])
}

// talking greets in one WebSocket frame and then listens.
func talking(s *stream) {
	_, _ = s.Write([]byte{0x82, 2, 'h', 'i'})
	_, _ = io.Copy(io.Discard, s)
}

// greet reads what talking says.
func greet(t *testing.T, c *caller) {
	t.Helper()
	frame := make([]byte, 4)
	if _, err := io.ReadFull(c, frame); err != nil || string(frame[2:]) != "hi" {
		t.Fatalf("got %q, %v, want a greeting", frame, err)
	}
}

func TestUpgradedConnectionOutlivesTheBeginningOfADrain(t *testing.T) {
	h := startHub(t, func(c *tunnel.Config) {
		c.Serve = serve.Config{Listener: c.Serve.Listener, DrainTimeout: 2 * time.Second}
	})
	h.access.grant("ada", "demo")
	h.agent("demo", switching(func(s *stream) {
		_, _ = s.Write([]byte{0x82, 2, 'h', 'i'})
		_, _ = io.Copy(s, s)
	}))
	c := h.upgraded("websocket", "ada", "demo")
	greet(t, c)
	h.stop()
	for { // until the drain has begun
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", h.addr)
		if err != nil {
			break
		}
		_ = conn.Close()
	}
	frame := []byte{0x82, 3, 'n', 'o', 'w'}
	_, _ = c.Write(frame)
	got := make([]byte, len(frame))
	if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, frame) {
		t.Errorf("in the drain: got %q, %v, want the echo", got, err)
	}
	if code, reason := readClose(t, c); code != 1001 || !strings.Contains(reason, "shuts down") {
		t.Errorf("got close %d %q, want 1001 because of the shutdown", code, reason)
	}
	if record := h.outcome(); record["outcome"] != "drained" {
		t.Errorf("audit: got %v, want drained", record)
	}
}

func TestUpgradedConnectionEndsWithItsPermission(t *testing.T) {
	h := startHub(t, func(c *tunnel.Config) {
		c.AccessMaxAge, c.RecheckInterval = time.Nanosecond, 50*time.Millisecond
	})
	h.access.grant("ada", "demo")
	h.agent("demo", switching(talking))
	c := h.upgraded("websocket", "ada", "demo")
	greet(t, c)
	h.access.revoke("ada", "demo")
	if code, reason := readClose(t, c); code != 1008 || !strings.Contains(reason, "withdrawn") {
		t.Errorf("got close %d %q, want 1008 because of the permission", code, reason)
	}
	if record := h.outcome(); record["outcome"] != "revoked" {
		t.Errorf("audit: got %v, want revoked", record)
	}
}

func TestUpgradedConnectionEndsWithItsAgent(t *testing.T) {
	h := startHub(t, nil)
	h.access.grant("ada", "demo")
	agent := h.agent("demo", switching(talking))
	c := h.upgraded("websocket", "ada", "demo")
	greet(t, c)
	agent.Close()
	if code, reason := readClose(t, c); code != 1014 || !strings.Contains(reason, "lost") {
		t.Errorf("got close %d %q, want 1014 because of the agent", code, reason)
	}
	if record := h.outcome(); record["outcome"] != "interrupted" {
		t.Errorf("audit: got %v, want interrupted", record)
	}
}

// TestF32ConnectionCloseBreaksNoExec has a caller whose Connection header asks for two things, and who stays for the answer.
func TestF32ConnectionCloseBreaksNoExec(t *testing.T) {
	h := startHub(t, nil)
	h.access.grant("ada", "demo")
	h.agent("demo", switching(func(s *stream) {
		_, _ = io.Copy(s, s)
		_, _ = io.WriteString(s, " "+s.request.Header.Get("Connection"))
	}))
	for _, connection := range []string{"Upgrade, close", "close, Upgrade", "Upgrade\r\nConnection: close", "close\r\nConnection: Upgrade"} {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", h.addr)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = fmt.Fprintf(conn, "GET /clusters/demo%s HTTP/1.1\r\nHost: hub\r\nAuthorization: Bearer %s\r\nConnection: %s\r\nUpgrade: SPDY/3.1\r\n\r\n",
			execPath, h.user("ada"), connection)
		reader := bufio.NewReader(conn)
		res, err := http.ReadResponse(reader, nil)
		if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
			t.Errorf("Connection: %q: got %v, %v, want 101", connection, res, err)
			_ = conn.Close()
			continue
		}
		for range 3 {
			_, _ = io.WriteString(conn, "still here")
			got := make([]byte, len("still here"))
			if _, err := io.ReadFull(reader, got); err != nil || string(got) != "still here" {
				t.Errorf("Connection: %q: got %q, %v, want the echo", connection, got, err)
			}
		}
		_ = conn.(*net.TCPConn).CloseWrite()
		if rest, err := io.ReadAll(reader); err != nil || string(rest) != " " {
			t.Errorf("Connection: %q: got %q, %v, want the end, and no Connection header at the agent", connection, rest, err)
		}
		_ = conn.Close()
	}
}
