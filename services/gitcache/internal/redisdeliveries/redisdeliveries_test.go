// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package redisdeliveries_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/leatdev/leat/internal/testkit/redistest"
	"github.com/leatdev/leat/services/gitcache/internal/hooklog"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/redisdeliveries"
)

func TestDeliveriesAreTakenOnce(t *testing.T) {
	t.Parallel()
	server := redistest.StartAs(t, "gitcache")
	a, b := redisdeliveries.New(server.Client(t), "leat:{gitcache}:test:"), redisdeliveries.New(server.Client(t), "leat:{gitcache}:test:")
	remember := func(d *redisdeliveries.Deliveries, id string, want bool) {
		t.Helper()
		if got, err := d.Remember(t.Context(), id, time.Hour); got != want || err != nil {
			t.Errorf("%s: got %t (%v), want %t", id, got, err, want)
		}
	}
	remember(a, "1", true)
	remember(b, "1", false)
	remember(b, "2", true)
	if err := b.Forget(t.Context(), "1"); err != nil {
		t.Fatal(err)
	}
	remember(a, "1", true)
	client := server.Admin(t)
	keys, err := client.Keys(t.Context(), "leat:{gitcache}:test:*").Result()
	if err != nil || len(keys) != 2 {
		t.Fatalf("got keys %v (%v), want two", keys, err)
	}
	for _, key := range keys {
		if left := client.TTL(t.Context(), key).Val(); left <= 0 || left > time.Hour {
			t.Errorf("%s lives for %s, want at most an hour", key, left)
		}
	}
	server.Stop(t)
	if _, err := a.Remember(t.Context(), "3", time.Hour); !errors.Is(err, mirror.ErrDependency) {
		t.Errorf("got %v without redis, want ErrDependency", err)
	}
}

// losing is a connection to Redis that loses the answer to the first SET of all of them, which Redis has carried out.
type losing struct {
	net.Conn

	hasLost *atomic.Bool
	isNext  bool
}

// Write implements net.Conn.
func (l *losing) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("\r\nset\r\n")) && l.hasLost.CompareAndSwap(false, true) {
		l.isNext = true
	}
	return l.Conn.Write(p)
}

// Read implements net.Conn.
func (l *losing) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	if l.isNext && err == nil {
		l.isNext = false
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

// TestALostAnswerIsNoRepetition loses the answer of Redis to a call, which the client sends again. The delivery is new
// anyway: nobody has made a fetch for it.
func TestALostAnswerIsNoRepetition(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var hasLost atomic.Bool
	client := redis.NewClient(&redis.Options{
		Addr: server.Addr(), DisableIdentity: true,
		Dialer: func(ctx context.Context, network, address string) (net.Conn, error) {
			connection, err := new(net.Dialer).DialContext(ctx, network, address)
			return &losing{Conn: connection, hasLost: &hasLost}, err
		},
	})
	t.Cleanup(func() { _ = client.Close() })
	d := redisdeliveries.New(client, "test:")
	for _, want := range []bool{true, false} {
		if got, err := d.Remember(t.Context(), "1", time.Hour); got != want || err != nil {
			t.Errorf("got %t (%v), want %t", got, err, want)
		}
	}
	if !hasLost.Load() {
		t.Error("no answer was lost")
	}
}

// TestLogKeepsTheNewest has two replicas record deliveries. Those that made nothing fetch do not push out the others.
func TestLogKeepsTheNewest(t *testing.T) {
	t.Parallel()
	server := redistest.StartAs(t, "gitcache")
	a, b := redisdeliveries.NewLog(server.Client(t), "leat:{gitcache}:test:"), redisdeliveries.NewLog(server.Client(t), "leat:{gitcache}:test:")
	start := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	at := func(second int, outcome hooklog.Outcome) hooklog.Record {
		return hooklog.Record{
			Time: start.Add(time.Duration(second) * time.Second), Provider: "github", Outcome: outcome, Refs: []string{fmt.Sprintf("v%d", second)},
		}
	}
	record := func(log *redisdeliveries.Log, uid string, record hooklog.Record) {
		t.Helper()
		if err := log.Record(t.Context(), uid, record); err != nil {
			t.Fatal(err)
		}
	}
	for second := range 30 {
		record(a, "shop", at(second, hooklog.Accepted))
	}
	for second := 100; second < 200; second++ {
		record(b, "shop", at(second, hooklog.WrongKey))
	}
	record(b, "other", at(0, hooklog.Ping))
	var want []hooklog.Record
	for second := 199; second >= 190; second-- {
		want = append(want, at(second, hooklog.WrongKey))
	}
	for second := 29; second >= 20; second-- {
		want = append(want, at(second, hooklog.Accepted))
	}
	for _, log := range []*redisdeliveries.Log{a, b} {
		got, err := log.Latest(t.Context(), "shop")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("records (-want +got):\n%s", diff)
		}
	}
	if got, err := a.Latest(t.Context(), "nothing"); err != nil || len(got) > 0 {
		t.Errorf("got %v, %v, want no record", got, err)
	}
	client := server.Admin(t)
	keys := client.Keys(t.Context(), "leat:{gitcache}:test:*").Val()
	if len(keys) != 3 {
		t.Errorf("got keys %v, want three", keys)
	}
	for _, key := range keys {
		if left := client.TTL(t.Context(), key).Val(); left <= 0 || left > hooklog.Life {
			t.Errorf("%s lives for %s, want at most %s", key, left, hooklog.Life)
		}
	}
	server.Stop(t)
	if err := a.Record(t.Context(), "shop", at(0, hooklog.Ping)); !errors.Is(err, mirror.ErrDependency) {
		t.Errorf("got %v without redis, want ErrDependency", err)
	}
	if _, err := a.Latest(t.Context(), "shop"); !errors.Is(err, mirror.ErrDependency) {
		t.Errorf("got %v without redis, want ErrDependency", err)
	}
}
