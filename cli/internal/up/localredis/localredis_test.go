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

	began := time.Now()
	if err := client.Set(ctx, "lease", "me", 500*time.Millisecond).Err(); err != nil {
		t.Fatal(err)
	}
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for range ticker.C {
		err := client.Get(ctx, "lease").Err()
		if errors.Is(err, redis.Nil) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(began); took < 300*time.Millisecond || took > 10*time.Second {
		t.Errorf("the key lived for %s, want about 500ms", took)
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
