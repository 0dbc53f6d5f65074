// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package redisevents_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leatdev/leat/internal/kit/lease"
	"github.com/leatdev/leat/internal/kit/lease/leaseredis"
	"github.com/leatdev/leat/internal/testkit/redistest"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/redisevents"
)

const prefix = "leat:{gitcache}:test:"

// everywhere runs a test on a real Redis and on the one that "leat up" embeds.
func everywhere(t *testing.T, test func(t *testing.T, client *redis.Client)) {
	t.Helper()
	t.Run("redis", func(t *testing.T) { t.Parallel(); test(t, redistest.StartAs(t, "gitcache").Client(t)) })
	t.Run("miniredis", func(t *testing.T) { t.Parallel(); test(t, redistest.Mini(t).Client(t)) })
}

func event(epoch, sequence uint64) mirror.Event {
	return mirror.Event{Repository: "demo", UID: "uid-1", Epoch: epoch, Sequence: sequence, Changed: []string{"refs/heads/main"}}
}

func add(t *testing.T, log *redisevents.Log, e mirror.Event) {
	t.Helper()
	if err := log.Append(t.Context(), e); err != nil {
		t.Fatal(err)
	}
}

func start(t *testing.T, log *redisevents.Log) string {
	t.Helper()
	_, token, err := log.States(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestEventsArriveInOrder(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, client *redis.Client) {
		log := open(t, redisevents.Config{Client: client, Prefix: prefix})
		token := start(t, log)
		for sequence := range uint64(3) {
			add(t, log, event(1, sequence+1))
		}
		got, err := log.Read(t.Context(), token)
		if err != nil || len(got) != 3 {
			t.Fatalf("got %v (%v), want three events", got, err)
		}
		for i, logged := range got {
			if logged.Event.Sequence != uint64(i+1) || len(logged.Event.Changed) != 1 {
				t.Errorf("got %+v at place %d", logged.Event, i)
			}
		}
		rest, err := log.Read(t.Context(), got[0].Token)
		if err != nil || len(rest) != 2 {
			t.Errorf("got %v (%v) after the first token, want two events", rest, err)
		}
		states, again, err := log.States(t.Context())
		if err != nil || len(states) != 1 || states[0].Sequence != 3 || again != got[2].Token {
			t.Errorf("got states %v at %s (%v), want the last event at %s", states, again, err, got[2].Token)
		}
		ctx, cancel := context.WithCancel(t.Context())
		client.AddHook(onRead{cancel})
		if none, err := log.Read(ctx, again); err != nil || len(none) != 0 {
			t.Errorf("got %v (%v) with nothing new, want nothing", none, err)
		}
		add(t, log, mirror.Event{Repository: "demo", UID: "uid-1", Deleted: true})
		if states, _, err := log.States(t.Context()); err != nil || len(states) != 0 {
			t.Errorf("got states %v (%v) after a deletion, want none", states, err)
		}
	})
}

// onRead is called when events are asked for.
type onRead struct{ call func() }

// DialHook implements redis.Hook.
func (onRead) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessPipelineHook implements redis.Hook.
func (onRead) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ProcessHook implements redis.Hook.
func (o onRead) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		if command.Name() == "xread" {
			o.call()
		}
		return next(ctx, command)
	}
}

func TestReadWaits(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, client *redis.Client) {
		log := open(t, redisevents.Config{Client: client, Prefix: prefix})
		token := start(t, log)
		got := make(chan []mirror.Logged, 1)
		go func() {
			logged, err := log.Read(t.Context(), token)
			if err != nil {
				t.Error(err)
			}
			got <- logged
		}()
		add(t, log, event(1, 1))
		if logged := <-got; len(logged) != 1 {
			t.Errorf("got %v, want the event that came while waiting", logged)
		}
	})
}

func TestStaleEpochIsRefused(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, client *redis.Client) {
		log, leases := open(t, redisevents.Config{Client: client, Prefix: prefix}), leaseredis.New(client, prefix)
		frozen, err := leases.Acquire(t.Context(), lease.AcquireParams{Key: "uid-1", Owner: "frozen", TTL: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		add(t, log, event(frozen.Epoch, 1))
		if err := leases.Release(t.Context(), frozen); err != nil {
			t.Fatal(err)
		}
		newer, err := leases.Acquire(t.Context(), lease.AcquireParams{Key: "uid-1", Owner: "newer", TTL: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		// The newer owner has not said a word yet; its lease alone shuts the older one out.
		token := start(t, log)
		if err := log.Append(t.Context(), event(frozen.Epoch, 2)); !errors.Is(err, mirror.ErrEpochStale) {
			t.Errorf("got %v for a stale epoch, want ErrEpochStale", err)
		}
		add(t, log, event(newer.Epoch, 1))
		got, err := log.Read(t.Context(), token)
		if err != nil || len(got) != 1 || got[0].Event.Epoch != newer.Epoch {
			t.Errorf("got %v (%v), want the newer owner's event only", got, err)
		}
	})
}

func TestTokensExpire(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, client *redis.Client) {
		log := open(t, redisevents.Config{Client: client, Prefix: prefix, MaxLen: 2})
		token := start(t, log)
		for sequence := range uint64(3) {
			add(t, log, event(1, sequence+1))
		}
		wantExpired(t, log, token)
		latest := start(t, log)
		for _, bad := range []string{"", "nonsense", latest + "7"} {
			wantExpired(t, log, bad)
		}
		// These are all keys of this package. The Redis user may not flush.
		if err := client.Del(t.Context(), prefix+"events", prefix+"events:meta", prefix+"states", leaseredis.EpochKey(prefix, "uid-1")).Err(); err != nil {
			t.Fatal(err)
		}
		wantExpired(t, log, latest)
		for sequence := range uint64(4) {
			add(t, log, event(1, sequence+1))
		}
		wantExpired(t, log, latest) // the same number, of another life
	})
}

