// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"github.com/leatdev/leat/services/tunnel"
)

const page = "https://ui.example"

// TestPagesOfListedOriginsMayCall asks as a browser does, for the cluster's API and for the hub's
// own.
func TestPagesOfListedOriginsMayCall(t *testing.T) {
	h := startHub(t, func(cfg *tunnel.Config) { cfg.AllowedOrigins = []string{page} })
	h.access.grant("ada", "demo", "leat:admins")
	h.agent("demo", func(w http.ResponseWriter, r *http.Request) {
		for _, name := range []string{"Access-Control-Allow-Origin", "Access-Control-Allow-Credentials", "access-control-expose-headers"} {
			w.Header()[name] = []string{"*"}
		}
		w.Header().Set("Set-Cookie", "a=b")
		echo(w, r)
	})
	for _, path := range []string{"/clusters/demo/api/v1/pods", "/leat.tunnel.v1.TunnelService/ListSessions"} {
		preflight := pageRequest(t, h, http.MethodOptions, path, map[string]string{
			"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type",
		})
		res, body := h.do(client(t, true), preflight)
		if res.StatusCode != http.StatusNoContent || body != "" || res.Header.Get("Access-Control-Allow-Origin") != page ||
			res.Header.Get("Access-Control-Allow-Headers") != "authorization, content-type" || !strings.Contains(res.Header.Get("Access-Control-Allow-Methods"), "POST") {
			t.Errorf("%s: got %d %v %s, want the preflight answered", path, res.StatusCode, res.Header, body)
		}
	}
	if got := h.audit.String(); got != "" || h.access.count() != 0 {
		t.Errorf("got %q and %d questions, want none for preflights", got, h.access.count())
	}
	req := pageRequest(t, h, http.MethodGet, "/clusters/demo/api/v1/pods", map[string]string{"Authorization": "Bearer " + h.user("ada")})
	res, _ := h.do(client(t, true), req)
	if got := res.Header.Values("Access-Control-Allow-Origin"); res.StatusCode != http.StatusOK || len(got) != 1 || got[0] != page {
		t.Errorf("got %d %v, want the origin alone allowed", res.StatusCode, res.Header)
	}
	exposed := res.Header.Values("Access-Control-Expose-Headers")
	if len(exposed) != 1 || !strings.Contains(exposed[0], "Leat-Error-Reason") || res.Header.Get("Access-Control-Allow-Credentials") != "" ||
		res.Header.Get("Set-Cookie") != "" || !strings.Contains(strings.Join(res.Header.Values("Vary"), ","), "Origin") {
		t.Errorf("got %v, want the hub's word on other origins, and not the cluster's", res.Header)
	}
	refused := pageRequest(t, h, http.MethodGet, "/clusters/demo/api/v1/pods", nil)
	if res, _ := h.do(client(t, true), refused); res.StatusCode != http.StatusUnauthorized || res.Header.Get("Access-Control-Allow-Origin") != page {
		t.Errorf("got %d %v, want a refusal that the page can read", res.StatusCode, res.Header)
	}
}

// pageRequest is one that a browser makes for the page.
func pageRequest(t *testing.T, h *hub, method, path string, header map[string]string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+h.addr+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Origin", page)
	req.Header.Set("Sec-Fetch-Site", "cross-site")
	for key, value := range header {
		req.Header.Set(key, value)
	}
	return req
}

// TestPagesOfOtherOriginsMayNot has no origin listed.
func TestPagesOfOtherOriginsMayNot(t *testing.T) {
	h := startHub(t, nil)
	h.access.grant("ada", "demo", "leat:admins")
	h.agent("demo", echo)
	for _, header := range []map[string]string{
		nil,
		{"Access-Control-Request-Method": "GET"},
		{"Upgrade": "websocket", "Connection": "Upgrade"},
		{"Sec-Fetch-Site": "same-site"},
		{"Sec-Fetch-Site": "none", "Upgrade": "websocket", "Connection": "Upgrade"},
	} {
		method := http.MethodGet
		if header["Access-Control-Request-Method"] != "" {
			method = http.MethodOptions
		}
		req := pageRequest(t, h, method, "/clusters/demo/api/v1/pods", header)
		req.Header.Set("Authorization", "Bearer "+h.user("ada"))
		if res, body := h.do(client(t, false), req); res.StatusCode != http.StatusForbidden || res.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%v: got %d %v %s, want it refused", header, res.StatusCode, res.Header, body)
		}
	}
	if got := h.audit.String(); got != "" {
		t.Errorf("got %q, want nothing to reach the door", got)
	}
}

// TestCookiesAuthenticateNobody sends a token by every way but the right one.
func TestCookiesAuthenticateNobody(t *testing.T) {
	h := startHub(t, nil)
	h.access.grant("ada", "demo", "leat:admins")
	h.agent("demo", echo)
	token := h.user("ada")
	encoded := "base64url.bearer.authorization.k8s.io." + base64.RawURLEncoding.EncodeToString([]byte(token))
	for name, header := range map[string]map[string]string{
		"a cookie":                      {"Cookie": "token=" + token + "; Authorization=Bearer " + token},
		"another scheme":                {"Authorization": "Basic " + token},
		"a proxy's header":              {"Proxy-Authorization": "Bearer " + token},
		"a protocol of no WebSocket":    {"Sec-WebSocket-Protocol": "x, " + encoded},
		"a protocol and no other":       {"Upgrade": "websocket", "Sec-WebSocket-Protocol": encoded},
		"two tokens":                    {"Upgrade": "websocket", "Sec-WebSocket-Protocol": "x, " + encoded + ", " + encoded},
		"a token that is none":          {"Upgrade": "websocket", "Sec-WebSocket-Protocol": "x, base64url.bearer.authorization.k8s.io.%%%"},
		"a token beside another scheme": {"Upgrade": "websocket", "Authorization": "Basic x", "Sec-WebSocket-Protocol": "x, " + encoded},
	} {
		req := h.request(t.Context(), http.MethodGet, "ada", "demo", "/api/v1/pods?access_token="+token+"&token="+token, nil)
		req.Header.Del("Authorization")
		for key, value := range header {
			req.Header.Set(key, value)
		}
		if header["Upgrade"] != "" {
			req.Header.Set("Connection", "Upgrade")
		}
		if res, _ := h.do(client(t, false), req); res.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: got %d, want 401", name, res.StatusCode)
		}
	}
}

// TestWebSocketsBringTheirToken asks for a WebSocket as a browser's script does. Whether it can be
// carried is told elsewhere: here it is known who asks.
func TestWebSocketsBringTheirToken(t *testing.T) {
	h := startHub(t, nil)
	h.access.grant("ada", "demo", "leat:admins")
	req := h.request(t.Context(), http.MethodGet, "ada", "demo", "/api/v1/namespaces/a/pods/b/exec?command=id", nil)
	req.Header.Del("Authorization")
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "websocket")
	req.Header["Sec-Websocket-Protocol"] = []string{
		"v5.channel.k8s.io", "v4.channel.k8s.io,base64url.bearer.authorization.k8s.io." + base64.RawURLEncoding.EncodeToString([]byte(h.user("ada"))),
	}
	res, body := h.do(client(t, false), req)
	if res.StatusCode == http.StatusUnauthorized {
		t.Errorf("got %d %s, want the token among the protocols to count", res.StatusCode, body)
	}
	if got := h.audit.String(); !strings.Contains(got, `"user:ada"`) {
		t.Errorf("got %q, want a decision about ada", got)
	}
}
