// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package redisevents carries repository events between replicas in a Redis stream.
//
// Entries are numbered without gaps, so that a reader knows when it missed some. A token is
// "generation.number"; the generation is random and made again when Redis may have lost some of its
// memory, in a fail-over too, so that numbers of two lives are never mixed up.
package redisevents

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leatdev/leat/internal/kit/lease/leaseredis"
	"github.com/leatdev/leat/internal/kit/seal"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

const (
	defaultMaxLen = 10_000
	batch         = 100
	// block is how long one question to Redis waits, and so how late the end of a reader's context
	// is seen.
	block = time.Second

	fieldGeneration = "generation"
	fieldCounter    = "counter"
	fieldEvent      = "event"
)

// beginLua is leat_begin(meta, stream, name), which begins a new generation of the log with that
// name where there is none, and where this Redis process is not the one that wrote last: it may
// never have heard of the last entries. A script that calls it has to have [leaseredis.ServerLua]
// in front.
const beginLua = `
local function leat_begin(meta, stream, name)
  local server = leat_server()
  local fresh = redis.call('HSETNX', meta, 'generation', name) == 1
  if redis.call('HGET', meta, 'server') == server then return end
  if not fresh then redis.call('HSET', meta, 'generation', name) end
  redis.call('DEL', stream)
  redis.call('HSET', meta, 'server', server)
end
`

// appendLua takes KEYS epoch, stream, meta, states and ARGV epoch, event, repository, whether
// deleted ("1"), length of the stream, name of a new generation. It returns 0 when the epoch is
// stale. Epoch 0 is not fenced: it deletes.
const appendLua = leaseredis.FenceLua + leaseredis.ServerLua + beginLua + `
if ARGV[1] ~= '0' and not leat_fence(KEYS[1], ARGV[1]) then return 0 end
leat_begin(KEYS[3], KEYS[2], ARGV[6])
local number = redis.call('HINCRBY', KEYS[3], 'counter', 1)
redis.call('XADD', KEYS[2], 'MAXLEN', ARGV[5], string.format('%.0f-0', number), 'event', ARGV[2])
if ARGV[4] == '1' then
  redis.call('HDEL', KEYS[4], ARGV[3])
else
  redis.call('HSET', KEYS[4], ARGV[3], ARGV[2])
end
return 1
`

// openLua takes KEYS stream, meta and ARGV name of a new generation. A token that was given before
// the first entry of a new life has to be good for that entry.
const openLua = leaseredis.ServerLua + beginLua + `
leat_begin(KEYS[2], KEYS[1], ARGV[1])
return 1
`

// Config is where the log is.
type Config struct {
	Client redis.UniversalClient
	// Prefix begins all keys. It must be the one that leases have, and have braces in it for a
	// Redis cluster.
	Prefix string
	// Secret is gitcache's own secret. Entries that are not signed with a key derived from it are
	// ignored. Required.
	Secret []byte
	// Accepted are secrets of other replicas while the secret is replaced.
	Accepted [][]byte
	// MaxLen bounds the number of events that are kept. Zero: 10 000.
	MaxLen int
}

// Log is an event log in Redis.
type Log struct {
	cfg    Config
	signer *seal.Signer
	append *redis.Script
	open   *redis.Script
}

var _ mirror.EventLog = (*Log)(nil)

// New returns a log.
func New(cfg Config) (*Log, error) {
	if cfg.MaxLen <= 0 {
		cfg.MaxLen = defaultMaxLen
	}
	signer, err := seal.NewSigner(cfg.Secret, "gitcache event", cfg.Accepted...)
	if err != nil {
		return nil, fmt.Errorf("open event log: %w", err)
	}
	return &Log{cfg: cfg, signer: signer, append: redis.NewScript(appendLua), open: redis.NewScript(openLua)}, nil
}

// errForged means that an entry was not signed by a replica with the secret.
var errForged = errors.New("it is not signed by a replica of this hub")

// encode returns an event as it is stored in Redis: its signature, a space, and JSON.
func (l *Log) encode(e mirror.Event) (string, error) {
	data, err := json.Marshal(e)
	if err != nil {
		return "", err
	}
	return l.signer.Sign(string(data)) + " " + string(data), nil
}

// decode parses the output of encode. It returns errForged if the signature is wrong.
func (l *Log) decode(text string) (mirror.Event, error) {
	signature, data, _ := strings.Cut(text, " ")
	if !l.signer.Verify(signature, data) {
		return mirror.Event{}, errForged
	}
	var e mirror.Event
	return e, json.Unmarshal([]byte(data), &e)
}

func (l *Log) stream() string { return l.cfg.Prefix + "events" }
func (l *Log) meta() string   { return l.cfg.Prefix + "events:meta" }
func (l *Log) states() string { return l.cfg.Prefix + "states" }

// Append implements [mirror.EventLog].
func (l *Log) Append(ctx context.Context, e mirror.Event) error {
	data, err := l.encode(e)
	if err != nil {
		return fmt.Errorf("append event: %w", err)
	}
	deleted := "0"
	if e.Deleted {
		deleted = "1"
	}
	keys := []string{leaseredis.EpochKey(l.cfg.Prefix, e.UID), l.stream(), l.meta(), l.states()}
	accepted, err := l.append.Run(ctx, l.cfg.Client, keys, strconv.FormatUint(e.Epoch, 10), data, e.Repository, deleted,
		l.cfg.MaxLen, rand.Text()).Bool()
	if err != nil {
		return unavailable("append event", err)
	}
	if !accepted {
		return fmt.Errorf("append event of %q at epoch %d: %w", e.Repository, e.Epoch, mirror.ErrEpochStale)
	}
	return nil
}

