// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package redisregistry shares repository definitions between replicas through a Redis hash.
//
// Every definition is sealed: neither Redis nor a copy of the disk gives credentials away. Each
// replica keeps all definitions in memory and on its disk, so that it starts and serves without
// Redis. Changes are announced, and the whole hash is read again from time to time, because
// announcements can be lost.
//
// Redis may lose its memory. The hash therefore carries a generation: when it is gone, replicas do
// not take the empty hash for a deletion of everything; they put back what they know.
package redisregistry

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/internal/kit/seal"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

const (
	// reloadEvery is the mean time between two readings of the whole hash.
	reloadEvery = 30 * time.Second
	// maxRetry is the longest wait between two tries while Redis does not answer. A replica without
	// a copy on disk is not ready until then.
	maxRetry     = 5 * time.Second
	startTimeout = 3 * time.Second
	// missMemory is how long a look into Redis for an unknown name is good for.
	missMemory = 500 * time.Millisecond
)

// putLua takes KEYS definitions, meta and ARGV name, version, uid, value, new generation, channel.
// An older version of the same UID changes nothing.
const putLua = `
redis.call('HSETNX', KEYS[2], 'generation', ARGV[5])
local old = redis.call('HGET', KEYS[1], ARGV[1])
if old == ARGV[4] then return 0 end
if old then
  local version, uid = string.match(old, '^(%d+) (%S+) ')
  if uid == ARGV[3] and tonumber(version) > tonumber(ARGV[2]) then return 0 end
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[4])
redis.call('PUBLISH', ARGV[6], ARGV[1])
return 1
`

// deleteLua takes KEYS definitions and ARGV name, version, channel. It returns the deleted value,
// or nothing.
const deleteLua = `
local old = redis.call('HGET', KEYS[1], ARGV[1])
if not old then return false end
local version = string.match(old, '^(%d+) ')
if ARGV[2] ~= '0' and tonumber(version) > tonumber(ARGV[2]) then return false end
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('PUBLISH', ARGV[3], ARGV[1])
return old
`

// resealLua takes KEYS definitions and ARGV name, old value, new value. It changes nothing if the
// value is no longer the old one. There is no notification: the definition is the same.
const resealLua = `
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return 1
`

// resealAtOnce bounds the values that one reading seals again.
const resealAtOnce = 200

// Params are the parts of a [Registry]. All are required.
type Params struct {
	Client redis.UniversalClient
	Prefix string
	Sealer *seal.Sealer
	// Path is the file of the copy on disk.
	Path   string
	Logger *slog.Logger
}

// Registry keeps definitions. All methods may be called concurrently.
type Registry struct {
	params             Params
	put, delete, again *redis.Script

	roots atomic.Pointer[map[string]mirror.Root] // of all definitions, by UID; replaced as a whole

	mu     sync.Mutex // also orders readings of the hash and calls of apply
	apply  func([]mirror.Definition)
	known  copyOnDisk
	loaded bool
	missed time.Time // when the hash was last read for an unknown name
	synced time.Time // when the hash was last read at all
}

var (
	_ mirror.Registry = (*Registry)(nil)
	_ mirror.Named    = (*Registry)(nil)
)

// New returns a registry that knows nothing before [Registry.Start].
func New(p Params) *Registry {
	return &Registry{params: p, put: redis.NewScript(putLua), delete: redis.NewScript(deleteLua), again: redis.NewScript(resealLua)}
}

// Root returns the repository with that UID as its submodules see it, or false while it is unknown.
// Root does not block.
func (r *Registry) Root(uid string) (mirror.Root, bool) {
	roots := r.roots.Load()
	if roots == nil {
		return mirror.Root{}, false
	}
	root, ok := (*roots)[uid]
	return root, ok
}

func (r *Registry) definitions() string { return r.params.Prefix + "repositories" }
func (r *Registry) meta() string        { return r.params.Prefix + "repositories:meta" }
func (r *Registry) channel() string     { return r.params.Prefix + "repositories:changed" }

// Start takes over the copy on disk, and then what Redis knows. While Redis does not answer the
// copy alone counts. From then on apply is given all definitions whenever they may have changed; it
// is not called concurrently. The error is the disk's.
func (r *Registry) Start(ctx context.Context, apply func([]mirror.Definition)) error {
	if err := r.loadDisk(ctx, apply); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := r.Reload(ctx); err != nil {
		r.params.Logger.WarnContext(ctx, "definitions not read from redis", slog.Any("error", err))
	}
	return nil
}

// Loaded reports whether definitions were read, from Redis or from disk.
func (r *Registry) Loaded(context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.loaded {
		return errors.New("repository definitions have not been read yet")
	}
	return nil
}

// Run keeps the definitions up to date until ctx is done. It returns nil. As long as Redis does not
// answer, also since [Registry.Start], it tries again soon: within a quarter of a second, and then
// within twice as long each time, up to five seconds.
func (r *Registry) Run(ctx context.Context) error {
	subscription := r.params.Client.Subscribe(ctx, r.channel())
	defer func() { _ = subscription.Close() }()
	announced := subscription.Channel()
	failures := 0
	if !r.isSynced() {
		failures = 1
	}
	for {
		timer := time.NewTimer(nextReading(failures))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-announced:
		case <-timer.C:
		}
		timer.Stop()
		if err := r.Reload(ctx); err == nil {
			failures = 0
		} else if ctx.Err() == nil {
			failures++
			r.params.Logger.WarnContext(ctx, "definitions not read from redis", slog.Any("error", err))
		}
	}
}

