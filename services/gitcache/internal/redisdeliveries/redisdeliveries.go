// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package redisdeliveries lets all replicas know which webhooks one of them has taken, so that none
// is taken twice.
package redisdeliveries

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// Deliveries are the deliveries that were taken lately. Its methods may be called concurrently.
type Deliveries struct {
	client redis.UniversalClient
	prefix string
}

// New returns the deliveries below a prefix of keys.
func New(client redis.UniversalClient, prefix string) *Deliveries {
	return &Deliveries{client: client, prefix: prefix + "delivery:"}
}

// Remember keeps an id for the time keep. False: it is kept already. The error matches
// mirror.ErrDependency.
func (d *Deliveries) Remember(ctx context.Context, id string, keep time.Duration) (bool, error) {
	fresh, err := d.client.SetNX(ctx, d.prefix+id, 1, keep).Result()
	if err != nil {
		return false, fmt.Errorf("remember delivery: %w: %w", mirror.ErrDependency, err)
	}
	return fresh, nil
}

// Forget lets an id count as new again. The error matches mirror.ErrDependency.
func (d *Deliveries) Forget(ctx context.Context, id string) error {
	if err := d.client.Del(ctx, d.prefix+id).Err(); err != nil {
		return fmt.Errorf("forget delivery: %w: %w", mirror.ErrDependency, err)
	}
	return nil
}
