// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package charttest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// only accepts no certificate but the one in PEM form.
func only(text string) func([][]byte, [][]*x509.Certificate) error {
	want, _ := pem.Decode([]byte(text))
	return func(shown [][]byte, _ [][]*x509.Certificate) error {
		if want == nil || len(shown) == 0 || !bytes.Equal(shown[0], want.Bytes) {
			return errors.New("another client certificate is wanted")
		}
		return nil
	}
}

// start listens at the address that the repository had before, if it had one.
func (r *Repo) start(t testing.TB) {
	t.Helper()
	address := r.address
	if address == "" {
		address = "127.0.0.1:0"
	}
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	r.address = listener.Addr().String()
	if r.tls != nil {
		listener = tls.NewListener(listener, r.tls)
	}
	server := &httptest.Server{Listener: listener, Config: &http.Server{
		Handler: http.HandlerFunc(r.serve), ReadHeaderTimeout: time.Minute, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}}
	server.Start()
	r.set(func() { r.server = server })
}

// Start lets the server answer again after Stop, at the same address.
func (r *Repo) Start(t testing.TB) {
	t.Helper()
	r.start(t)
}

// Stop ends the server.
func (r *Repo) Stop() {
	r.mu.Lock()
	server := r.server
	r.server = nil
	r.mu.Unlock()
	if server != nil {
		server.CloseClientConnections()
		server.Close()
	}
}

func (r *Repo) serve(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	r.inFlight++
	r.stats.MaxInFlight = max(r.stats.MaxInFlight, r.inFlight)
	if value := req.Header.Get("Authorization"); value != "" && !slices.Contains(r.stats.Credentials, value) {
		r.stats.Credentials = append(r.stats.Credentials, value)
	}
	intercept := r.intercept
	user, password, isGiven := req.BasicAuth()
	isRefused := r.secret != "" && (!isGiven || user != r.user || subtle.ConstantTimeCompare([]byte(password), []byte(r.secret)) == 0)
	r.mu.Unlock()
	defer r.set(func() { r.inFlight-- })
	if intercept != nil && intercept(w, req) {
		return
	}
	if isRefused {
		w.Header().Set("WWW-Authenticate", `Basic realm="charts"`)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	name := path.Base(req.URL.Path)
	isProvenance := strings.HasSuffix(name, provenanceSuffix)
	if isProvenance {
		r.set(func() { r.stats.Provenances++ })
	}
	data, err := os.ReadFile(filepath.Join(r.dir, name))
	if err != nil {
		http.NotFound(w, req)
		return
	}
	switch {
	case name == "index.yaml":
		r.serveIndex(w, req, data)
		return
	case isProvenance:
		_, _ = w.Write(data)
		return
	}
	r.serveArchive(w, data)
}

func (r *Repo) serveIndex(w http.ResponseWriter, req *http.Request, data []byte) {
	tag := fmt.Sprintf(`"%x"`, sha256.Sum256(data))
	r.mu.Lock()
	r.stats.Index++
	hasTag := !r.hasNoETag
	isSame := hasTag && req.Header.Get("If-None-Match") == tag
	if isSame {
		r.stats.NotModified++
	}
	r.mu.Unlock()
	if hasTag {
		w.Header().Set("ETag", tag)
	}
	w.Header().Set("Content-Type", "application/x-yaml")
	if isSame {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	_, _ = w.Write(data)
}

func (r *Repo) serveArchive(w http.ResponseWriter, data []byte) {
	r.mu.Lock()
	r.stats.Archives++
	cut := r.cutAfter
	r.mu.Unlock()
	w.Header().Set("Content-Type", "application/x-tar")
	w.Header().Set("Content-Length", fmt.Sprint(len(data)))
	if cut > 0 && cut < len(data) {
		_, _ = w.Write(data[:cut])
		if flusher, ok := w.(http.Flusher); ok {
			flusher.Flush() // a client repeats a request by itself that was not answered at all
		}
		panic(http.ErrAbortHandler) // breaks the connection off
	}
	_, _ = w.Write(data)
}
