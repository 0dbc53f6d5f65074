// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/services/tunnel"
	"github.com/leatdev/leat/services/tunnel/internal/agenttest"
)

// startServices starts a hub with an agent that lets services be reached. Requests for its API
// server are answered with 418.
func startServices(t *testing.T, change func(*tunnel.Config), services http.HandlerFunc) *hub {
	t.Helper()
	h := startHub(t, change)
	teapot := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }
	h.agentWith(agenttest.Options{ID: "c-demo", Handler: http.HandlerFunc(teapot), Services: services}, "demo")
	return h
}

// TestServiceBehindTheTunnel wants the path as it came, and nothing of who asks.
func TestServiceBehindTheTunnel(t *testing.T) {
	h := startServices(t, func(c *tunnel.Config) { c.ClusterDomain = "clusters.test" }, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Set-Cookie", "a=b")
		w.WriteHeader(http.StatusAccepted)
		_ = json.NewEncoder(w).Encode(map[string]any{"uri": r.RequestURI, "body": string(body), "header": r.Header})
	})
	h.access.grant("ada", "demo", "leat:operators", "leat:group:x")
	const path = "/services/shop/https:web:8443/a%2Fb;c?watch=1&follow=2;3"
	for _, http2 := range []bool{false, true} {
		for _, byHost := range []bool{false, true} {
			req := h.request(t.Context(), http.MethodPost, "ada", "demo", path, strings.NewReader("body"))
			if byHost {
				req.Host = "demo.clusters.test"
				req.URL.Path, req.URL.RawPath = strings.TrimPrefix(req.URL.Path, "/clusters/demo"), strings.TrimPrefix(req.URL.RawPath, "/clusters/demo")
			}
			for _, name := range []string{"Cookie", "Impersonate-User", "Leat-Subject", "X-Forwarded-User", "X-Remote-User"} {
				req.Header.Set(name, "stolen")
			}
			res, body := h.do(client(t, http2), req)
			var got struct {
				URI, Body string
				Header    http.Header
			}
			if err := json.Unmarshal([]byte(body), &got); err != nil || res.StatusCode != http.StatusAccepted || got.URI != path || got.Body != "body" ||
				res.Header.Get("Set-Cookie") != "" {
				t.Errorf("http2=%v by host=%v: got %s %s, %v, want the service's answer to %s", http2, byHost, res.Status, body, err, path)
			}
			for name := range got.Header {
				for _, reserved := range []string{"Impersonate-", "Leat-", "X-Forwarded-", "X-Remote-", "Cookie", "Authorization"} {
					if strings.HasPrefix(name, reserved) {
						t.Errorf("http2=%v by host=%v: the agent got %s", http2, byHost, name)
					}
				}
			}
		}
	}
	record := h.outcome()
	for name, want := range map[string]any{
		"verb": "create", "namespace": "shop", "resource": "services", "subresource": "proxy", "name": "https:web:8443", "uri": path, "status": 202.0,
		"outcome": "completed", "subject": "user:ada",
	} {
		if record[name] != want {
			t.Errorf("audit record: got %s %v, want %v", name, record[name], want)
		}
	}
}

// TestWhoMayReachServices tries every role, and bindings that are narrowed.
func TestWhoMayReachServices(t *testing.T) {
	h := startServices(t, nil, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.RequestURI) })
	for user, groups := range map[string][]string{
		"admin": {"leat:admins"}, "operator": {"leat:operators"}, "viewer": {"leat:viewers"}, "other": {"leat:group:a", "admins"}, "none": nil,
	} {
		h.access.grant(user, "demo", groups...)
	}
	narrow := func(user string, groups []string, rule *typev1.AccessRule) {
		h.access.set(user, "demo", &distributorv1.CheckAccessResponse{
			Allowed: true, User: user, Narrowed: true, ClusterUid: "uid-demo",
			Grants: []*distributorv1.NarrowedGrant{{Binding: "b", Groups: groups, Rules: []*typev1.AccessRule{rule}}},
		})
	}
	operators := []string{"leat:operators"}
	narrow("pods", operators, &typev1.AccessRule{Resources: []string{"pods", "services", "pods/proxy"}})
	narrow("services", operators, &typev1.AccessRule{Verbs: []string{"get"}, Resources: []string{"services/proxy"}, Namespaces: []string{"shop"}})
	narrow("elsewhere", operators, &typev1.AccessRule{Resources: []string{"services/proxy"}, Namespaces: []string{"other"}})
	narrow("looks", []string{"leat:viewers"}, &typev1.AccessRule{Resources: []string{"services/proxy"}})
	narrow("paths", operators, &typev1.AccessRule{NonResourcePaths: []string{"*"}})
	c := client(t, true)
	for user, want := range map[string]int{
		"admin": 200, "operator": 200, "viewer": 403, "other": 403, "none": 403, "stranger": 403,
		"pods": 403, "services": 200, "elsewhere": 403, "looks": 403, "paths": 403,
	} {
		status, body := h.get(c, user, "demo", "/services/shop/web:80/x")
		if status != want || want == 200 && body != "/services/shop/web:80/x" || want == 403 && !strings.Contains(body, "ACCESS_DENIED") {
			t.Errorf("%s: got %d %s, want %d", user, status, body, want)
		}
	}
	if res, _ := h.do(c, h.request(t.Context(), http.MethodPost, "services", "demo", "/services/shop/web:80/x", nil)); res.StatusCode != http.StatusForbidden {
		t.Errorf("another verb than the rule's: got %s, want 403", res.Status)
	}
	for _, record := range h.audit.records(t) {
		if record["phase"] == "decision" && record["subject"] == "user:viewer" && (record["allowed"] != false || record["resource"] != "services") {
			t.Errorf("audit: got %v, want the refusal", record)
		}
	}
}

