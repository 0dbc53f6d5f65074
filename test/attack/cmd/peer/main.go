// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Command peer is the server with which Leat's services are compared under attack: net/http, the
// limits that the services set on a connection, and handlers that do almost nothing. It prints the
// addresses of its two ports, and serves until it is killed.
//
// With the arguments CERTIFICATE and KEY, the names of two PEM files, it serves TLS.
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

// These are the limits of internal/runtime/serve. Without them the test would only compare settings.
const (
	readHeaderTimeout = 10 * time.Second
	idleTimeout       = 5 * time.Minute
	maxHeaderBytes    = 64 << 10
	maxStreams        = 1000
	streamWindow      = 512 << 10

	// smallBytes and largeBytes are the sizes of an ordinary answer and of one like /metrics.
	smallBytes = 200
	largeBytes = 55 << 10
)

func main() {
	if err := run(context.Background(), os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, files []string) error {
	failed := make(chan error)
	for range 2 { // the services have a public and an internal port
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return fmt.Errorf("listen: %w", err)
		}
		go func() { failed <- serve(newServer(), listener, files) }()
		if _, err := fmt.Fprintln(out, listener.Addr()); err != nil {
			return fmt.Errorf("print address: %w", err)
		}
	}
	return <-failed
}

func serve(server *http.Server, listener net.Listener, files []string) error {
	if len(files) == 2 {
		return server.ServeTLS(listener, files[0], files[1])
	}
	return server.Serve(listener)
}

func newServer() *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler: handler(), Protocols: protocols,
		ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams, MaxReceiveBufferPerStream: streamWindow,
			MaxReceiveBufferPerConnection: maxStreams * streamWindow,
			SendPingTimeout:               15 * time.Second, PingTimeout: 15 * time.Second, WriteByteTimeout: 30 * time.Second,
		},
	}
}

// handler answers each kind of request that the attacks send, as a service without any back end
// does.
func handler() http.Handler {
	small, large := strings.Repeat("x", smallBytes), strings.Repeat("x", largeBytes)
	mux := http.NewServeMux() // redirects unclean paths, as the services' mux does
	mux.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, small) // fails only if the client has left
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, large)
	})
	mux.HandleFunc("POST /", func(w http.ResponseWriter, _ *http.Request) { // answers before it reads the body
		w.WriteHeader(http.StatusUnauthorized)
	})
	mux.HandleFunc("POST /grpc.health.v1.Health/Watch", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, small)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	return mux
}
