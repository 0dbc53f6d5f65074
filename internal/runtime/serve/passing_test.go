// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"io"
	"net/http"
	"net/http/httputil"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/runtime/serve"
)

// transport carries requests in tests.
type transport func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(req *http.Request) (*http.Response, error) { return t(req) }

// TestKeepBody passes requests on, of which some have bodies that can write themselves.
func TestKeepBody(t *testing.T) {
	doors(t, func(t *testing.T, open func(t *testing.T, cfg serve.Config, handler http.Handler) *door) {
		var writesItself bool
		proxy := &httputil.ReverseProxy{
			Rewrite: func(p *httputil.ProxyRequest) {
				_, writesItself = p.In.Body.(io.WriterTo)
				serve.KeepBody(p)
			},
			Transport: transport(func(req *http.Request) (*http.Response, error) {
				res := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody, Request: req}
				if req.Body == nil {
					res.Header.Set("Body", "none")
					return res, nil
				}
				_, still := req.Body.(io.WriterTo)
				var all strings.Builder
				_, err := io.Copy(&all, req.Body)
				if still != writesItself || err != nil {
					res.StatusCode = http.StatusBadGateway
				}
				res.Header.Set("Body", all.String())
				return res, nil
			}),
		}
		d := open(t, serve.Config{}, proxy)
		for body, want := range map[string]string{"": "none", "a body": "a body"} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.url, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			res, err := d.asks.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			if got := res.Header.Get("Body"); got != want || res.StatusCode != http.StatusOK {
				t.Errorf("%q: got %s, %q, want it whole, from a body that still writes itself if it could", body, res.Status, got)
			}
		}
	})
}
