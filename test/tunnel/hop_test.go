// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// Ways are named for the cluster that they lead to. These prefixes lead to the same cluster in
// another manner.
const (
	overHop = "hop-"  // by the replica of the hub that no agent is connected to, which passes requests on to the other one
	byHost  = "host-" // by the cluster's own host instead of a path of the hub
)

// clusterDomain is what the hosts of clusters end with.
const clusterDomain = "clusters.localhost"

// url is where a way leads.
func (r *rig) url(way string) string {
	if cluster, ok := strings.CutPrefix(way, overHop); ok {
		return "https://" + r.far + "/clusters/" + cluster
	}
	if cluster, ok := strings.CutPrefix(way, byHost); ok {
		return "https://" + cluster + "." + clusterDomain
	}
	return "https://" + r.hub + "/clusters/" + way
}

// lifetime gives helpers the rig's life instead of a test's; the test is who they tell that they
// cannot.
type lifetime struct {
	testing.TB

	rig *rig
}

// Cleanup implements testing.TB.
func (l lifetime) Cleanup(f func()) { l.rig.end(f) }

// TempDir implements testing.TB.
func (l lifetime) TempDir() string {
	l.Helper()
	dir, err := os.MkdirTemp(l.rig.dir, "of-a-helper-")
	if err != nil {
		l.Fatal(err)
	}
	return dir
}

// startResolver is how programs find the hosts of clusters, for which no name server knows an
// address: a proxy that knows CONNECT alone and leads to the hub, whatever is asked for.
func (r *rig) startResolver() error {
	listener, err := listen()
	if err != nil {
		return err
	}
	r.resolver = "http://" + listener.Addr().String()
	server := &http.Server{ReadHeaderTimeout: patience, Handler: http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if request.Method != http.MethodConnect {
			http.Error(w, "want CONNECT", http.StatusMethodNotAllowed)
			return
		}
		behind, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(request.Context(), "tcp", r.hub)
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
