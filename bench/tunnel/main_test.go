// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package tunnel measures the path through the tunnel: from a person through the hub and the agent
// to an API server, beside plain reverse proxies and rancher/remotedialer. It also measures what
// many agents cost, idle and when a replica dies.
//
// The clients, the hub, the agent and the API server's double are separate processes, with TLS
// between them, on one machine. If a round-trip time is stated, a link between hub and agent delays
// every byte by half of it.
package tunnel_test

import (
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/leatdev/leat/bench/internal/process"
	"github.com/leatdev/leat/internal/testkit/loopback"
	"github.com/leatdev/leat/internal/testkit/selfsigned"
)

var (
	each   = flag.Duration("tunnel.each", 2*time.Second, "how long each figure is measured in one round")
	rounds = flag.Int("tunnel.rounds", 5, "how often each figure is measured; peers take turns in each round")
	rtts   = flag.String("tunnel.rtts", "0s,30ms,50ms", "times of a round trip between hub and agent")
	peers  = flag.String("tunnel.peers", "two-proxies,two-proxies-http1,unrecorded,one-proxy,direct,remotedialer,remotedialer-h2",
		"what is measured beside Leat")
	built = flag.String("tunnel.bin", "", "folder with the binaries tunnel, agent and remotedialer, such as those of another version; empty: they are built")
)

// partVariable makes this program a part: its value names the part, and the arguments are the
// part's.
const partVariable = "LEAT_BENCH_PART"

func TestMain(m *testing.M) {
	if part := os.Getenv(partVariable); part != "" {
		fmt.Fprintln(os.Stderr, runPart(context.Background(), append([]string{part}, os.Args[1:]...)))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// bench is the state that all processes of one benchmark share.
type bench struct {
	certFile, keyFile string
	trusted           *tls.Config
	// owner is the benchmark for which the binaries are built: they outlive its sub-benchmarks.
	owner    *testing.B
	binaries map[string]string
}

func newBench(b *testing.B) *bench {
	b.Helper()
	s := &bench{owner: b, binaries: map[string]string{}}
	certificate := selfsigned.New(b)
	s.certFile, s.keyFile = certificate.Write(b, b.TempDir())
	s.trusted = &tls.Config{RootCAs: certificate.Roots(), MinVersion: tls.VersionTLS12}
	return s
}

// part starts a part on a free address, and returns when it accepts connections.
func (s *bench) part(b *testing.B, name string, args ...string) (*process.Process, string) {
	b.Helper()
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	address := loopback.Addr(b)
	p := process.Start(b, process.Params{Binary: self, Args: append([]string{address}, args...), Env: []string{partVariable + "=" + name}})
	awaitAddress(b, address)
	return p, address
}

// binary returns the named binary: a prebuilt one, or one built by build.
func (s *bench) binary(b *testing.B, name string, build func() string) string {
	b.Helper()
	if *built != "" {
		return filepath.Join(*built, name)
	}
	if s.binaries[name] == "" {
		s.binaries[name] = build()
	}
	return s.binaries[name]
}

// service builds a service.
func (s *bench) service(b *testing.B, name string) string {
	b.Helper()
	return s.binary(b, name, func() string { return process.Build(s.owner, "services/"+name+"/cmd/"+name) })
}

// apiServer starts the API server's double and returns its address.
func (s *bench) apiServer(b *testing.B) string {
	b.Helper()
	_, address := s.part(b, "apiserver", s.certFile, s.keyFile)
	return address
}

// link returns an address that leads to target, with the given round-trip time.
func (s *bench) link(b *testing.B, target string, rtt time.Duration) string {
	b.Helper()
	if rtt == 0 {
		return target
	}
	_, address := s.part(b, "link", target, rtt.String())
	return address
}

// client returns a client with its own connection, which speaks HTTP/2 like kubectl.
func (s *bench) client(b *testing.B) *http.Client {
	b.Helper()
	return s.over(b, true)
}

func (s *bench) over(b *testing.B, http2 bool) *http.Client {
	b.Helper()
	protocols := new(http.Protocols)
	protocols.SetHTTP2(http2)
	protocols.SetHTTP1(!http2)
	transport := &http.Transport{TLSClientConfig: s.trusted.Clone(), Protocols: protocols, DisableCompression: true}
	b.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// patience is how long processes may take to start, and agents to connect.
const patience = 30 * time.Second

// await polls until yes returns true.
func await(b *testing.B, what string, yes func() bool) {
	b.Helper()
	for deadline := time.Now().Add(patience); !yes(); <-time.After(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.Fatalf("waited %v in vain for %s", patience, what)
		}
	}
}

func awaitAddress(b *testing.B, address string) {
	b.Helper()
	await(b, "connections to "+address, func() bool {
		conn, err := new(net.Dialer).DialContext(b.Context(), "tcp", address)
		if err != nil {
			return false
		}
		_ = conn.Close()
		return true
	})
}

// list splits a flag.
func list(value string) []string {
	return strings.FieldsFunc(value, func(c rune) bool { return c == ',' })
}

func durations(b *testing.B, value string) []time.Duration {
	b.Helper()
	var all []time.Duration
	for _, text := range list(value) {
		d, err := time.ParseDuration(text)
		if err != nil {
			b.Fatal(err)
		}
		all = append(all, d)
	}
	return all
}