func wantExpired(t *testing.T, log *redisevents.Log, token string) {
	t.Helper()
	if got, err := log.Read(t.Context(), token); !errors.Is(err, mirror.ErrResumeExpired) {
		t.Errorf("got %v (%v) for token %q, want ErrResumeExpired", got, err, token)
	}
}

// TestFailOverLosesAnEvent promotes a replica that has not heard of the last event. Another one
// then takes its number: a reader of the lost one must begin again, or it would never see that.
func TestFailOverLosesAnEvent(t *testing.T) {
	t.Parallel()
	primary := redistest.Start(t)
	replica := redistest.StartReplica(t, primary)
	before := open(t, redisevents.Config{Client: primary.Client(t), Prefix: prefix})
	after := open(t, redisevents.Config{Client: replica.Client(t), Prefix: prefix})
	add(t, before, event(1, 1))
	if err := primary.Client(t).Do(t.Context(), "WAIT", 1, 0).Err(); err != nil {
		t.Fatal(err)
	}
	replica.Promote(t)
	add(t, before, event(1, 2))
	token := start(t, before)
	add(t, after, event(2, 1))
	wantExpired(t, after, token)
	if states, _, err := after.States(t.Context()); err != nil || len(states) != 1 || states[0].Epoch != 2 {
		t.Errorf("got states %v (%v), want that of epoch 2", states, err)
	}
}

// TestTokenOfANewPrimary starts to read between a fail-over and the new primary's first event, and
// wants that event.
func TestTokenOfANewPrimary(t *testing.T) {
	t.Parallel()
	primary := redistest.Start(t)
	replica := redistest.StartReplica(t, primary)
	add(t, open(t, redisevents.Config{Client: primary.Client(t), Prefix: prefix}), event(1, 1))
	if err := primary.Client(t).Do(t.Context(), "WAIT", 1, 0).Err(); err != nil {
		t.Fatal(err)
	}
	replica.Promote(t)
	log := open(t, redisevents.Config{Client: replica.Client(t), Prefix: prefix})
	token := start(t, log)
	add(t, log, event(2, 1))
	if got, err := log.Read(t.Context(), token); err != nil || len(got) != 1 || got[0].Event.Epoch != 2 {
		t.Errorf("got %v (%v), want the event of epoch 2", got, err)
	}
}

func TestRedisDown(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	log := open(t, redisevents.Config{Client: server.Client(t), Prefix: prefix})
	token := start(t, log)
	server.Stop(t)
	_, _, states := log.States(t.Context())
	_, read := log.Read(t.Context(), token)
	for _, err := range []error{states, read, log.Append(t.Context(), event(1, 1))} {
		if !errors.Is(err, mirror.ErrDependency) {
			t.Errorf("got %v without redis, want ErrDependency", err)
		}
	}
}

func open(t *testing.T, cfg redisevents.Config) *redisevents.Log {
	t.Helper()
	cfg.Secret = []byte("the secret that signs what these tests write")
	log, err := redisevents.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// TestSecForgedEventsAreNotBelieved adds an event and a state as an attacker who may write to
// Redis.
func TestSecForgedEventsAreNotBelieved(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client(t)
	log := open(t, redisevents.Config{Client: client, Prefix: prefix})
	add(t, log, event(1, 1))
	states, token, err := log.States(t.Context())
	if err != nil || len(states) != 1 {
		t.Fatalf("got %v, %v", states, err)
	}
	forged := "AAAA " + `{"Repository":"forged","UID":"uid-forged","Epoch":99}`
	for _, command := range [][]any{
		{"HSET", prefix + "states", "forged", forged},
		{"HINCRBY", prefix + "events:meta", "counter", 1},
		{"XADD", prefix + "events", "2-0", "event", forged},
	} {
		if err := client.Do(t.Context(), command...).Err(); err != nil {
			t.Fatalf("%v: %v", command, err)
		}
	}
	if got, _, err := log.States(t.Context()); err != nil || len(got) != 1 || got[0].Repository != states[0].Repository {
		t.Errorf("states: got %v, %v, want the genuine one alone", got, err)
	}
	if got, err := log.Read(t.Context(), token); !errors.Is(err, mirror.ErrResumeExpired) {
		t.Errorf("events: got %v, %v, want readers to start again", got, err)
	}
}
