// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package redisregistry_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leatdev/leat/internal/kit/seal"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/redisregistry"
)

// outage is a Redis without sockets, so that time can be virtual: it is away, or holds an empty
// hash.
type outage struct {
	mu    sync.Mutex
	ended bool
	tries []time.Time // readings of the hash
}

var errAway = errors.New("redis is away")

// DialHook implements redis.Hook. The subscription to changes never connects.
func (*outage) DialHook(redis.DialHook) redis.DialHook {
	return func(context.Context, string, string) (net.Conn, error) { return nil, errAway }
}

// ProcessHook implements redis.Hook.
func (*outage) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(context.Context, redis.Cmder) error { return errAway }
}

// ProcessPipelineHook implements redis.Hook.
func (o *outage) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, commands []redis.Cmder) error {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.tries = append(o.tries, time.Now())
		if !o.ended {
			return errAway
		}
		for _, command := range commands {
			switch c := command.(type) {
			case *redis.StringCmd:
				c.SetVal("generation")
			case *redis.MapStringStringCmd:
				c.SetVal(map[string]string{})
			}
		}
		return nil
	}
}

// since returns how many readings there were after a time.
func (o *outage) since(began time.Time) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for _, at := range o.tries {
		if at.After(began) {
			n++
		}
	}
	return n
}

// end lets Redis answer.
func (o *outage) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
}

// TestFirstTriesComeQuickly starts a replica before its Redis. It asks several times within the
// first seconds, is ready at most five seconds after Redis is there, however long that took, and
// then reads as seldom as usual.
func TestFirstTriesComeQuickly(t *testing.T) {
	t.Parallel()
	for _, away := range []time.Duration{2 * time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			key, err := seal.NewKey([]byte(strings.Repeat("s", seal.MinSecret)))
			if err != nil {
				t.Fatal(err)
			}
			sealer, err := seal.NewKeyring(key).Sealer("test")
			if err != nil {
				t.Fatal(err)
			}
			server := &outage{}
			client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
			client.AddHook(server)
			registry := redisregistry.New(redisregistry.Params{
				Client: client, Prefix: "test:", Sealer: sealer, Path: filepath.Join(t.TempDir(), "copy.json"), Logger: slog.New(slog.DiscardHandler),
			})
			if err := registry.Start(t.Context(), func([]mirror.Definition) {}); err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() { _ = registry.Run(ctx) })
			began := time.Now()
			<-time.After(2 * time.Second)
			if tries := server.since(began); tries < 3 {
				t.Errorf("got %d tries in the first 2s, want 3 or more", tries)
			}
			<-time.After(away - 2*time.Second)
			server.end()
			<-time.After(5*time.Second + time.Millisecond)
			if err := registry.Loaded(t.Context()); err != nil {
				t.Errorf("5s after redis came, which was away for %v: got %v, want ready", away, err)
			}
			settled := time.Now()
			<-time.After(15 * time.Second)
			if tries := server.since(settled); tries > 0 {
				t.Errorf("got %d readings in 15s, want none: a reading that succeeds is followed by the usual wait", tries)
			}
			stop()
			running.Wait()
			if err := client.Close(); err != nil {
				t.Error(err)
			}
			<-time.After(time.Second) // the client's goroutines notice
		})
	}
}
