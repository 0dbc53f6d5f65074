// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package leaseredis keeps leases in Redis: one server, Sentinel or Cluster.
//
// A lease is two keys: one with the holder, which Redis expires, and one with the last epoch, which
// stays. A third, which Redis also expires, names the heir for whom a released lease is reserved,
// and a fourth shows whether Redis may have lost its memory. All have the lease's key in braces, so
// that a cluster keeps them in one slot. An adapter that fences its writes with the epoch in a
// script of its own (see [FenceLua]) needs its keys in that slot too: either it names them with the
// same braces, or the prefix given to [New] has braces of its own ("leat:{gitcache}:"), which then
// decide for every key below it.
//
// Redis replicates asynchronously, so a fail-over may forget a lease or an epoch that was just
// granted. The id of the Redis process that granted an epoch is therefore stored with it. A process
// that takes over grants no free lease before AcquireParams.Grace is over; a lease that it still
// knows continues. Epochs are times, in milliseconds since 1970, that always grow, so new ones do
// not fall behind forgotten ones. In case clocks disagree, holders that remember their epoch pass
// it as AcquireParams.MinEpoch, and FenceLua raises the last epoch to the writers' epoch.
package leaseredis

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leatdev/leat/internal/kit/lease"
)

// Store is a [lease.Store] in Redis. It has no state besides the client, which its maker closes.
type Store struct {
	client redis.UniversalClient
	prefix string

	acquire, renew, release, bequeath *redis.Script
}

var _ lease.Store = (*Store)(nil)

// New returns a store whose keys begin with prefix, for instance "leat:gitcache:". The client
// should be made with ContextTimeoutEnabled. Without it go-redis waits for its own ReadTimeout,
// times its retries, even if the caller's deadline is earlier, which delays a holder that is
// leaving.
func New(client redis.UniversalClient, prefix string) *Store {
	return &Store{
		client: client, prefix: prefix,
		acquire: redis.NewScript(acquireLua), renew: redis.NewScript(renewLua), release: redis.NewScript(releaseLua),
		bequeath: redis.NewScript(bequeathLua),
	}
}

// LeaseKey is the Redis key that holds the current holder of a lease.
func LeaseKey(prefix, key string) string {
	return prefix + "lease:{" + key + "}"
}

// EpochKey is the Redis key that holds the last epoch of a lease, as decimal digits. It never
// expires.
func EpochKey(prefix, key string) string {
	return prefix + "epoch:{" + key + "}"
}

// HeirKey is the Redis key that names the only owner that may acquire a bequeathed lease.
func HeirKey(prefix, key string) string {
	return prefix + "heir:{" + key + "}"
}

// givenKey is the Redis key with the last epoch that Redis itself granted, and the id of the Redis
// process that granted it: "epoch server". Unlike EpochKey no writer raises it, so it shows whether
// Redis may have lost its memory.
func givenKey(prefix, key string) string {
	return prefix + "given:{" + key + "}"
}

// Acquire implements [lease.Store].
func (s *Store) Acquire(ctx context.Context, p lease.AcquireParams) (lease.Lease, error) {
	if err := p.Check(); err != nil {
		return lease.Lease{}, err
	}
	// The client may send a script again when the connection breaks before the answer arrives. With
	// the nonce the second run recognises the lease that the first run granted.
	nonce := rand.Text()
	deadline := time.Now().Add(p.TTL)
	keys := []string{LeaseKey(s.prefix, p.Key), EpochKey(s.prefix, p.Key), HeirKey(s.prefix, p.Key), givenKey(s.prefix, p.Key)}
	reply, err := s.acquire.Run(ctx, s.client, keys,
		nonce, p.Owner, p.TTL.Milliseconds(), strconv.FormatUint(p.MinEpoch, 10),
		p.Grace.Milliseconds(), p.Reclaim).StringSlice()
	if err != nil {
		return lease.Lease{}, fmt.Errorf("acquire %q: %w", p.Key, err)
	}
	h, err := parseHolder(reply)
	if err != nil {
		return lease.Lease{}, fmt.Errorf("acquire %q: %w", p.Key, err)
	}
	if h.nonce != nonce {
		return lease.Lease{}, &lease.HeldError{Key: p.Key, Owner: h.Owner, Epoch: h.Epoch, Remaining: h.Remaining}
	}
	return lease.Lease{Key: p.Key, Owner: p.Owner, Epoch: h.Epoch, Deadline: deadline}, nil
}

