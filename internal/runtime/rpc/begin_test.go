// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package rpc_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/gen/go/leat/gitcache/v1/gitcachev1connect"
	"github.com/leatdev/leat/internal/runtime/rpc"
	"github.com/leatdev/leat/internal/testkit/loopback"
)

// TestMuteServerIsLeft shows that a call to a frozen server, for which the kernel accepts the
// connection, fails within ten seconds, so that the caller may try another replica.
func TestMuteServerIsLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pipes := loopback.NewPipes()
		defer pipes.Close()
		go func() {
			conn, err := pipes.Accept()
			if err == nil {
				_, _ = io.Copy(io.Discard, conn)
			}
		}()
		client := newClient(t, rpc.ClientParams{BaseURL: "http://" + pipes.Addr().String(), Dial: pipes.Dial})
		begun := time.Now()
		_, err := gitcachev1connect.NewGitCacheServiceClient(client.HTTP, client.BaseURL, client.Options...).
			ListRepositories(t.Context(), &gitcachev1.ListRepositoriesRequest{})
		if connect.CodeOf(err) != connect.CodeUnavailable || !strings.Contains(err.Error(), "sends nothing") || time.Since(begun) != 10*time.Second {
			t.Errorf("got %v after %s, want UNAVAILABLE after 10 s", err, time.Since(begun))
		}
	})
}

// TestSlowAnswerIsAwaited shows that the bound is about the connection, and not about an answer.
func TestSlowAnswerIsAwaited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pipes := loopback.NewPipes()
		server := &http.Server{
			Protocols:         new(http.Protocols),
			ReadHeaderTimeout: time.Hour,
			Handler:           http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-time.After(10 * time.Minute) }),
		}
		server.Protocols.SetUnencryptedHTTP2(true)
		go func() { _ = server.Serve(pipes) }()
		defer server.Close()
		client := newClient(t, rpc.ClientParams{BaseURL: "http://" + pipes.Addr().String(), Dial: pipes.Dial})
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, client.BaseURL, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.HTTP.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		client.HTTP.CloseIdleConnections()
	})
}