// TestPathsThatAreNoService sends paths that never reach the agent's services, for any caller.
func TestPathsThatAreNoService(t *testing.T) {
	h := startServices(t, nil, func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("the agent's services were asked for %s", r.RequestURI)
	})
	h.access.grant("ada", "demo", "leat:admins")
	for path, want := range map[string]int{
		"/services/shop/web/": 400, "/services/shop/web:http/": 400, "/services/shop%2Fweb:80/": 400, "/services/shop/web%3A80/": 400, "/services/shop": 400,
		"/services/": 400, "/services//web:80/": 400, "/services/shop/web:80/../db:1/": 400, "/services/shop/web:80/%2e%2e/db:1/": 400,
		"/services/shop/web:80/a%2f..%2f..": 400, "/services/shop/web:80/..%5c": 400, "/services/shop/evil.example.com:80/": 400, "/services/shop/a@b:80/": 400,
		"/services/shop/http:web:80/": 400, "/services/shop/web:080/": 400, "/services/Shop/web:80/": 400, "/services/shop/web:80:81/": 400,
		"/services/shop/web:80%zz": 400, "/services/shop/[::1]:80/": 400, "/services/shop/127.0.0.1:80/": 400,
		// These are the API server's.
		"/services": 418, "/%73ervices/shop/web:80/": 418, "//services/shop/web:80/": 418, "/Services/shop/web:80/": 418,
		"/api/v1/namespaces/shop/services/web:80/proxy/": 418,
	} {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", h.addr)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = fmt.Fprintf(conn, "GET /clusters/demo%s HTTP/1.1\r\nHost: hub\r\nAuthorization: Bearer %s\r\nConnection: close\r\n\r\n", path, h.user("ada"))
		answer, _ := io.ReadAll(conn)
		_ = conn.Close()
		if !strings.HasPrefix(string(answer), fmt.Sprintf("HTTP/1.1 %d ", want)) {
			t.Errorf("%s: got %.300s, want %d", path, answer, want)
		}
	}
}

func TestUpgradeOfAService(t *testing.T) {
	h := startServices(t, nil, switching(func(s *stream) {
		_, _ = io.WriteString(s, s.request.Method+" "+s.request.RequestURI+" "+s.request.Header.Get("Impersonate-User")+"\n")
		_, _ = io.Copy(s, s)
		_, _ = io.WriteString(s, " end")
	}))
	h.access.grant("ada", "demo", "leat:operators")
	h.access.grant("eve", "demo", "leat:viewers")
	const path = "/services/shop/web:80/ws?a=b"
	c := h.upgrade("websocket", "ada", "demo", path, "early ")
	if c.res.StatusCode != http.StatusSwitchingProtocols || c.res.Header.Get("Set-Cookie") != "" {
		t.Fatalf("got %s %v, want 101", c.res.Status, c.res.Header)
	}
	_, _ = io.WriteString(c, "late")
	_ = c.Conn.(*net.TCPConn).CloseWrite()
	if got, err := io.ReadAll(c); err != nil || string(got) != "POST "+path+" \nearly late end" {
		t.Errorf("got %q, %v, want the echo to its end", got, err)
	}
	if c := h.upgrade("websocket", "eve", "demo", path, ""); c.res.StatusCode != http.StatusForbidden {
		t.Errorf("a viewer's: got %s, want 403", c.res.Status)
	}
}
