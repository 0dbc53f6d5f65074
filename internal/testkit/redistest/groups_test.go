// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package redistest_test

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/leatdev/leat/internal/testkit/redistest"
)

func TestSentinelFailsOver(t *testing.T) {
	t.Parallel()
	group := redistest.Sentinel(t)
	options, err := redis.ParseFailoverURL(strings.Replace(group.URL(), "redis+sentinel:", "redis:", 1))
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewFailoverClient(options)
	defer client.Close()
	if err := client.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatalf("set: %v", err)
	}
	if n, err := client.Wait(t.Context(), 2, 0).Result(); err != nil || n != 2 {
		t.Fatalf("wait for replicas: got %d, %v, want 2", n, err)
	}
	group.KillMaster(t)
	if got, err := client.Get(t.Context(), "k").Result(); err != nil || got != "v" {
		t.Errorf("get after the fail-over: got %q, %v, want v", got, err)
	}
}

func TestClusterFailsOver(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t)
	for _, key := range []string{"a", "b", "c"} { // in three slots
		if err := cluster.Client(t).Set(t.Context(), key, key, 0).Err(); err != nil {
			t.Errorf("set %s: %v", key, err)
		}
	}
	cluster.KillMasterOf(t, "a")
	if err := cluster.Client(t).Set(t.Context(), "a", "after", 0).Err(); err != nil {
		t.Errorf("set after the fail-over: %v", err)
	}
}
