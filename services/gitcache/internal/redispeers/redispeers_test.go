// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package redispeers_test

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/testkit/redistest"
	"github.com/leatdev/leat/services/gitcache/internal/redispeers"
)

func TestPeers(t *testing.T) {
	t.Parallel()
	server := redistest.StartAs(t, "gitcache")
	join := func(name string) *redispeers.Peers {
		return redispeers.New(redispeers.Params{
			Client: server.Client(t), Prefix: "leat:{gitcache}:test:", Self: name, TTL: time.Minute, Logger: slog.New(slog.DiscardHandler),
		})
	}
	a, b := join("a"), join("b")
	if got := a.Members(); !slices.Equal(got, []string{"a"}) {
		t.Errorf("got %v before the first heartbeat, want this replica only", got)
	}
	for _, p := range []*redispeers.Peers{a, b, a} {
		if err := p.Beat(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"a", "b"}; !sameMembers(a, want) || !sameMembers(b, want) {
		t.Errorf("got %v and %v, want %v", a.Members(), b.Members(), want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Run(ctx); err != nil { // leaves at once
		t.Fatal(err)
	}
	if err := a.Beat(t.Context()); err != nil || !sameMembers(a, []string{"a"}) {
		t.Errorf("got %v (%v) after one left, want the other", a.Members(), err)
	}
	server.Stop(t)
	if err := a.Beat(t.Context()); err == nil || !sameMembers(a, []string{"a"}) {
		t.Errorf("got %v (%v) without redis, want an error and the last members", a.Members(), err)
	}
}

func sameMembers(p *redispeers.Peers, want []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(p.Members())), want)
}
