// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Command remotedialer is a hub and an agent around rancher/remotedialer, as Rancher uses it: the agent carries bytes, and the
// hub itself speaks HTTP over TLS to the cluster's API server through it.
//
//	remotedialer hub ADDRESS CERTIFICATE KEY TARGET h2|http1
//	remotedialer agent ADDRESS CERTIFICATE
//
// Both run until they are killed. CERTIFICATE is trusted, too. Nobody is asked for a token, and no one's rights are looked at.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"time"

	"github.com/gorilla/websocket"
	"github.com/rancher/remotedialer"
	"github.com/sirupsen/logrus"
)

const (
	connectPath = "/connect"
	// cluster is the name of the one agent.
	cluster = "edge"
	// copyBuffer is how much of an answer the hub copies at once, the same as in other peers.
	copyBuffer = 32 << 10
	// idle is how many connections to the API server are kept for the next request.
	idle = 128
)

func main() {
	logrus.SetLevel(logrus.FatalLevel) // broken connections are part of some benchmarks
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "remotedialer:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	switch {
	case len(args) == 6 && args[0] == "hub":
		return serveHub(args[1], args[2], args[3], args[4], args[5] == "h2")
	case len(args) == 3 && args[0] == "agent":
		return serveAgent(ctx, args[1], args[2])
	default:
		return errors.New("usage: remotedialer hub ADDRESS CERTIFICATE KEY TARGET h2|http1, or remotedialer agent ADDRESS CERTIFICATE")
	}
}

// serveHub carries what is asked of it to the API server, over connections that the agent dials.
func serveHub(address, certificate, key, target string, http2 bool) error {
	to, err := url.Parse(target)
	if err != nil {
		return fmt.Errorf("parse target: %w", err)
	}
	trusted, err := trust(certificate)
	if err != nil {
		return err
	}
	tunnel := remotedialer.New(func(*http.Request) (string, bool, error) { return cluster, true, nil }, remotedialer.DefaultErrorWriter)
	transport := &http.Transport{
		DialContext: tunnel.Dialer(cluster), TLSClientConfig: trusted, ForceAttemptHTTP2: http2,
		DisableCompression: true, MaxIdleConnsPerHost: idle, MaxIdleConns: idle,
	}
	silent := log.New(io.Discard, "", 0) // of callers who have had enough
	mux := http.NewServeMux()
	mux.Handle(connectPath, tunnel)
	mux.Handle("/", &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }, Transport: transport, BufferPool: make(buffers, idle), ErrorLog: silent,
	})
	server := &http.Server{
		Addr: address, Handler: mux, ReadHeaderTimeout: time.Minute, ErrorLog: silent,
		// As of the other peers' doors, so that windows are not what holds an upload up.
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: 1000, MaxReceiveBufferPerStream: 4 << 20, MaxReceiveBufferPerConnection: 1 << 30},
	}
	return server.ListenAndServeTLS(certificate, key)
}

// serveAgent connects until it is killed, again when it has to.
func serveAgent(ctx context.Context, address, certificate string) error {
	trusted, err := trust(certificate)
	if err != nil {
		return err
	}
	dialer := &websocket.Dialer{TLSClientConfig: trusted, HandshakeTimeout: remotedialer.HandshakeTimeOut}
	for {
		err := remotedialer.ClientConnect(ctx, "wss://"+address+connectPath, nil, dialer,
			func(string, string) bool { return true }, nil)
		fmt.Fprintln(os.Stderr, "remotedialer agent: disconnected:", err)
		time.Sleep(time.Second)
	}
}

func trust(certificate string) (*tls.Config, error) {
	content, err := os.ReadFile(certificate)
	if err != nil {
		return nil, fmt.Errorf("read certificate: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(content) {
		return nil, errors.New("read certificate: no certificate in PEM found")
	}
	return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, nil
}

// buffers keeps some for the next answers.
type buffers chan []byte

// Get implements httputil.BufferPool.
func (b buffers) Get() []byte {
	select {
	case buffer := <-b:
		return buffer
	default:
		return make([]byte, copyBuffer)
	}
}

// Put implements httputil.BufferPool.
func (b buffers) Put(buffer []byte) {
	select {
	case b <- buffer:
	default:
	}
}
