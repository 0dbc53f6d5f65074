// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package redisdeliveries lets all replicas know which webhooks one of them has taken, so that none
// is taken twice.
package redisdeliveries

import (
	"context"
	"crypto/rand"
	"errors"
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

// Remember keeps an id for the time keep. False: another call has kept it. The error matches
// mirror.ErrDependency.
//
// A call whose answer is lost is sent again by the client, and then finds its own mark: each call has
// one of its own, or a delivery that came while Redis was slow would be taken for a repetition.
func (d *Deliveries) Remember(ctx context.Context, id string, keep time.Duration) (bool, error) {
	mark := rand.Text()
	fresh, err := d.client.SetNX(ctx, d.prefix+id, mark, keep).Result()
	if err == nil && !fresh {
		var kept string
		kept, err = d.client.Get(ctx, d.prefix+id).Result()
		fresh = kept == mark || errors.Is(err, redis.Nil) // its time was over meanwhile
		if fresh {
			err = nil
		}
	}
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
