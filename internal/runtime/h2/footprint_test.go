// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2_test

import (
	"net/http"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/runtime/h2"
	"github.com/leatdev/leat/internal/testkit/heap"
	"github.com/leatdev/leat/internal/testkit/raced"
)

// TestFootprint measures how much memory connections take after many requests beyond what they take after one, both ends
// together. Each request has a time limit of its own, and each answer a time.
func TestFootprint(t *testing.T) {
	raced.Skip(t)
	const (
		connections = 100
		most        = 1 << 10
	)
	now := time.Now()
	clients := make([]*h2.Client, connections)
	for i := range clients {
		clients[i], _ = pair(t, budget(t, 1<<30), func(w http.ResponseWriter, _ *http.Request) {
			now = now.Add(time.Second)
			w.Header().Set("Date", now.UTC().Format(http.TimeFormat))
		})
		_ = get(t, clients[i]).Body.Close()
	}
	before := heap.Live()
	for _, client := range clients {
		for number := range 100 {
			r := request(t, t.Context(), http.MethodPost, nil)
			r.Header.Set("Connect-Timeout-Ms", strconv.Itoa(10_000-number))
			answer, err := client.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = answer.Body.Close()
		}
	}
	each := (heap.Live() - before) / connections
	t.Logf("%d bytes more", each)
	if each > most {
		t.Errorf("a connection has %d bytes more after a hundred requests than after one, want at most %d", each, most)
	}
	runtime.KeepAlive(clients)
}
