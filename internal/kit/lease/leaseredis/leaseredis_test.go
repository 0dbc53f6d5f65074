// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package leaseredis_test

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leatdev/leat/internal/kit/lease"
	"github.com/leatdev/leat/internal/kit/lease/leaseredis"
	"github.com/leatdev/leat/internal/kit/lease/leasetest"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/redistest"
)

const prefix = "leat:test:"

func TestStoreOnRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var stores atomic.Int64
	leasetest.Run(t, func(t *testing.T) leasetest.Subject {
		t.Helper()
		own := prefix + strconv.FormatInt(stores.Add(1), 10) + ":" // one server for all tests, with a prefix for each
		return leasetest.Subject{Store: leaseredis.New(server.Client(t), own)}
	})
}

func TestStoreOnMiniredis(t *testing.T) {
	t.Parallel()
	leasetest.Run(t, func(t *testing.T) leasetest.Subject {
		t.Helper()
		server := redistest.Mini(t)
		return leasetest.Subject{Store: leaseredis.New(server.Client(t), prefix), Advance: server.FastForward}
	})
}

func params(owner string, minEpoch uint64) lease.AcquireParams {
	return lease.AcquireParams{Key: "k", Owner: owner, TTL: time.Minute, MinEpoch: minEpoch}
}

func TestKeysShareTheirSlot(t *testing.T) {
	t.Parallel()
	for _, key := range []string{leaseredis.LeaseKey(prefix, "k"), leaseredis.EpochKey(prefix, "k")} {
		if !strings.HasPrefix(key, prefix) || !strings.HasSuffix(key, "{k}") {
			t.Errorf("key %q: want the prefix %q and the hash tag {k}", key, prefix)
		}
	}
	server := redistest.Mini(t)
	store := leaseredis.New(server.Client(t), prefix)
	if _, err := store.Acquire(t.Context(), params("a", 0)); err != nil {
		t.Fatal(err)
	}
	if got := server.TTL(leaseredis.EpochKey(prefix, "k")); got != 0 {
		t.Errorf("time to live of the epoch: got %s, want none", got)
	}
	if got := server.TTL(leaseredis.LeaseKey(prefix, "k")); got != time.Minute {
		t.Errorf("time to live of the lease: got %s, want 1m", got)
	}
}

func TestFlushAll(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t)
	store := leaseredis.New(client, prefix)
	l, err := store.Acquire(t.Context(), params("a", 99))
	if err != nil {
		t.Fatal(err)
	}
	if err := client.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Renew(t.Context(), l, time.Minute); !errors.Is(err, lease.ErrLost) {
		t.Errorf("renew after FLUSHALL: got %v, want ErrLost", err)
	}
	next, err := store.Acquire(t.Context(), params("a", l.Epoch))
	if err != nil || next.Epoch <= l.Epoch {
		t.Errorf("acquire after FLUSHALL: got %+v, %v, want an epoch above %d", next, err, l.Epoch)
	}
}

// TestForgottenEpochsAreNotGivenAgain empties Redis when no process remembers the last epoch.
func TestForgottenEpochsAreNotGivenAgain(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client(t)
	store := leaseredis.New(client, prefix)
	forgotten, err := store.Acquire(t.Context(), params("a", 0))
	if err != nil {
		t.Fatal(err)
	}
	granted := client.Time(t.Context()).Val()
	await.True(t, "the next millisecond of Redis' clock", func() bool {
		return client.Time(t.Context()).Val().Sub(granted) >= 2*time.Millisecond
	})
	if err := client.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if next, err := store.Acquire(t.Context(), params("b", 0)); err != nil || next.Epoch <= forgotten.Epoch {
		t.Errorf("acquire after FLUSHALL: got %+v, %v, want an epoch above %d", next, err, forgotten.Epoch)
	}
}

// TestFailOverLosesALease promotes a replica that has not received the last lease. Its holder may
// continue until the lease would have ended, so no other owner gets a lease before then, and its
// epoch must be one that the lost lease cannot have had. A lease that the replica has received is
// renewed normally.
func TestFailOverLosesALease(t *testing.T) {
	t.Parallel()
	primary := redistest.Start(t)
	replica := redistest.StartReplica(t, primary)
	before, after := leaseredis.New(primary.Client(t), prefix), leaseredis.New(replica.Client(t), prefix)
	known, err := before.Acquire(t.Context(), params("a", 0))
	if err != nil {
		t.Fatal(err)
	}
	other := params("b", 0)
	other.Key = "other"
	released, err := before.Acquire(t.Context(), other)
	if err != nil {
		t.Fatal(err)
	}
	if err := before.Release(t.Context(), released); err != nil {
		t.Fatal(err)
	}
	if err := primary.Client(t).Do(t.Context(), "WAIT", 1, 0).Err(); err != nil {
		t.Fatal(err)
	}
	replica.Promote(t)
	lost, err := before.Acquire(t.Context(), other)
	if err != nil {
		t.Fatal(err)
	}

	if _, err := after.Renew(t.Context(), known, time.Minute); err != nil {
		t.Errorf("renew a lease that was replicated: got %v, want nil", err)
	}
	other.Owner, other.MinEpoch, other.Grace = "c", released.Epoch, 300*time.Millisecond
	_, err = after.Acquire(t.Context(), other)
	held, ok := errors.AsType[*lease.HeldError](err)
	if !ok || held.Owner != "" || held.Remaining > other.Grace {
		t.Fatalf("acquire right after a fail-over: got %v, want it reserved for nobody for at most %s", err, other.Grace)
	}
	next := acquireAfter(t, after, other)
	if next.Epoch <= lost.Epoch {
		t.Errorf("acquire after that: got epoch %d, want one above %d, which was lost", next.Epoch, lost.Epoch)
	}
}

