// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
)

// front is an API server of which one part is a double: tests set the answers below /double/. The
// rest is the real one, so that an agent can use it.
type front struct {
	url        string
	kubeconfig string

	mu      sync.Mutex
	doubles map[string]http.HandlerFunc
}

// doublePrefix is the prefix of the paths that tests answer; a test's own follows.
const doublePrefix = "/double/"

// answer sets the handler below doublePrefix + name + "/".
func (f *front) answer(name string, handler http.HandlerFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.doubles[name] = handler
}

// startFront serves like an API server: TLS, HTTP/2 and HTTP/1.1.
func (r *rig) startFront() error {
	target, err := url.Parse(r.cluster.Host())
	if err != nil {
		return err
	}
	listener, err := listen()
	if err != nil {
		return err
	}
	f := &front{
		url: "https://" + listener.Addr().String(), kubeconfig: filepath.Join(r.dir, "front.kubeconfig"),
		doubles: make(map[string]http.HandlerFunc),
	}
	cluster := &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(target)
			p.Out.Header.Del("Authorization")
		},
		Transport: r.cluster.HTTPClient().Transport, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
	}
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
			if rest, ok := strings.CutPrefix(request.URL.Path, doublePrefix); ok {
				f.double(w, request, rest)
				return
			}
			cluster.ServeHTTP(w, request)
		}),
		TLSConfig: r.ca.server(), ErrorLog: log.New(io.Discard, "", 0), MaxHeaderBytes: 1 << 20,
	}
	go func() { _ = server.ServeTLS(listener, "", "") }()
	r.end(func() { _ = server.Close() })
	r.front = f
	return writeJSON(f.kubeconfig, map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "it",
		"clusters": []any{map[string]any{"name": "it", "cluster": map[string]any{"server": f.url, "certificate-authority": r.ca.caFile}}},
		"users":    []any{map[string]any{"name": "it", "user": map[string]any{"token": "the agent's own"}}},
		"contexts": []any{map[string]any{"name": "it", "context": map[string]any{"cluster": "it", "user": "it"}}},
	})
}

func (f *front) double(w http.ResponseWriter, r *http.Request, rest string) {
	name, _, _ := strings.Cut(rest, "/")
	f.mu.Lock()
	handler := f.doubles[name]
	f.mu.Unlock()
	if handler == nil {
		http.NotFound(w, r)
		return
	}
	handler(w, r)
}
