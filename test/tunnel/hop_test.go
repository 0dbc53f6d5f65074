// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/testkit/await"
)

// Ways are named after the cluster that they lead to. These prefixes lead to the same cluster in
// another manner.
const (
	overHop = "hop-"  // by the replica of the hub without an agent's connection, which forwards requests to the other one
	byHost  = "host-" // by the cluster's own host instead of a path of the hub
)

// clusterDomain is the suffix of the hosts of clusters.
const clusterDomain = "clusters.localhost"

// url returns the URL of a way.
func (r *rig) url(way string) string {
	if cluster, ok := strings.CutPrefix(way, overHop); ok {
		return "https://" + r.far + "/clusters/" + cluster
	}
	if cluster, ok := strings.CutPrefix(way, byHost); ok {
		return "https://" + cluster + "." + clusterDomain
	}
	return "https://" + r.hub + "/clusters/" + way
}

// lifetime gives helpers the rig's lifetime instead of a test's. They report failures to the test.
type lifetime struct {
	testing.TB

	rig *rig
}

// Cleanup implements testing.TB.
func (l lifetime) Cleanup(f func()) { l.rig.end(f) }

// Logf implements testing.TB. A helper logs what its program printed when the rig ends, and the test
// that has started it has ended by then: its own Logf would panic.
func (lifetime) Logf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// TempDir implements testing.TB.
func (l lifetime) TempDir() string {
	l.Helper()
	dir, err := os.MkdirTemp(l.rig.dir, "of-a-helper-")
	if err != nil {
		l.Fatal(err)
	}
	return dir
}

// startResolver starts a proxy by which programs reach the hosts of clusters, which no name server
// resolves. It supports only CONNECT and always leads to the hub.
func (r *rig) startResolver() error {
	listener, err := listen()
	if err != nil {
		return err
	}
	r.resolver = "http://" + listener.Addr().String()
	server := &http.Server{ReadHeaderTimeout: await.Patience, Handler: http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if request.Method != http.MethodConnect {
			http.Error(w, "want CONNECT", http.StatusMethodNotAllowed)
			return
		}
		behind, err := (&net.Dialer{Timeout: await.Patience}).DialContext(request.Context(), "tcp", r.hub)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer behind.Close()
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
		go func() {
			defer behind.Close()
			_, _ = io.Copy(behind, buffered)
		}()
		_, _ = io.Copy(conn, behind)
	})}
	go func() { _ = server.Serve(listener) }()
	r.end(func() { _ = server.Close() })
	return nil
}
