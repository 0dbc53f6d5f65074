// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package redisroute_test

import (
	"strings"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/testkit/redistest"
	"github.com/leatdev/leat/services/tunnel/internal/redisroute"
	"github.com/leatdev/leat/services/tunnel/internal/relay"
)

// TestSecretIsReplaced carries the tunnel's secret over in three steps, with a replica of the step
// before and one of the step after at each. Each finds the routes of both; without the middle
// steps neither would.
func TestSecretIsReplaced(t *testing.T) {
	t.Parallel()
	server := redistest.StartAs(t, "tunnel")
	store := func(letters string) *redisroute.Store {
		t.Helper()
		var secrets [][]byte
		for letter := range strings.SplitSeq(letters, "") {
			secrets = append(secrets, []byte(strings.Repeat(letter, 32)))
		}
		s, err := redisroute.New(server.Client(t), redisroute.Ages{Route: time.Minute, Liveness: time.Minute}, secrets[0], secrets[1:]...)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for _, step := range []struct {
		before, after string
		want          int // routes that each of the two finds
	}{
		{"s", "sn", 2},
		{"sn", "ns", 2},
		{"ns", "n", 2},
		{"s", "n", 1},
	} {
		stores := []*redisroute.Store{store(step.before), store(step.after)}
		cluster := "cluster-" + step.before + "-" + step.after
		for i, s := range stores {
			replica := relay.Replica{ID: cluster + string(rune('a'+i)), URL: "http://replica"}
			if _, err := s.Renew(t.Context(), replica); err != nil {
				t.Fatal(err)
			}
			route := relay.Route{ID: replica.ID + "-route", Cluster: cluster, ClusterUID: "u", Connection: "c", Replica: replica}
			if _, err := s.Publish(t.Context(), []relay.Route{route}); err != nil {
				t.Fatal(err)
			}
		}
		for i, s := range stores {
			if routes, err := s.Lookup(t.Context(), cluster); err != nil || len(routes) != step.want {
				t.Errorf("%s to %s: replica %d finds %d routes, %v, want %d", step.before, step.after, i, len(routes), err, step.want)
			}
		}
	}
}