// acquireAfter acquires a lease that becomes free after a while.
func acquireAfter(t *testing.T, store lease.Store, p lease.AcquireParams) (l lease.Lease) {
	t.Helper()
	await.Success(t, "the lease", func(ctx context.Context) (err error) {
		l, err = store.Acquire(ctx, p)
		if _, isHeld := errors.AsType[*lease.HeldError](err); err != nil && !isHeld {
			t.Fatalf("acquire: %v", err)
		}
		return err
	})
	return l
}

// TestRepeatedRequestIsRecognised cuts the connection after Redis has run the script and before its
// answer arrives: the client sends the script again, and the second run must not take the first
// one's lease for another owner's.
func TestRepeatedRequestIsRecognised(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	if _, err := leaseredis.New(server.Client(t), prefix).Acquire(t.Context(), params("warm-up", 0)); err != nil {
		t.Fatal(err) // Redis has cached the script, so the cut hits its run
	}
	if err := server.Client(t).Del(t.Context(), leaseredis.LeaseKey(prefix, "k")).Err(); err != nil {
		t.Fatal(err)
	}
	var cuts atomic.Int64
	client := redis.NewClient(&redis.Options{
		Addr: server.Addr(), MaxRetries: 3, DisableIdentity: true,
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			var dialer net.Dialer
			conn, err := dialer.DialContext(ctx, network, addr)
			return &cuttingConn{Conn: conn, cuts: &cuts}, err
		},
	})
	t.Cleanup(func() { _ = client.Close() })
	store := leaseredis.New(client, prefix)
	l, err := store.Acquire(t.Context(), params("a", 0))
	if err != nil {
		t.Fatalf("acquire over a connection that breaks: %v", err)
	}
	if h, err := store.Holder(t.Context(), "k"); err != nil || h.Epoch != l.Epoch {
		t.Errorf("got a lease of epoch %d, want the one that is held: %+v, %v", l.Epoch, h, err)
	}
	if got := cuts.Load(); got != 1 {
		t.Errorf("cut connections: got %d, want 1", got)
	}
}

// cuttingConn breaks once, when the answer to an EVALSHA arrives.
type cuttingConn struct {
	net.Conn
	cuts  *atomic.Int64
	armed atomic.Bool
}

func (c *cuttingConn) Write(p []byte) (int, error) {
	if strings.Contains(strings.ToLower(string(p)), "evalsha") {
		c.armed.Store(true)
	}
	return c.Conn.Write(p)
}

func (c *cuttingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.armed.Load() && c.cuts.CompareAndSwap(0, 1) {
		return 0, errors.Join(net.ErrClosed, c.Close())
	}
	return n, err
}

func TestFence(t *testing.T) {
	t.Parallel()
	for name, client := range map[string]*redis.Client{
		"real": redistest.Start(t).Client(t), "mini": redistest.Mini(t).Client(t),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := leaseredis.New(client, prefix)
			write := redis.NewScript(leaseredis.FenceLua + `
				if not leat_fence(KEYS[1], ARGV[1]) then return redis.error_reply('STALE') end
				return redis.call('RPUSH', KEYS[2], ARGV[1])`)
			try := func(epoch uint64) error {
				return write.Run(t.Context(), client, []string{leaseredis.EpochKey(prefix, "k"), prefix + "log:{k}"},
					strconv.FormatUint(epoch, 10)).Err()
			}
			first, err := store.Acquire(t.Context(), params("a", 1<<50))
			if err != nil {
				t.Fatal(err)
			}
			if err := try(first.Epoch); err != nil {
				t.Errorf("write of the holder: got %v, want nil", err)
			}
			if err := store.Release(t.Context(), first); err != nil {
				t.Fatal(err)
			}
			second, err := store.Acquire(t.Context(), params("b", 0))
			if err != nil {
				t.Fatal(err)
			}
			if err := try(first.Epoch); err == nil || !strings.Contains(err.Error(), "STALE") {
				t.Errorf("write of an earlier holder: got %v, want STALE", err)
			}
			if err := try(second.Epoch); err != nil {
				t.Errorf("write of the holder: got %v, want nil", err)
			}

			if err := client.FlushAll(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			if err := try(second.Epoch); err != nil {
				t.Errorf("write after FLUSHALL: got %v, want nil", err)
			}
			third, err := store.Acquire(t.Context(), params("c", 0))
			if err != nil || third.Epoch <= second.Epoch {
				t.Errorf("acquire after that write: got %+v, %v, want an epoch above %d", third, err, second.Epoch)
			}
		})
	}
}

func TestRedisDown(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	store := leaseredis.New(server.Client(t), prefix)
	l, err := store.Acquire(t.Context(), params("a", 0))
	if err != nil {
		t.Fatal(err)
	}
	server.Kill(t)
	_, errAcquire := store.Acquire(t.Context(), params("a", 0))
	_, errRenew := store.Renew(t.Context(), l, time.Minute)
	_, errHolder := store.Holder(t.Context(), "k")
	for name, err := range map[string]error{
		"acquire": errAcquire, "renew": errRenew, "release": store.Release(t.Context(), l), "holder": errHolder,
	} {
		if err == nil || errors.Is(err, lease.ErrLost) || errors.Is(err, lease.ErrHeld) || errors.Is(err, lease.ErrNotHeld) {
			t.Errorf("%s without Redis: got %v, want an error that says nothing about the lease", name, err)
		}
	}
}
