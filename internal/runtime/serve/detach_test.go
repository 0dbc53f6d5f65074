// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"

	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/offline"
)

// counts returns how many connections are detached, and how many are open in all.
func (s *publicServer) counts() (detached, open int) {
	d := s.detached
	d.mu.Lock()
	defer d.mu.Unlock()
	s.strangers.mu.Lock()
	defer s.strangers.mu.Unlock()
	return len(d.conns), len(s.strangers.open)
}

// TestConnectionsAreDetached has connections over HTTP/2 without TLS leave the goroutine of net/http, which keeps
// buffers for HTTP/1.1. Others do not leave it, and nothing is left of a connection that is closed.
func TestConnectionsAreDetached(t *testing.T) {
	t.Parallel()
	for proto, want := range map[string]int{"HTTP/1.1": 0, "HTTP/2.0": 1} {
		t.Run(proto, func(t *testing.T) {
			t.Parallel()
			var server *publicServer
			p := Params{Logger: slog.New(slog.DiscardHandler), Public: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				detached, open := server.counts()
				_, _ = fmt.Fprint(w, r.Proto, " ", detached, " of ", open)
			})}
			server, err := p.newPublic(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			served := make(chan error, 1)
			go func() { served <- p.serve(server, listener) }()
			transport := offline.Transport()
			transport.Protocols = new(http.Protocols)
			transport.Protocols.SetUnencryptedHTTP2(want > 0)
			transport.Protocols.SetHTTP1(want == 0)
			got := askDetached(t, &http.Client{Transport: transport}, "http://"+listener.Addr().String())
			if want := fmt.Sprint(proto, " ", want, " of 1"); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			transport.CloseIdleConnections()
			if err := shutdown(await.Context(t), server); err != nil {
				t.Errorf("shut down: %v", err)
			}
			// Shutdown does not wait until net/http has reported that its own connections are closed.
			if detached, open := server.counts(); detached != 0 || want > 0 && open != 0 {
				t.Errorf("got %d detached and %d open connections afterwards, want none", detached, open)
			}
			_ = server.Close()
			<-served
		})
	}
}

func askDetached(t *testing.T, client *http.Client, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
