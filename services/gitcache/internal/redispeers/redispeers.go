// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package redispeers knows the live replicas by a heartbeat in Redis.
package redispeers

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// beatLua takes KEYS replicas and ARGV self, ttl in ms. It goes by the server's clock, so that
// replicas need not agree.
const beatLua = `
local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - tonumber(ARGV[2]))
redis.call('ZADD', KEYS[1], now, ARGV[1])
return redis.call('ZRANGE', KEYS[1], 0, -1)
`

const leaveTimeout = time.Second

// Peers is this replica's entry among all of them.
type Peers struct {
	client redis.UniversalClient
	key    string
	self   string
	ttl    time.Duration
	logger *slog.Logger
	script *redis.Script
	live   atomic.Pointer[[]string]
}

var _ mirror.Peers = (*Peers)(nil)

// Params are who beats, and where. All are required.
type Params struct {
	Client redis.UniversalClient
	Prefix string
	Self   string
	TTL    time.Duration // how long a replica counts as live after its last heartbeat
	Logger *slog.Logger
}

// New returns peers that know of this replica only, until [Peers.Run] has beaten once.
func New(p Params) *Peers {
	return &Peers{
		client: p.Client, key: p.Prefix + "replicas", self: p.Self, ttl: p.TTL, logger: p.Logger,
		script: redis.NewScript(beatLua),
	}
}

// Members implements [mirror.Peers]. While Redis does not answer they are the members of the last
// heartbeat.
func (p *Peers) Members() []string {
	if live := p.live.Load(); live != nil {
		return *live
	}
	return []string{p.self}
}

// Run beats until ctx is done, and then leaves. It returns nil.
func (p *Peers) Run(ctx context.Context) error {
	defer p.leave(context.WithoutCancel(ctx))
	for {
		if err := p.Beat(ctx); err != nil && ctx.Err() == nil {
			p.logger.DebugContext(ctx, "heartbeat not recorded", slog.Any("error", err))
		}
		if backoff.Wait(ctx, backoff.Jitter(p.ttl/3, 0.1)) != nil {
			return nil
		}
	}
}

// Beat records one heartbeat and learns who else is alive.
func (p *Peers) Beat(ctx context.Context) error {
	live, err := p.script.Run(ctx, p.client, []string{p.key}, p.self, p.ttl.Milliseconds()).StringSlice()
	if err != nil {
		return fmt.Errorf("record heartbeat: %w", err)
	}
	p.live.Store(&live)
	return nil
}

func (p *Peers) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	_ = p.client.ZRem(ctx, p.key, p.self).Err() // it expires anyway
}
