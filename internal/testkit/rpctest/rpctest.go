// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package rpctest serves a handler over HTTP/2 within the test's process, without a TCP port.
// Everything above the connection is real: net/http's server and client, Connect's protocols, the
// interceptors.
package rpctest

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/loopback"
)

// BaseURL is the address of every server; only its own client reaches it.
const BaseURL = "http://leat.test"

// Serve serves handler until the test ends, and returns its base URL and the client that reaches
// it, over HTTP/2 with prior knowledge. Inside a testing/synctest bubble use [Start], because the
// server must be closed before the bubble ends.
func Serve(t testing.TB, handler http.Handler) (string, *http.Client) {
	t.Helper()
	server := Start(handler)
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Errorf("close in-memory server: %v", err)
		}
	})
	return BaseURL, server.Client()
}

// Server is a running in-memory server.
type Server struct {
	server    *http.Server
	listener  *loopback.Pipes
	transport *http.Transport
	served    chan error
}

// Start serves handler until [Server.Close].
func Start(handler http.Handler) *Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	pipes := loopback.NewPipes()
	s := &Server{
		server:    &http.Server{Handler: handler, Protocols: protocols, ReadHeaderTimeout: await.Patience},
		listener:  pipes,
		transport: newTransport(pipes),
		served:    make(chan error, 1),
	}
	go func() { s.served <- s.server.Serve(s.listener) }()
	return s
}

func newTransport(pipes *loopback.Pipes) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Transport{Protocols: protocols, DialContext: pipes.Dial}
}

// Client returns the client that reaches the server, whatever host the URL names.
func (s *Server) Client() *http.Client {
	return &http.Client{Transport: s.transport}
}

// Transport returns the client's transport, for example for rpc.ClientParams.
func (s *Server) Transport() *http.Transport { return s.transport }

// Close waits for running handlers, for [await.Patience] at most, and closes every connection.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), await.Patience)
	defer cancel()
	s.transport.CloseIdleConnections()
	err := s.server.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.server.Close())
	}
	s.transport.CloseIdleConnections()
	if serveErr := <-s.served; !errors.Is(serveErr, http.ErrServerClosed) {
		err = errors.Join(err, serveErr)
	}
	return err
}
