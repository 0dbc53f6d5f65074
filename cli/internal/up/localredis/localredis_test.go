// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package localredis_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leatdev/leat/cli/internal/up/localredis"
	"github.com/leatdev/leat/internal/testkit/await"
)

// A lease must expire when its holder is gone, in real time and without help.
func TestKeysExpire(t *testing.T) {
	t.Parallel()
	server, err := localredis.Start()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	options, err := redis.ParseURL(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })

	for key, lifetime := range map[string]time.Duration{"lease": 50 * time.Millisecond, "long": time.Hour} {
		if err := client.Set(ctx, key, "me", lifetime).Err(); err != nil {
			t.Fatal(err)
		}
	}
	await.True(t, "the lease to expire", func() bool {
		err := client.Get(ctx, "lease").Err()
		if err != nil && !errors.Is(err, redis.Nil) {
			t.Fatal(err)
		}
		return err != nil
	})
	if left, err := client.PTTL(ctx, "long").Result(); err != nil || left < 30*time.Minute || left >= time.Hour {
		t.Errorf("the other key: got %s left, %v, want a bit less than an hour", left, err)
	}
}

func TestRefusesStrangers(t *testing.T) {
	t.Parallel()
	server, err := localredis.Start()
	if err != nil {
		t.Fatal(err)
	}
	options, err := redis.ParseURL(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	options.Password = ""
	options.Username = ""
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	if err := client.Get(t.Context(), "lease").Err(); err == nil || errors.Is(err, redis.Nil) {
		t.Errorf("without the password: got error %v, want a refusal", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := server.Run(ctx); err != nil {
		t.Errorf("Run: %v", err)
	}
}
