// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gittest

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"maps"
	"net"
	"net/http"
	"net/textproto"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// serveHTTP serves until the returned function is called, which closes every connection.
func (s *Server) serveHTTP(listener net.Listener) (stop func()) {
	server := &http.Server{
		Handler:           http.HandlerFunc(s.handleHTTP),
		ReadHeaderTimeout: time.Minute,
	}
	if s.tls != nil {
		listener = tls.NewListener(listener, &tls.Config{
			Certificates: []tls.Certificate{s.tls.Pair},
			MinVersion:   tls.VersionTLS12,
		})
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener) // http.ErrServerClosed
	}()
	return func() {
		_ = server.Close()
		<-done
	}
}

func (s *Server) handleHTTP(w http.ResponseWriter, r *http.Request) {
	body := bufio.NewReader(r.Body)
	name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), ".git/")
	what := classify(r, body)
	defer s.begin(name, what)()
	if !s.authorized(r) && !s.hasTicket(r) {
		w.Header().Set("WWW-Authenticate", `Basic realm="gittest"`)
		http.Error(w, "authentication required", http.StatusUnauthorized)
		return
	}
	s.mu.Lock()
	intercept, cut := s.intercept, s.cut
	s.mu.Unlock()
	if intercept != nil && intercept(w, r) {
		return
	}
	if s.serveLFS(w, r) {
		return
	}
	if cut > 0 && what == kindFetch {
		w = &cutWriter{ResponseWriter: w, left: cut}
	}
	s.serveBackend(w, r, body)
}

// cutWriter breaks the connection after so many bytes.
type cutWriter struct {
	http.ResponseWriter
	left int
}

// Write implements http.ResponseWriter.
func (w *cutWriter) Write(p []byte) (int, error) {
	if len(p) <= w.left {
		w.left -= len(p)
		return w.ResponseWriter.Write(p)
	}
	_, _ = w.ResponseWriter.Write(p[:w.left])
	_ = http.NewResponseController(w.ResponseWriter).Flush()
	panic(http.ErrAbortHandler) // makes net/http break the connection
}

// serveBackend runs git http-backend for one request, by CGI. net/http/cgi kills the backend alone
// when a client leaves, and then waits forever for receive-pack, which waits for a hook whose
// output is no longer read.
func (s *Server) serveBackend(w http.ResponseWriter, r *http.Request, body *bufio.Reader) {
	length := r.ContentLength
	var in io.Reader = body
	if length < 0 { // CGI requires the length, and git sends a large push in chunks
		whole, err := io.ReadAll(body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		in, length = bytes.NewReader(whole), int64(len(whole))
	}
	ctx, leave := context.WithCancel(r.Context())
	command := exec.CommandContext(ctx, s.backend)
	grouped(command)
	command.Dir, command.Env = s.root, append(s.environment(),
		"GATEWAY_INTERFACE=CGI/1.1", "SERVER_PROTOCOL="+r.Proto, "REMOTE_ADDR="+r.RemoteAddr,
		"REQUEST_METHOD="+r.Method, "PATH_INFO="+r.URL.Path, "QUERY_STRING="+r.URL.RawQuery,
		"CONTENT_TYPE="+r.Header.Get("Content-Type"), "CONTENT_LENGTH="+strconv.FormatInt(length, 10),
		"HTTP_CONTENT_ENCODING="+r.Header.Get("Content-Encoding"),
		"GIT_PROJECT_ROOT="+s.root, "GIT_HTTP_EXPORT_ALL=1", "GIT_PROTOCOL="+r.Header.Get("Git-Protocol"),
	)
	if length > 0 {
		command.Stdin = in
	}
	out, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		leave()
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer func() { // of an answer that is broken off, with a panic or without
		leave()
		_ = command.Wait()
	}()
	if answer(w, bufio.NewReader(out)) == nil {
		_ = command.Wait()
	}
}

// answer writes the answer of a CGI program.
func answer(w http.ResponseWriter, out *bufio.Reader) error {
	header, err := textproto.NewReader(out).ReadMIMEHeader()
	if err != nil {
		http.Error(w, "git http-backend: "+err.Error(), http.StatusInternalServerError)
		return err
	}
	status := http.StatusOK
	if code, _, _ := strings.Cut(header.Get("Status"), " "); code != "" {
		if status, err = strconv.Atoi(code); err != nil {
			http.Error(w, "git http-backend: "+err.Error(), http.StatusInternalServerError)
			return err
		}
	}
	header.Del("Status")
	maps.Copy(w.Header(), http.Header(header))
	w.WriteHeader(status)
	_, err = io.Copy(w, out)
	return err
}

func (s *Server) authorized(r *http.Request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.user == "" {
		return true
	}
	user, password, ok := r.BasicAuth()
	return ok && user == s.user && password == s.password
}

// classify returns the kind of a request. In protocol version 2 both kinds of reads are a POST,
// which its first line distinguishes.
func classify(r *http.Request, body *bufio.Reader) kind {
	switch {
	case r.URL.Query().Get("service") == "git-upload-pack":
		return kindRefs
	case strings.HasSuffix(r.URL.Path, "/git-upload-pack"):
		if start, _ := body.Peek(64); bytes.Contains(start, []byte("command=ls-refs")) {
			return kindRefs
		}
		return kindFetch
	case strings.HasSuffix(r.URL.Path, "/git-receive-pack"):
		return kindPush
	default:
		return kindOther
	}
}
