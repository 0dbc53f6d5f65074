// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package bench_test

import (
	"bufio"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leatdev/leat/bench/internal/process"
	"github.com/leatdev/leat/internal/testkit/hubkeys"
	"github.com/leatdev/leat/internal/testkit/loopback"
)

// server is a server in a process of its own.
type server struct {
	*process.Process

	url string
	// internal is the address of probes and scrapes.
	internal string
	// token authenticates the benchmark, if the server requires it.
	token string
	// readyAfter is how long after its start the server was ready.
	readyAfter time.Duration
}

// startBare starts the bare handler.
func startBare(tb testing.TB) *server {
	tb.Helper()
	out, in := io.Pipe()
	p := process.Start(tb, process.Params{Binary: process.Build(tb, "bench/cmd/barehandler"), Stdout: in})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		tb.Fatal(err)
	}
	return &server{Process: p, url: strings.TrimSpace(line)}
}

// startService starts a service of the hub and waits until it is ready.
func startService(tb testing.TB, name string, environment ...string) *server {
	tb.Helper()
	address, internal := loopback.Addr(tb), loopback.Addr(tb)
	binary := process.Build(tb, "services/"+name+"/cmd/"+name)
	begun := time.Now()
	p := process.Start(tb, process.Params{
		Binary: binary, Args: []string{"--listen-addr", address, "--internal-listen-addr", internal},
		Env: append(slices.Clone(environment), "LEAT_SERVICE_SECRET="+hubkeys.Secret(name), "LEAT_SERVICE_KEYS="+strings.Join(hubkeys.List(), ",")),
	})
	s := &server{Process: p, url: "http://" + address, internal: "http://" + internal}
	for range 6000 {
		if ready(tb, s.internal) {
			s.readyAfter = time.Since(begun)
			return s
		}
		<-time.After(20 * time.Millisecond)
	}
	tb.Fatalf("%s did not become ready", name)
	return nil
}

func ready(tb testing.TB, url string) bool {
	tb.Helper()
	request, err := http.NewRequestWithContext(tb.Context(), http.MethodGet, url+"/readyz", http.NoBody)
	if err != nil {
		tb.Fatal(err)
	}
	response, err := new(http.Client).Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	return response.StatusCode == http.StatusOK
}
