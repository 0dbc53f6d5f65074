// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/serve"
)

// TestRefusedUploadsGetTheirAnswer refuses uploads that have only begun. Dropping their bodies must
// not reset them before the client has the answer.
func TestRefusedUploadsGetTheirAnswer(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]http.HandlerFunc{
		"anonymous": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusUnauthorized) },
		"verified": func(w http.ResponseWriter, r *http.Request) {
			identity.Verified(r.Context())
			http.Error(w, "no", http.StatusUnauthorized)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := start(t, serve.Config{}, handler)
			for range 100 {
				request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+server.addr, io.LimitReader(zeros{}, 4<<20))
				if err != nil {
					t.Fatal(err)
				}
				response, err := server.client.Do(request)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(response.Body)
				_ = response.Body.Close()
				if response.StatusCode != http.StatusUnauthorized || string(body) != "no\n" || err != nil {
					t.Fatalf("got %d %q %v, want 401 and its text", response.StatusCode, body, err)
				}
			}
		})
	}
}

// TestRefusalWaitsForItsReader has a client over HTTP/1.1 read the refusal of an upload only after
// it has sent the whole body, which is larger than the buffers of the kernel.
func TestRefusalWaitsForItsReader(t *testing.T) {
	t.Parallel()
	const size = 15 << 20
	server := start(t, serve.Config{}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no", http.StatusUnauthorized)
	}))
	conn := dial(t, server.addr)
	write(t, conn, fmt.Sprintf("POST / HTTP/1.1\r\nHost: leat.test\r\nContent-Length: %d\r\n\r\n", size))
	if n, err := io.Copy(conn, io.LimitReader(zeros{}, size)); err != nil {
		t.Fatalf("the server has read %d bytes and cut the connection: %v", n, err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("read answer: %v", err)
	}
	body, err := io.ReadAll(response.Body)
	if response.StatusCode != http.StatusUnauthorized || string(body) != "no\n" || err != nil {
		t.Errorf("got %d %q %v, want 401 and its text", response.StatusCode, body, err)
	}
}