// Renew implements [lease.Store].
func (s *Store) Renew(ctx context.Context, l lease.Lease, ttl time.Duration) (lease.Lease, error) {
	deadline := time.Now().Add(ttl)
	if err := s.ifHeld(ctx, s.renew, l, nil, ttl.Milliseconds()); err != nil {
		return lease.Lease{}, fmt.Errorf("renew %q at epoch %d: %w", l.Key, l.Epoch, err)
	}
	l.Deadline = deadline
	return l, nil
}

// Release implements [lease.Store].
func (s *Store) Release(ctx context.Context, l lease.Lease) error {
	if err := s.ifHeld(ctx, s.release, l, nil); err != nil {
		return fmt.Errorf("release %q at epoch %d: %w", l.Key, l.Epoch, err)
	}
	return nil
}

// Bequeath implements [lease.Store].
func (s *Store) Bequeath(ctx context.Context, l lease.Lease, heir string, reserve time.Duration) error {
	if err := lease.CheckBequest(heir, reserve); err != nil {
		return err
	}
	err := s.ifHeld(ctx, s.bequeath, l, []string{HeirKey(s.prefix, l.Key)}, heir, reserve.Milliseconds())
	if err != nil {
		return fmt.Errorf("bequeath %q at epoch %d: %w", l.Key, l.Epoch, err)
	}
	return nil
}

// ifHeld runs a script that changes a lease only if it is still exactly this one. The lease's key
// precedes the further keys, and its epoch and owner precede the further args.
func (s *Store) ifHeld(ctx context.Context, script *redis.Script, l lease.Lease, keys []string, args ...any) error {
	args = append([]any{strconv.FormatUint(l.Epoch, 10), l.Owner}, args...)
	done, err := script.Run(ctx, s.client, append([]string{LeaseKey(s.prefix, l.Key)}, keys...), args...).Bool()
	if err != nil {
		return err
	}
	if !done {
		return lease.ErrLost
	}
	return nil
}

// Holder implements [lease.Store].
func (s *Store) Holder(ctx context.Context, key string) (lease.Holder, error) {
	var value *redis.StringCmd
	var remaining *redis.DurationCmd
	// Use one transaction, or the lease could change hands between the two answers.
	_, err := s.client.TxPipelined(ctx, func(tx redis.Pipeliner) error {
		value = tx.Get(ctx, LeaseKey(s.prefix, key))
		remaining = tx.PTTL(ctx, LeaseKey(s.prefix, key))
		return nil
	})
	if errors.Is(err, redis.Nil) {
		return lease.Holder{}, fmt.Errorf("holder of %q: %w", key, lease.ErrNotHeld)
	}
	if err != nil {
		return lease.Holder{}, fmt.Errorf("holder of %q: %w", key, err)
	}
	h, err := parseHolder([]string{value.Val(), strconv.FormatInt(remaining.Val().Milliseconds(), 10)})
	if err != nil {
		return lease.Holder{}, fmt.Errorf("holder of %q: %w", key, err)
	}
	return h.Holder, nil
}

// holder is the parsed value of a lease's key.
type holder struct {
	lease.Holder
	nonce string
}

// parseHolder parses the value "epoch nonce owner" and the remaining milliseconds.
func parseHolder(reply []string) (holder, error) {
	if len(reply) != 2 {
		return holder{}, fmt.Errorf("unexpected reply of %d values", len(reply))
	}
	digits, rest, _ := strings.Cut(reply[0], " ")
	nonce, owner, found := strings.Cut(rest, " ")
	epoch, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || !found {
		return holder{}, fmt.Errorf("unreadable lease value %q", reply[0])
	}
	millis, err := strconv.ParseInt(reply[1], 10, 64)
	if err != nil {
		return holder{}, fmt.Errorf("unreadable remaining time %q", reply[1])
	}
	remaining := time.Duration(max(millis, 0)) * time.Millisecond
	return holder{Holder: lease.Holder{Owner: owner, Epoch: epoch, Remaining: remaining}, nonce: nonce}, nil
}
