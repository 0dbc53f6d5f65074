// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package rpc_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
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
// connection, fails within ten seconds, so that the caller may try another replica. A service of a hub has tried three
// connections until then, and one who is outside one.
func TestMuteServerIsLeft(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		isOutside bool
		tries     int32
	}{"hub": {false, 3}, "outside": {true, 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testMuteServer(t, c.isOutside, c.tries)
		})
	}
}

func testMuteServer(t *testing.T, isOutside bool, want int32) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		pipes := loopback.NewPipes()
		defer pipes.Close()
		var tries atomic.Int32
		go func() {
			for {
				conn, err := pipes.Accept()
				if err != nil {
					return
				}
				tries.Add(1)
				go func() { _, _ = io.Copy(io.Discard, conn) }()
			}
		}()
		client := newClient(t, rpc.ClientParams{BaseURL: "http://" + pipes.Addr().String(), Dial: pipes.Dial, IsOutside: isOutside})
		begun := time.Now()
		_, err := gitcachev1connect.NewGitCacheServiceClient(client.HTTP, client.BaseURL, client.Options...).
			ListRepositories(t.Context(), &gitcachev1.ListRepositoriesRequest{})
		if connect.CodeOf(err) != connect.CodeUnavailable || !strings.Contains(err.Error(), "sends nothing") || time.Since(begun) != 10*time.Second {
			t.Errorf("got %v after %s, want UNAVAILABLE after 10 s", err, time.Since(begun))
		}
		if tries.Load() != want {
			t.Errorf("got %d connections, want %d", tries.Load(), want)
		}
	})
}

// TestFrozenReplicaIsPassed has a load balancer take replicas in turn, of which the first is frozen. A call is answered when
// another connection is tried beside the first, and calls that begin together at once, since each connects.
func TestFrozenReplicaIsPassed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		calls int
		after time.Duration
	}{"one call": {1, 2 * time.Second}, "calls together": {4, 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { testFrozenReplica(t, c.calls, c.after) })
		})
	}
}

func testFrozenReplica(t *testing.T, calls int, after time.Duration) {
	t.Helper()
	balancer, replica := loopback.NewPipes(), loopback.NewPipes()
	defer balancer.Close()
	go func() {
		for isFrozen := true; ; isFrozen = !isFrozen {
			conn, err := balancer.Accept()
			switch {
			case err != nil:
				return
			case isFrozen:
				go func() { _, _ = io.Copy(io.Discard, conn) }()
			default:
				go carry(conn, replica)
			}
		}
	}()
	server := &http.Server{Protocols: new(http.Protocols), ReadHeaderTimeout: time.Hour, Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
	server.Protocols.SetUnencryptedHTTP2(true)
	go func() { _ = server.Serve(replica) }()
	defer server.Close()
	client := newClient(t, rpc.ClientParams{BaseURL: "http://" + balancer.Addr().String(), Dial: balancer.Dial})
	for _, want := range []time.Duration{after, 0} {
		begun := time.Now()
		var asked sync.WaitGroup
		for range calls {
			asked.Go(func() {
				if status, _ := get(t, client, client.BaseURL, nil); status != http.StatusOK || time.Since(begun) != want {
					t.Errorf("got %d after %s, want 200 after %s", status, time.Since(begun), want)
				}
			})
		}
		asked.Wait()
	}
	client.HTTP.CloseIdleConnections()
}

// carry passes a connection on.
func carry(conn net.Conn, to *loopback.Pipes) {
	behind, err := to.Dial(context.Background(), "", "")
	if err != nil {
		_ = conn.Close()
		return
	}
	go func() {
		_, _ = io.Copy(conn, behind)
		_ = conn.Close()
	}()
	_, _ = io.Copy(behind, conn)
	_ = behind.Close()
}

// TestSlowAnswerIsAwaited shows that the bound is about the connection, and not about an answer.
func TestSlowAnswerIsAwaited(t *testing.T) {
	t.Parallel()
	for name, isOutside := range map[string]bool{"hub": false, "outside": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testSlowAnswer(t, isOutside)
		})
	}
}

func testSlowAnswer(t *testing.T, isOutside bool) {
	t.Helper()
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
		client := newClient(t, rpc.ClientParams{BaseURL: "http://" + pipes.Addr().String(), Dial: pipes.Dial, IsOutside: isOutside})
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
