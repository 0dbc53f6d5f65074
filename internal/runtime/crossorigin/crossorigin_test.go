// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package crossorigin_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/runtime/crossorigin"
)

const (
	listed   = "https://ui.example"
	unlisted = "https://evil.example"
)

func TestWhatPagesMayDo(t *testing.T) {
	t.Parallel()
	policy, err := crossorigin.New([]string{listed, "http://localhost:5173"})
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		method    string
		header    map[string]string
		status    int // 299 is next's answer
		allowed   string
		reachNext bool
	}{
		"no browser":                        {status: 299, reachNext: true},
		"a listed origin":                   {header: map[string]string{"Origin": listed, "Sec-Fetch-Site": "cross-site"}, status: 299, allowed: listed, reachNext: true},
		"another listed origin":             {header: map[string]string{"Origin": "http://localhost:5173"}, status: 299, allowed: "http://localhost:5173", reachNext: true},
		"a listed host with another port":   {header: map[string]string{"Origin": listed + ":444", "Sec-Fetch-Site": "cross-site"}, status: 403},
		"a listed host without TLS":         {header: map[string]string{"Origin": "http://ui.example", "Sec-Fetch-Site": "cross-site"}, status: 403},
		"the end of a listed host":          {header: map[string]string{"Origin": "https://evil-ui.example", "Sec-Fetch-Site": "cross-site"}, status: 403},
		"an unlisted origin":                {header: map[string]string{"Origin": unlisted, "Sec-Fetch-Site": "cross-site"}, status: 403},
		"another host of our site":          {header: map[string]string{"Origin": "https://other.example", "Sec-Fetch-Site": "same-site"}, status: 403},
		"no origin":                         {header: map[string]string{"Sec-Fetch-Site": "cross-site"}, status: 403},
		"a page without an origin":          {header: map[string]string{"Origin": "null", "Sec-Fetch-Site": "cross-site"}, status: 403},
		"our own page":                      {header: map[string]string{"Origin": "https://hub.example", "Sec-Fetch-Site": "same-origin"}, status: 299, reachNext: true},
		"typed into the browser":            {header: map[string]string{"Sec-Fetch-Site": "none"}, status: 299, reachNext: true},
		"an old browser":                    {header: map[string]string{"Origin": unlisted}, status: 299, reachNext: true},
		"a preflight":                       {method: "OPTIONS", header: map[string]string{"Origin": listed, "Access-Control-Request-Method": "PATCH"}, status: 204, allowed: listed},
		"an unlisted preflight":             {method: "OPTIONS", header: map[string]string{"Origin": unlisted, "Access-Control-Request-Method": "PATCH"}, status: 403},
		"OPTIONS without a preflight":       {method: "OPTIONS", header: map[string]string{"Origin": listed}, status: 299, allowed: listed, reachNext: true},
		"a WebSocket of a listed origin":    {header: map[string]string{"Origin": listed, "Upgrade": "websocket"}, status: 299, allowed: listed, reachNext: true},
		"a WebSocket of an unlisted one":    {header: map[string]string{"Origin": unlisted, "Upgrade": "WebSocket"}, status: 403},
		"a WebSocket of our own":            {header: map[string]string{"Origin": "https://hub.example", "Upgrade": "websocket"}, status: 299, reachNext: true},
		"a WebSocket of no browser":         {header: map[string]string{"Upgrade": "websocket"}, status: 299, reachNext: true},
		"a WebSocket without an origin":     {header: map[string]string{"Upgrade": "websocket", "Origin": "null"}, status: 403},
		"a SPDY upgrade that has an origin": {header: map[string]string{"Upgrade": "SPDY/3.1", "Origin": unlisted}, status: 299, reachNext: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reached := false
			handler := policy.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { reached = true; w.WriteHeader(299) }))
			if test.method == "" {
				test.method = http.MethodGet
			}
			req := httptest.NewRequestWithContext(t.Context(), test.method, "http://hub.example/x", nil)
			for key, value := range test.header {
				req.Header.Set(key, value)
			}
			res := httptest.NewRecorder()
			handler.ServeHTTP(res, req)
			if res.Code != test.status || reached != test.reachNext || res.Header().Get("Access-Control-Allow-Origin") != test.allowed {
				t.Errorf("got %d, %v, reached %v, want %d for %q", res.Code, res.Header(), reached, test.status, test.allowed)
			}
			if !strings.Contains(res.Header().Get("Vary"), "Origin") || res.Header().Get("Access-Control-Allow-Credentials") != "" {
				t.Errorf("got %v, want answers that vary with the origin, and no cookies", res.Header())
			}
		})
	}
}

func TestPreflight(t *testing.T) {
	t.Parallel()
	policy, err := crossorigin.New([]string{listed})
	if err != nil {
		t.Fatal(err)
	}
	req := httptest.NewRequestWithContext(t.Context(), http.MethodOptions, "http://hub.example/x", nil)
	req.Header.Set("Origin", listed)
	req.Header.Set("Access-Control-Request-Method", "PATCH")
	req.Header.Set("Access-Control-Request-Headers", "authorization, connect-protocol-version,bad name, x\ty")
	res := httptest.NewRecorder()
	policy.Wrap(http.NotFoundHandler()).ServeHTTP(res, req)
	if got := res.Header().Get("Access-Control-Allow-Headers"); got != "authorization, connect-protocol-version" {
		t.Errorf("got headers %q, want only valid header names", got)
	}
	if got := res.Header().Get("Access-Control-Allow-Methods"); !strings.Contains(got, "PATCH") || strings.Contains(got, "CONNECT") {
		t.Errorf("got methods %q, want those of APIs", got)
	}
	if res.Header().Get("Access-Control-Max-Age") == "" || res.Body.Len() != 0 {
		t.Errorf("got %v %q, want an answer to be kept, without a body", res.Header(), res.Body)
	}
}

func TestWithoutOriginsNothingIsMarked(t *testing.T) {
	t.Parallel()
	policy, err := crossorigin.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://hub.example/x", nil)
	req.Header.Set("Origin", listed)
	res := httptest.NewRecorder()
	policy.Wrap(http.NotFoundHandler()).ServeHTTP(res, req)
	if got := res.Header(); got.Get("Vary") != "" || got.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("got %v, want no header of ours", got)
	}
}

func TestOriginsAreExact(t *testing.T) {
	t.Parallel()
	for _, origin := range []string{
		"*", "https://*", "https://*.example", "ui.example", "https://ui.example/", "https://UI.example", "https://ui.example/x", "null", "",
		"ftp://ui.example", "https://user@ui.example", "https://ui.example?x", "https://",
	} {
		if _, err := crossorigin.New([]string{origin}); err == nil {
			t.Errorf("%q is taken for an origin", origin)
		}
	}
}
