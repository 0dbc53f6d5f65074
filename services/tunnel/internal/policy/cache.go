// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/leatdev/leat/internal/kit/flight"
)

// CacheParams set how long answers live. All fields are required.
type CacheParams struct {
	// Access is asked when the cache has no fresh answer.
	Access Access
	// PositiveAge is the longest life of a permission; a shorter MaxAge of the decision counts.
	PositiveAge time.Duration
	// NegativeAge is the life of a refusal.
	NegativeAge time.Duration
	// StaleAge is how long after it was given a permission is used while no new decision can be
	// had.
	StaleAge time.Duration
	// Patience is how long a caller waits for a new decision before the stale one is used. It is
	// also the pause between two attempts to renew a decision that could not be renewed.
	Patience time.Duration
	// Timeout ends a question without an answer.
	Timeout time.Duration
	// Size is the number of permissions kept. A quarter as many refusals are kept. The least
	// recently used are evicted first.
	Size int
}

// DefaultCacheParams returns the default ages.
func DefaultCacheParams(access Access) CacheParams {
	return CacheParams{
		Access:      access,
		PositiveAge: 30 * time.Second,
		NegativeAge: 5 * time.Second,
		StaleAge:    5 * time.Minute,
		Patience:    time.Second,
		Timeout:     5 * time.Second,
		Size:        16_384,
	}
}

// Cache is an [Access] that remembers decisions. A withdrawn permission ends within PositiveAge
// while the deciding service answers, and within StaleAge while it does not. Refusals are never
// used beyond their age, and errors are not kept.
type Cache struct {
	params CacheParams
	asked  *flight.Group[string, Decision]

	mu      sync.Mutex
	answers *lru.LRU[string, answer] // permissions
	// refusals are kept separately: a user without access can ask about any number of clusters, and
	// would evict the permissions of other users. Those must last while the distributor does not
	// answer.
	refusals *lru.LRU[string, answer]
}

var _ Access = (*Cache)(nil)

// NewCache returns an empty cache.
func NewCache(params CacheParams) *Cache {
	answers, _ := lru.NewLRU[string, answer](max(1, params.Size), nil) // fails for sizes below one only
	refusals, _ := lru.NewLRU[string, answer](max(1, params.Size/4), nil)
	return &Cache{params: params, asked: flight.New[string, Decision](params.Timeout), answers: answers, refusals: refusals}
}

// answer is a decision with its age. It is never changed once it is in the cache.
type answer struct {
	decision Decision
	given    time.Time
	fresh    time.Time // until when it counts without asking
	retry    time.Time // not asked again before
}

// Check implements [Access]. Callers with the same question share one call to the deciding service,
// which outlives the caller that began it.
func (c *Cache) Check(ctx context.Context, q Question) (Decision, error) {
	key := q.key()
	known, ok := c.lookup(key)
	now := time.Now()
	if ok && now.Before(known.fresh) && !c.outlived(known, q, now) {
		return known.decision, nil
	}
	stale := ok && known.decision.Allowed && now.Before(known.given.Add(c.params.StaleAge))
	if stale && now.Before(known.retry) {
		return known.decision, nil
	}
	asked := c.asked.Start(ctx, key, func(ctx context.Context) (Decision, error) { return c.ask(ctx, key, q) })
	if !stale {
		return asked.Wait(ctx)
	}
	return c.renew(ctx, asked, key, known)
}

// outlived reports whether a permission is for another enrolment than the connected agent's. A very
// recent permission counts anyway, so that an agent with a withdrawn identity cannot make every
// request ask.
func (c *Cache) outlived(known answer, q Question, now time.Time) bool {
	return known.decision.Allowed && q.ConnectedUID != "" && known.decision.ClusterUID != q.ConnectedUID &&
		!now.Before(known.given.Add(c.params.Patience))
}

// renew waits for a new decision as long as the caller's patience lasts, and uses the stale one
// then.
func (c *Cache) renew(ctx context.Context, asked *flight.Run[Decision], key string, known answer) (Decision, error) {
	patience, cancel := context.WithTimeout(ctx, c.params.Patience)
	defer cancel()
	decision, err := asked.Wait(patience)
	if err == nil || ctx.Err() != nil {
		return decision, err
	}
	known.retry = time.Now().Add(c.params.Patience)
	c.postpone(key, known)
	return known.decision, nil
}

func (c *Cache) ask(ctx context.Context, key string, q Question) (Decision, error) {
	decision, err := c.params.Access.Check(ctx, q)
	if err != nil {
		return Decision{}, err
	}
	c.store(key, decision)
	return decision, nil
}

func (c *Cache) lookup(key string) (answer, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.answers.Get(key); ok {
		return known, true
	}
	return c.refusals.Get(key)
}

func (c *Cache) store(key string, decision Decision) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	kept, other := c.answers, c.refusals
	if !decision.Allowed {
		kept, other = other, kept
	}
	other.Remove(key)
	kept.Add(key, answer{decision: decision, given: now, fresh: now.Add(c.age(decision))})
}

// postpone notes that a stale answer could not be renewed, unless it was renewed in the meantime.
func (c *Cache) postpone(key string, known answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if current, ok := c.answers.Get(key); ok && current.given.Equal(known.given) {
		c.answers.Add(key, known)
	}
}

func (c *Cache) age(decision Decision) time.Duration {
	if !decision.Allowed {
		return c.params.NegativeAge
	}
	if decision.MaxAge > 0 {
		return min(decision.MaxAge, c.params.PositiveAge)
	}
	return c.params.PositiveAge
}