// States implements [mirror.EventLog].
func (l *Log) States(ctx context.Context) ([]mirror.Event, string, error) {
	if err := l.open.Run(ctx, l.cfg.Client, []string{l.stream(), l.meta()}, rand.Text()).Err(); err != nil {
		return nil, "", unavailable("read states", err)
	}
	var meta *redis.SliceCmd
	var states *redis.MapStringStringCmd
	_, err := l.cfg.Client.TxPipelined(ctx, func(tx redis.Pipeliner) error {
		meta = tx.HMGet(ctx, l.meta(), fieldGeneration, fieldCounter)
		states = tx.HGetAll(ctx, l.states())
		return nil
	})
	if err != nil {
		return nil, "", unavailable("read states", err)
	}
	at, err := position(meta.Val())
	if err != nil {
		return nil, "", err
	}
	values := states.Val()
	events := make([]mirror.Event, 0, len(values))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		e, err := l.decode(values[name])
		if errors.Is(err, errForged) || err == nil && e.Repository != name {
			continue // its owner writes the state again with the next event
		}
		if err != nil {
			return nil, "", fmt.Errorf("read state of %q: %w", name, err)
		}
		events = append(events, e)
	}
	return events, at.String(), nil
}

// Probe implements [mirror.EventLog].
func (l *Log) Probe(ctx context.Context, token string) error {
	after, err := parseToken(token)
	if err != nil {
		return err
	}
	return l.check(ctx, after)
}

// Read implements [mirror.EventLog].
func (l *Log) Read(ctx context.Context, token string) ([]mirror.Logged, error) {
	after, err := parseToken(token)
	if err != nil {
		return nil, err
	}
	// Questions are short and end by themselves; a context that ended one of them in its middle
	// would look like a Redis that does not answer.
	asking := context.WithoutCancel(ctx)
	for ctx.Err() == nil {
		if err := l.check(asking, after); err != nil {
			return nil, err
		}
		entries, err := l.wait(asking, after)
		if err != nil {
			return nil, err
		}
		if len(entries) > 0 {
			return l.decodeAll(after, entries)
		}
	}
	return nil, nil
}

// check makes sure that a token belongs to the log's present life.
func (l *Log) check(ctx context.Context, after token) error {
	values, err := l.cfg.Client.HMGet(ctx, l.meta(), fieldGeneration, fieldCounter).Result()
	if err != nil {
		return unavailable("read events", err)
	}
	at, err := position(values)
	if err != nil {
		return err
	}
	if at.generation != after.generation || at.number < after.number {
		return fmt.Errorf("read events after %s: the log is at %s: %w", after, at, mirror.ErrResumeExpired)
	}
	return nil
}

func (l *Log) wait(ctx context.Context, after token) ([]redis.XMessage, error) {
	streams, err := l.cfg.Client.XRead(ctx, &redis.XReadArgs{
		Streams: []string{l.stream(), strconv.FormatUint(after.number, 10) + "-0"}, Count: batch, Block: block,
	}).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return nil, nil
	case err != nil:
		return nil, unavailable("read events", err)
	case len(streams) == 0:
		return nil, nil
	}
	return streams[0].Messages, nil
}

func (l *Log) decodeAll(after token, entries []redis.XMessage) ([]mirror.Logged, error) {
	logged := make([]mirror.Logged, 0, len(entries))
	for _, entry := range entries {
		digits, _, _ := strings.Cut(entry.ID, "-")
		number, err := strconv.ParseUint(digits, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("read event %q: %w", entry.ID, err)
		}
		if number != after.number+1 {
			return nil, fmt.Errorf("read events after %s: the next is %d: %w", after, number, mirror.ErrResumeExpired)
		}
		after.number = number
		text, _ := entry.Values[fieldEvent].(string)
		e, err := l.decode(text)
		if errors.Is(err, errForged) { // a reader that starts again from the states finds any event that the entry replaced
			return nil, fmt.Errorf("read event %s: %w: %w", after, err, mirror.ErrResumeExpired)
		}
		if err != nil {
			return nil, fmt.Errorf("read event %s: %w", after, err)
		}
		logged = append(logged, mirror.Logged{Token: after.String(), Event: e})
	}
	return logged, nil
}

// token is a place in the log.
type token struct {
	generation string
	number     uint64
}

func (t token) String() string { return t.generation + "." + strconv.FormatUint(t.number, 10) }

// parseToken takes a token that makes no sense for one of another life: its holder has to start
// again anyway.
func parseToken(text string) (token, error) {
	generation, digits, _ := strings.Cut(text, ".")
	number, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || generation == "" {
		return token{}, fmt.Errorf("read resume token: %w", mirror.ErrResumeExpired)
	}
	return token{generation: generation, number: number}, nil
}

// position reads generation and counter as HMGET answers them; a log that was lost has neither.
func position(values []any) (token, error) {
	generation, _ := values[0].(string)
	digits, ok := values[1].(string)
	if !ok {
		return token{generation: generation}, nil
	}
	number, err := strconv.ParseUint(digits, 10, 64)
	if err != nil {
		return token{}, fmt.Errorf("read event counter: %w", err)
	}
	return token{generation: generation, number: number}, nil
}

func unavailable(doing string, err error) error {
	return fmt.Errorf("%s: %w: %w", doing, mirror.ErrDependency, err)
}
