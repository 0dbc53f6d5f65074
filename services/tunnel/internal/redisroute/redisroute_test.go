// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package redisroute_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leatdev/leat/internal/testkit/redistest"
	"github.com/leatdev/leat/services/tunnel/internal/redisroute"
	"github.com/leatdev/leat/services/tunnel/internal/relay"
	"github.com/leatdev/leat/services/tunnel/internal/relaytest"
)

func TestRedisConforms(t *testing.T) {
	t.Parallel()
	server := redistest.StartAs(t, "tunnel")
	relaytest.Conform(t, func(t *testing.T) relaytest.Subject {
		t.Helper()
		return subject(t, server.Client(t), server.Admin(t))
	})
}

func TestMiniredisConforms(t *testing.T) {
	t.Parallel()
	server := redistest.Mini(t)
	relaytest.Conform(t, func(t *testing.T) relaytest.Subject {
		t.Helper()
		return subject(t, server.Client(t), server.Client(t))
	})
}

func TestMemoryConforms(t *testing.T) {
	t.Parallel()
	relaytest.Conform(t, func(t *testing.T) relaytest.Subject {
		t.Helper()
		store := relaytest.NewStore()
		return relaytest.Subject{Store: store, Expire: store.Expire, Flush: store.Flush}
	})
}

// subject returns a store in an empty Redis, for the user of client.
func subject(t *testing.T, client, admin *redis.Client) relaytest.Subject {
	t.Helper()
	flush := func() {
		if err := admin.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	flush()
	return relaytest.Subject{
		Store: newStore(t, client, redisroute.Ages{Route: time.Minute, Liveness: 30 * time.Second}),
		Expire: func() { // puts every replica's time into the past
			for _, z := range admin.ZRangeWithScores(t.Context(), redisroute.Prefix+"replicas", 0, -1).Val() {
				z.Score -= 60_000
				if err := admin.ZAdd(t.Context(), redisroute.Prefix+"replicas", z).Err(); err != nil {
					t.Fatal(err)
				}
			}
		},
		Flush: flush,
	}
}

// TestFailOverIsNoticed: a Redis that takes over may never have heard of the last routes, though
// the replica seems to be in good order.
func TestFailOverIsNoticed(t *testing.T) {
	t.Parallel()
	primary := redistest.Start(t)
	store := newStore(t, primary.Client(t), redisroute.Ages{Route: time.Minute, Liveness: time.Minute})
	self := relay.Replica{ID: "a", URL: "http://a"}
	for _, want := range []bool{false, true} {
		if kept, err := store.Renew(t.Context(), self); err != nil || kept != want {
			t.Fatalf("got %v, %v, want %v", kept, err, want)
		}
	}
	standby := redistest.StartReplica(t, primary)
	standby.Promote(t)
	store = newStore(t, standby.Client(t), redisroute.Ages{Route: time.Minute, Liveness: time.Minute})
	for _, want := range []bool{false, true} {
		if kept, err := store.Renew(t.Context(), self); err != nil || kept != want {
			t.Fatalf("after the fail-over: got %v, %v, want %v", kept, err, want)
		}
	}
}

func newStore(t *testing.T, client redis.UniversalClient, ages redisroute.Ages) *redisroute.Store {
	t.Helper()
	store, err := redisroute.New(client, ages, []byte("the secret that signs what these tests write"))
	if err != nil {
		t.Fatal(err)
	}
	return store
}
