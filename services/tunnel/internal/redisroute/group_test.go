// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package redisroute_test

import (
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leatdev/leat/internal/testkit/redistest"
	"github.com/leatdev/leat/services/tunnel/internal/redisroute"
)

func TestGroup(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t)
	group := newStore(t, client, redisroute.Ages{Route: time.Minute, Liveness: time.Minute}).Group(time.Minute)
	want := func(replica string, members ...string) {
		t.Helper()
		got, err := group.Beat(t.Context(), replica)
		slices.Sort(got)
		if err != nil || !slices.Equal(got, members) {
			t.Errorf("got %v, %v, want %v", got, err, members)
		}
	}
	want("a", "a")
	want("b", "a", "b")
	if err := client.ZAdd(t.Context(), redisroute.Prefix+"dialling", redis.Z{Score: 1, Member: "long gone"}).Err(); err != nil {
		t.Fatal(err)
	}
	want("b", "a", "b")
	if err := group.Part(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	want("b", "b")
}
