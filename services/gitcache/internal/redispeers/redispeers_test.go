// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package redispeers_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/testkit/redistest"
	"github.com/leatdev/leat/services/gitcache/internal/redispeers"
)

func TestPeers(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	join := func(name string) *redispeers.Peers {
		return redispeers.New(redispeers.Params{
			Client: server.Client(t), Prefix: "test:", Self: name, TTL: time.Minute, Logger: slog.New(slog.DiscardHandler),
		})
	}
	a, b := join("a"), join("b")
	if got := a.Live(); got != 1 {
		t.Errorf("got %d before the first heartbeat, want 1", got)
	}
	for _, p := range []*redispeers.Peers{a, b, a} {
		if err := p.Beat(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if a.Live() != 2 || b.Live() != 2 {
		t.Errorf("got %d and %d, want 2", a.Live(), b.Live())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Run(ctx); err != nil { // leaves at once
		t.Fatal(err)
	}
	if err := a.Beat(t.Context()); err != nil || a.Live() != 1 {
		t.Errorf("got %d (%v) after one left, want 1", a.Live(), err)
	}
	server.Stop(t)
	if err := a.Beat(t.Context()); err == nil || a.Live() != 1 {
		t.Errorf("got %d (%v) without redis, want an error and the last count", a.Live(), err)
	}
}
