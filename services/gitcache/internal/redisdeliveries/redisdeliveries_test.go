// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package redisdeliveries_test

import (
	"errors"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/testkit/redistest"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/redisdeliveries"
)

func TestDeliveriesAreTakenOnce(t *testing.T) {
	t.Parallel()
	server := redistest.StartAs(t, "gitcache")
	a, b := redisdeliveries.New(server.Client(t), "leat:{gitcache}:test:"), redisdeliveries.New(server.Client(t), "leat:{gitcache}:test:")
	remember := func(d *redisdeliveries.Deliveries, id string, want bool) {
		t.Helper()
		if got, err := d.Remember(t.Context(), id, time.Hour); got != want || err != nil {
			t.Errorf("%s: got %t (%v), want %t", id, got, err, want)
		}
	}
	remember(a, "1", true)
	remember(b, "1", false)
	remember(b, "2", true)
	if err := b.Forget(t.Context(), "1"); err != nil {
		t.Fatal(err)
	}
	remember(a, "1", true)
	client := server.Admin(t)
	keys, err := client.Keys(t.Context(), "leat:{gitcache}:test:*").Result()
	if err != nil || len(keys) != 2 {
		t.Fatalf("got keys %v (%v), want two", keys, err)
	}
	for _, key := range keys {
		if left := client.TTL(t.Context(), key).Val(); left <= 0 || left > time.Hour {
			t.Errorf("%s lives for %s, want at most an hour", key, left)
		}
	}
	server.Stop(t)
	if _, err := a.Remember(t.Context(), "3", time.Hour); !errors.Is(err, mirror.ErrDependency) {
		t.Errorf("got %v without redis, want ErrDependency", err)
	}
}
