// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/leatdev/leat/services/tunnel/internal/agenttest"
)

// TestUpgradeOverAHop speaks by turns through the replica that has no agent, and ends its own
// direction first.
func TestUpgradeOverAHop(t *testing.T) {
	people, _ := pair(t, agenttest.Options{Handler: switching(func(s *stream) {
		_, _ = io.WriteString(s, s.request.Header.Get("Leat-Upgrade")+" "+s.request.Header.Get("Impersonate-User")+"\n")
		_, _ = io.Copy(s, s)
		_, _ = io.WriteString(s, " end")
	})})
	for _, protocol := range []string{"SPDY/3.1", "websocket"} {
		c := people.upgrade(protocol, "ada", "demo", execPath, "early")
		if c.res.StatusCode != http.StatusSwitchingProtocols || c.res.Header.Get("Upgrade") != protocol || c.res.Header.Get("Leat-Hop") != "" ||
			c.res.Header.Get("X-Stream-Protocol-Version") != "v4.channel.k8s.io" {
			t.Fatalf("%s: got %s %v, want 101 with the cluster's headers", protocol, c.res.Status, c.res.Header)
		}
		expect := func(want string) {
			t.Helper()
			got := make([]byte, len(want))
			if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
				t.Fatalf("%s: got %q, %v, want %q", protocol, got, err, want)
			}
		}
		expect(protocol + " ada\nearly")
		for i := range 5 {
			word := fmt.Sprintf("word %d", i)
			_, _ = io.WriteString(c, word)
			expect(word)
		}
		big := bytes.Repeat([]byte("0123456789abcdef"), 256<<10) // more than all windows on the way
		go func() {
			_, _ = c.Write(big)
			_ = c.Conn.(*net.TCPConn).CloseWrite()
		}()
		if got, err := io.ReadAll(c); err != nil || !bytes.Equal(got, append(big, " end"...)) {
			t.Errorf("%s: got %d bytes, %v, want the %d that were sent and the end", protocol, len(got), err, len(big))
		}
		_ = c.Close()
	}
}

// TestRefusedUpgradeOverAHop gets the API server's own answer, and the connection stays.
func TestRefusedUpgradeOverAHop(t *testing.T) {
	people, _ := pair(t, agenttest.Options{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Leat-Upgrade") == "" {
			echo(w, r)
			return
		}
		w.Header().Set("X-Api", "old")
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, "no websocket here")
	})})
	c := people.upgrade("websocket", "ada", "demo", execPath, "")
	body, err := io.ReadAll(c.res.Body)
	if err != nil || c.res.StatusCode != http.StatusForbidden || c.res.Header.Get("X-Api") != "old" || string(body) != "no websocket here" ||
		c.res.Header.Get("Leat-Error-Origin") != "cluster" {
		t.Errorf("got %s %v %q, %v, want the API server's 403", c.res.Status, c.res.Header, body, err)
	}
	_, _ = fmt.Fprintf(c, "GET /clusters/demo/version HTTP/1.1\r\nHost: hub\r\nAuthorization: Bearer %s\r\n\r\n", people.user("ada"))
	if res, err := http.ReadResponse(c.reader, nil); err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("second request: got %v, %v, want its own answer", res, err)
	}
}

// TestServiceOverAHop reaches a service of the cluster through the replica that has no agent.
func TestServiceOverAHop(t *testing.T) {
	people, _ := pair(t, agenttest.Options{
		Handler:  http.HandlerFunc(echo),
		Services: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "service "+r.RequestURI) }),
	})
	const path = "/services/shop/web:80/a%2Fb?x=1;2"
	if status, body := people.get(client(t, true), "ada", "demo", path); status != http.StatusOK || body != "service "+path {
		t.Errorf("got %d %q, want the service's answer", status, body)
	}
}
