// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"time"
)

// The parts are the environment of a tunnel in its benchmarks: an API server's double, a plain
// reverse proxy, and a link with latency. Each runs in its own process.

// errUsage is what [runPart] returns for unknown arguments.
var errUsage = errors.New("want: apiserver ADDRESS CERTIFICATE KEY, proxy ADDRESS CERTIFICATE KEY TARGET h2|http1, or link ADDRESS TARGET RTT")

// runPart runs the part that args name until it fails.
func runPart(ctx context.Context, args []string) error {
	switch {
	case len(args) == 4 && args[0] == "apiserver":
		return serveTLS(args[1], args[2], args[3], apiServerDouble(), ofAPIServer)
	case len(args) == 6 && args[0] == "proxy":
		handler, err := proxyHandler(args[4], args[2], args[5] == "h2")
		if err != nil {
			return err
		}
		return serveTLS(args[1], args[2], args[3], handler, ofProxy)
	case len(args) == 4 && args[0] == "link":
		rtt, err := time.ParseDuration(args[3])
		if err != nil {
			return fmt.Errorf("parse RTT: %w", err)
		}
		return serveLink(ctx, args[1], args[2], rtt)
	default:
		return errUsage
	}
}

// Flow-control windows of servers. The API server has the windows of a kube-apiserver. A proxy's
// are as large as those of Go's clients, so that they are not the bottleneck in either direction.
var (
	ofAPIServer = http.HTTP2Config{
		MaxConcurrentStreams: 100, MaxReadFrameSize: 256 << 10,
		MaxReceiveBufferPerStream: 256 << 10, MaxReceiveBufferPerConnection: 100 * 256 << 10,
	}
	ofProxy = http.HTTP2Config{
		MaxConcurrentStreams: 1000, MaxReceiveBufferPerStream: 4 << 20, MaxReceiveBufferPerConnection: 1 << 30,
	}
)

func serveTLS(address, certificate, key string, handler http.Handler, windows http.HTTP2Config) error {
	server := &http.Server{
		Addr: address, Handler: handler, ReadHeaderTimeout: time.Minute, HTTP2: &windows,
		ErrorLog: log.New(io.Discard, "", 0), // of callers that only check for a listener
	}
	return server.ListenAndServeTLS(certificate, key)
}

// trust returns the settings of a client that trusts the certificate in a file.
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
