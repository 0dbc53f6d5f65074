// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package redisroute

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leatdev/leat/internal/kit/lease"
	"github.com/leatdev/leat/internal/kit/lease/leaseredis"
	"github.com/leatdev/leat/services/tunnel/internal/receptive"
)

// groupKey is the sorted set of the replicas that dial agents, by the time in milliseconds until
// which each counts.
const groupKey = Prefix + "dialling"

// beatLua takes KEYS group and ARGV replica, age in ms. It returns the replicas that count.
const beatLua = liveLua + `
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[2]), ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return redis.call('ZRANGE', KEYS[1], 0, -1)
`

// Group is the replicas that dial agents. A replica that drains leaves it long before it ceases to
// be one for routes.
type Group struct {
	client redis.UniversalClient
	age    time.Duration
	beat   *redis.Script
}

var _ receptive.Group = (*Group)(nil)

// Group returns the group of the store's replicas, in which each counts for that long after a sign
// of life.
func (s *Store) Group(age time.Duration) *Group {
	return &Group{client: s.client, age: age, beat: redis.NewScript(beatLua)}
}

// Beat implements [receptive.Group].
func (g *Group) Beat(ctx context.Context, replica string) ([]string, error) {
	replicas, err := g.beat.Run(ctx, g.client, []string{groupKey}, replica, g.age.Milliseconds()).StringSlice()
	if err != nil {
		return nil, fmt.Errorf("beat: %w", err)
	}
	return replicas, nil
}

// Part implements [receptive.Group].
func (g *Group) Part(ctx context.Context, replica string) error {
	if err := g.client.ZRem(ctx, groupKey, replica).Err(); err != nil {
		return fmt.Errorf("part: %w", err)
	}
	return nil
}

// Leases returns the store of the leases by which replicas agree on who dials.
func (s *Store) Leases() lease.Store { return leaseredis.New(s.client, Prefix) }
