// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/runtime/rpc"
	"github.com/leatdev/leat/internal/runtime/serve"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/internal/testkit/heap"
	"github.com/leatdev/leat/internal/testkit/raced"
)

// TestFootprint measures how much memory agents' connections take after many calls beyond what they take after one, both
// ends together. An agent stays connected for weeks, and each call has a trace, a length and a time of its own.
func TestFootprint(t *testing.T) {
	raced.Skip(t)
	const (
		agents = 200
		most   = 4 << 10
	)
	now := time.Now()
	r := start(t, serve.Config{}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		now = now.Add(time.Second)
		w.Header().Set("Content-Type", "application/proto")
		w.Header().Set("Date", now.UTC().Format(http.TimeFormat))
	}))
	clients := make([]rpc.Client, agents)
	for i := range clients {
		var err error
		if clients[i], err = rpc.NewClient(rpc.ClientParams{BaseURL: "http://" + r.addr, Telemetry: telemetry.Noop(), IsOutside: true}); err != nil {
			t.Fatal(err)
		}
		defer clients[i].HTTP.CloseIdleConnections()
		callAsAgent(t, clients[i], 1)
	}
	before := heap.Live()
	for _, client := range clients {
		callAsAgent(t, client, 100)
	}
	each := (heap.Live() - before) / agents
	t.Logf("%d bytes more", each)
	if each > most {
		t.Errorf("a connection has %d bytes more after a hundred calls than after one, want at most %d", each, most)
	}
}

// callAsAgent makes calls one after the other.
func callAsAgent(t *testing.T, client rpc.Client, calls int) {
	t.Helper()
	for number := range calls {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, client.BaseURL, strings.NewReader(strings.Repeat("r", number)))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{
			"Content-Type": "application/proto", "Connect-Protocol-Version": "1", "Authorization": "Bearer " + strings.Repeat("t", 500),
			"Traceparent": fmt.Sprintf("00-%032d-%016d-01", number, number), "Connect-Timeout-Ms": strconv.Itoa(10_000 - number),
		} {
			request.Header.Set(name, value)
		}
		response, err := client.HTTP.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
	}
}
