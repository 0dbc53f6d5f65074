// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package offline_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/leatdev/leat/internal/testkit/offline"
)

func TestMain(m *testing.M) { os.Exit(offline.Run(m)) }

func TestLoopbackIsReached(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	for name, transport := range map[string]http.RoundTripper{
		"default": http.DefaultTransport, "own": offline.Transport(),
	} {
		response, err := (&http.Client{Transport: transport}).Do(request(t, server.URL))
		if err != nil {
			t.Errorf("%s transport: got error %v, want an answer", name, err)
			continue
		}
		_ = response.Body.Close()
	}
}

func TestOthersAreRefused(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"http://192.0.2.1/", "http://[2001:db8::1]/", "http://leat.example/"} {
		response, err := (&http.Client{Transport: http.DefaultTransport}).Do(request(t, url))
		if !errors.Is(err, offline.ErrRefused) {
			t.Errorf("GET %s: got error %v, want %v", url, err, offline.ErrRefused)
		}
		if err == nil {
			_ = response.Body.Close()
		}
	}
}

func TestNamesAreNotLookedUp(t *testing.T) {
	t.Parallel()
	if addrs, err := net.DefaultResolver.LookupHost(t.Context(), "leat.example"); err == nil {
		t.Errorf("look up: got %v, want an error", addrs)
	}
}

func TestDialContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // an allowed dial fails for this reason, without sending a packet
	for address, refused := range map[string]bool{
		"localhost:1": false, "127.0.0.1:1": false, "[::1]:1": false,
		"10.0.0.1:1": true, "leat.example:1": true, "nonsense": true,
	} {
		_, err := offline.DialContext(ctx, "tcp", address)
		if got := errors.Is(err, offline.ErrRefused); got != refused {
			t.Errorf("dial %s: got error %v, refused %t, want %t", address, err, got, refused)
		}
	}
	if _, err := offline.DialContext(ctx, "unix", "/nowhere"); errors.Is(err, offline.ErrRefused) {
		t.Errorf("dial a unix socket: got %v, want it allowed", err)
	}
}

func request(t *testing.T, url string) *http.Request {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatalf("make request: %v", err)
	}
	return request
}
