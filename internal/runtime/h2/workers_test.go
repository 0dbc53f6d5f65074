// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2_test

import (
	"context"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// TestWorkersThatAreLeft has a connection keep no more goroutines than one that reads, one that
// waits, and the server's own, however many have answered at once.
func TestWorkersThatAreLeft(t *testing.T) {
	const many = 50
	var running atomic.Int32
	all := make(chan struct{})
	client, _ := pair(t, budget(t, 1<<30), func(http.ResponseWriter, *http.Request) {
		if running.Add(1) == many {
			close(all)
		}
		<-all // each has a goroutine of its own
	})
	var asked sync.WaitGroup
	for range many {
		asked.Go(func() { _ = get(t, client).Body.Close() })
	}
	asked.Wait()
	await(t, "the goroutines to end", func() bool {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		return strings.Count(string(stacks), "h2.(*Server).work(") == 2
	})
	_ = get(t, client).Body.Close()
}

// TestConnectionIsReadWhileHandlersWait holds up handlers that were called alone, and such that
// were called with others.
func TestConnectionIsReadWhileHandlersWait(t *testing.T) {
	t.Parallel()
	held, release := make(chan struct{}, 100), make(chan struct{})
	client, _ := pair(t, budget(t, 1<<30), func(_ http.ResponseWriter, r *http.Request) {
		held <- struct{}{}
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var asked sync.WaitGroup
	for range 3 {
		for range 8 { // some come together
			asked.Go(func() { _ = get(t, client).Body.Close() })
		}
		asked.Go(func() {
			if res, err := client.RoundTrip(request(t, ctx, http.MethodGet, nil)); err == nil {
				t.Error("got an answer to a request that was canceled")
				_ = res.Body.Close()
			}
		})
		for range 9 {
			<-held
		}
	}
	cancel() // only a reader hears of it
	close(release)
	asked.Wait()
}

// TestHandlerEndsItsGoroutine has handlers take the goroutine with them, alone and with others that
// have come along.
func TestHandlerEndsItsGoroutine(t *testing.T) {
	t.Parallel()
	client, _ := pair(t, budget(t, 1<<30), func(_ http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Exit") != "" {
			runtime.Goexit()
		}
	})
	for range 20 {
		var asked sync.WaitGroup
		for i := range 4 {
			asked.Go(func() {
				req := request(t, t.Context(), http.MethodGet, nil)
				if i%2 == 0 {
					req.Header.Set("Exit", "yes")
				}
				res, err := client.RoundTrip(req)
				if err == nil {
					_ = res.Body.Close()
				}
				if (err == nil) != (i%2 == 1) {
					t.Errorf("request %d: %v", i, err)
				}
			})
		}
		asked.Wait()
	}
}
