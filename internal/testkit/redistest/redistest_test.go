// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package redistest_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leatdev/leat/internal/testkit/redistest"
)

func TestServerLifecycle(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t)
	ctx := t.Context()
	if err := client.Set(ctx, "k", "v", 0).Err(); err != nil {
		t.Fatalf("set: %v", err)
	}

	server.Pause(t)
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	if err := client.Get(short, "k").Err(); err == nil {
		t.Error("get from a paused server: got an answer, want none")
	}
	server.Resume(t)
	if got, err := client.Get(ctx, "k").Result(); err != nil || got != "v" {
		t.Errorf("get after resume: got %q, %v, want %q", got, err, "v")
	}

	for name, end := range map[string]func(testing.TB){"stop": server.Stop, "kill": server.Kill} {
		end(t)
		end(t)
		if err := client.Ping(ctx).Err(); err == nil {
			t.Errorf("ping after %s: got an answer, want an error", name)
		}
		server.Restart(t)
		if n, err := server.Client(t).DBSize(ctx).Result(); err != nil || n != 0 {
			t.Errorf("keys after %s and restart: got %d, %v, want 0", name, n, err)
		}
	}
	server.Pause(t) // the cleanup has to end a frozen process
}

func TestURLsAreAccepted(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{
		"real": redistest.Start(t).URL(),
		"mini": redistest.Mini(t).URL(),
	} {
		options, err := redis.ParseURL(url)
		if err != nil {
			t.Errorf("%s: parse %q: %v", name, url, err)
			continue
		}
		client := redis.NewClient(options)
		if err := client.Ping(t.Context()).Err(); err != nil {
			t.Errorf("%s: ping %q: %v", name, url, err)
		}
		_ = client.Close()
	}
}
