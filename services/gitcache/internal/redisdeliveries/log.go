// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package redisdeliveries

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/leatdev/leat/services/gitcache/internal/hooklog"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// Log keeps the newest deliveries about each repository, for all replicas. Its methods may be called
// concurrently.
type Log struct {
	client redis.UniversalClient
	prefix string
}

// NewLog returns the log below a prefix of keys.
func NewLog(client redis.UniversalClient, prefix string) *Log {
	return &Log{client: client, prefix: prefix + "hooks:"}
}

// Record keeps a delivery about the repository of that uid, and forgets the oldest ones of its half.
// The error matches mirror.ErrDependency.
func (l *Log) Record(ctx context.Context, uid string, record hooklog.Record) error {
	text, err := json.Marshal(record)
	if err != nil {
		return fmt.Errorf("encode delivery: %w", err)
	}
	accepted, others := l.keys(uid)
	key := others
	if record.Outcome == hooklog.Accepted {
		key = accepted
	}
	var excess *redis.StringSliceCmd
	_, err = l.client.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.ZAdd(ctx, key, redis.Z{Score: float64(record.Time.UnixMicro()), Member: text})
		p.PExpire(ctx, key, hooklog.Life)
		excess = p.ZRange(ctx, key, 0, -hooklog.Kept-1) // the oldest ones
		return nil
	})
	if err == nil && len(excess.Val()) > 0 {
		err = l.client.ZRem(ctx, key, excess.Val()).Err()
	}
	if err != nil {
		return fmt.Errorf("record delivery: %w: %w", mirror.ErrDependency, err)
	}
	return nil
}

// Latest returns what is kept about the repository of that uid, the newest first. A record that
// cannot be read, as of a later version, is left out. The error matches mirror.ErrDependency.
func (l *Log) Latest(ctx context.Context, uid string) ([]hooklog.Record, error) {
	var halves [][]hooklog.Record
	accepted, others := l.keys(uid)
	for _, key := range []string{accepted, others} {
		texts, err := l.client.ZRange(ctx, key, -hooklog.Kept, -1).Result()
		if err != nil {
			return nil, fmt.Errorf("list deliveries: %w: %w", mirror.ErrDependency, err)
		}
		var half []hooklog.Record
		for _, text := range texts {
			var record hooklog.Record
			if json.Unmarshal([]byte(text), &record) == nil {
				half = append(half, record)
			}
		}
		halves = append(halves, half)
	}
	return hooklog.Merge(halves...), nil
}

func (l *Log) keys(uid string) (accepted, others string) {
	return l.prefix + uid + ":accepted", l.prefix + uid + ":others"
}
