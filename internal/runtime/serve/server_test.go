// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/internal/testkit/loopback"
)

// TestF43ServersHaveNoLimitForWholeRequests checks the server's fields: a limit for whole answers
// would end streams, and one for whole requests uploads, however much they move.
func TestF43ServersHaveNoLimitForWholeRequests(t *testing.T) {
	t.Parallel()
	server := newServer(t.Context(), http.NotFoundHandler(), slog.New(slog.DiscardHandler))
	if server.ReadTimeout != 0 || server.WriteTimeout != 0 {
		t.Errorf("got limits of %v for reading and %v for writing, want none", server.ReadTimeout, server.WriteTimeout)
	}
	if server.ReadHeaderTimeout <= 0 || server.HTTP2.WriteByteTimeout <= 0 || server.HTTP2.SendPingTimeout <= 0 {
		t.Errorf("got limits of %v for headers, %v for writes and pings after %v, want some: peers that are gone must be noticed",
			server.ReadHeaderTimeout, server.HTTP2.WriteByteTimeout, server.HTTP2.SendPingTimeout)
	}
}

// TestF32StreamsOfHalfAnHour has a watch and an upgraded connection on which something happens
// every ten minutes.
func TestF32StreamsOfHalfAnHour(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]http.HandlerFunc{"watch": slowWatch, "exec": slowExec} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				there, here := net.Pipe()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				server := newServer(ctx, handler, slog.New(slog.DiscardHandler))
				listener := loopback.Single(there)
				ended := make(chan error, 1)
				go func() { ended <- server.Serve(listener) }()
				_, _ = fmt.Fprintf(here, "GET / HTTP/1.1\r\nHost: hub\r\nConnection: close\r\n\r\n")
				lines, began := bufio.NewReader(here), time.Now()
				for found := 0; found < 3; {
					line, err := lines.ReadString('\n')
					if err != nil {
						t.Fatalf("after %v and %d events: %v", time.Since(began), found, err)
					}
					if line == "event\n" {
						found++
					}
				}
				if took := time.Since(began); took != 30*time.Minute {
					t.Errorf("got the last event after %v, want 30 min", took)
				}
				_ = here.Close()
				_ = server.Close()
				<-ended
			})
		})
	}
}

func slowWatch(w http.ResponseWriter, _ *http.Request) {
	for range 3 {
		<-time.After(10 * time.Minute)
		_, _ = io.WriteString(w, "event\n")
		_ = http.NewResponseController(w).Flush()
	}
}

func slowExec(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer conn.Close()
	for range 3 {
		<-time.After(10 * time.Minute)
		_, _ = io.WriteString(conn, "event\n")
	}
}