// nextReading returns when to read the hash again after so many failures in a row.
func nextReading(failures int) time.Duration {
	if failures == 0 {
		return backoff.Jitter(reloadEvery, 0.25)
	}
	return backoff.Policy{Initial: 250 * time.Millisecond, Max: maxRetry}.Delay(failures - 1)
}

// isSynced reports whether the hash was read at all.
func (r *Registry) isSynced() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.synced.IsZero()
}

// Put implements [mirror.Registry].
func (r *Registry) Put(ctx context.Context, def mirror.Definition) error {
	value, err := r.encode(def)
	if err != nil {
		return err
	}
	if err := r.putValue(ctx, def.Name, def.UID, def.Version, value); err != nil {
		return err
	}
	return r.Reload(ctx)
}

func (r *Registry) putValue(ctx context.Context, name, uid string, version int64, value string) error {
	err := r.put.Run(ctx, r.params.Client, []string{r.definitions(), r.meta()},
		name, version, uid, value, rand.Text(), r.channel()).Err()
	if err != nil {
		return unavailable("put definition", err)
	}
	return nil
}

// Delete implements [mirror.Registry].
func (r *Registry) Delete(ctx context.Context, name string, version int64) (mirror.Definition, bool, error) {
	value, err := r.delete.Run(ctx, r.params.Client, []string{r.definitions()},
		name, strconv.FormatInt(version, 10), r.channel()).Text()
	if errors.Is(err, redis.Nil) {
		return mirror.Definition{}, false, nil
	}
	if err != nil {
		return mirror.Definition{}, false, unavailable("delete definition", err)
	}
	if err := r.Reload(ctx); err != nil {
		return mirror.Definition{}, false, err
	}
	def, err := r.decode(name, value)
	if err != nil { // sealed with another secret: gone anyway
		def = mirror.Definition{Name: name}
	}
	return def, true, nil
}

// Missed reads the hash again because a name is not known: it may have been put at another replica
// a moment ago.
func (r *Registry) Missed(ctx context.Context) error {
	r.mu.Lock()
	recent := time.Since(r.missed) < missMemory
	if !recent {
		r.missed = time.Now()
	}
	r.mu.Unlock()
	if recent {
		return nil
	}
	return r.Reload(ctx)
}

// Reload reads the whole hash.
func (r *Registry) Reload(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	fetched, err := r.read(ctx)
	if err != nil {
		return err
	}
	if r.known.Generation != "" && fetched.Generation != r.known.Generation {
		if fetched, err = r.restore(ctx); err != nil {
			return err
		}
	}
	r.synced = time.Now()
	if err := r.adopt(ctx, fetched); err != nil {
		return err
	}
	return r.resealLocked(ctx)
}

// resealLocked seals values of Redis again that were sealed with a secret that is only accepted, at
// most resealAtOnce of them. The next reading finds the new values, and continues with others.
func (r *Registry) resealLocked(ctx context.Context) error {
	left := resealAtOnce
	for name, value := range r.known.Values {
		if left == 0 {
			return nil
		}
		if r.isCurrent(value) {
			continue
		}
		def, err := r.decode(name, value)
		if err != nil {
			continue // the log names it already
		}
		next, err := r.encode(def)
		if err != nil {
			return err
		}
		left--
		if err := r.again.Run(ctx, r.params.Client, []string{r.definitions()}, name, value, next).Err(); err != nil {
			return unavailable("seal definition again", err)
		}
	}
	return nil
}

// Named implements [mirror.Named]. It is sure only while Redis answers, and while it holds any
// definition at all: an empty hash is more likely lost than meant.
func (r *Registry) Named() (uids map[string]bool, sure bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	uids = make(map[string]bool, len(r.known.Values))
	for _, value := range r.known.Values {
		_, uid, err := header(value)
		if err != nil {
			return nil, false // whatever it names is not to be taken for a stranger
		}
		uids[uid] = true
	}
	return uids, len(uids) > 0 && time.Since(r.synced) <= 2*reloadEvery
}

func (r *Registry) read(ctx context.Context) (copyOnDisk, error) {
	var generation *redis.StringCmd
	var values *redis.MapStringStringCmd
	_, err := r.params.Client.TxPipelined(ctx, func(tx redis.Pipeliner) error {
		generation = tx.HGet(ctx, r.meta(), "generation")
		values = tx.HGetAll(ctx, r.definitions())
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return copyOnDisk{}, unavailable("read definitions", err)
	}
	return copyOnDisk{Generation: generation.Val(), Values: values.Val()}, nil
}

// restore puts back what this replica knows into a Redis that lost its memory; newer versions put
// there meanwhile stay.
func (r *Registry) restore(ctx context.Context) (copyOnDisk, error) {
	r.params.Logger.WarnContext(ctx, "redis lost the definitions, putting them back",
		slog.Int("repositories", len(r.known.Values)))
	for name, value := range r.known.Values {
		version, uid, err := header(value)
		if err != nil {
			continue
		}
		if err := r.putValue(ctx, name, uid, version, value); err != nil {
			return copyOnDisk{}, err
		}
	}
	return r.read(ctx)
}

func unavailable(doing string, err error) error {
	return fmt.Errorf("%s: %w: %w", doing, mirror.ErrDependency, err)
}
