// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirroring

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/leatdev/leat/internal/kit/wake"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/mirroring/placement"
)

const (
	// maxCopies bounds the copies that followers make at once on this replica.
	maxCopies = 4
	// maxNotices bounds the calls that notify successors at once.
	maxNotices = 16
	// inspectTimeout bounds the question what another replica's mirror holds.
	inspectTimeout = 3 * time.Second
)

// shared holds the parts that all repositories of a set share.
type shared struct {
	Deps
	metrics  *metrics
	slots    [queues]*semaphore.Weighted // by what repositories wait for; the back end spreads queueHost
	notices  *semaphore.Weighted
	diskFull wake.Signal // wakes what makes room
	outage   outage
}

func newShared(deps Deps) (*shared, error) {
	deps.Settings = deps.Settings.withDefaults()
	s := &shared{Deps: deps, notices: semaphore.NewWeighted(maxNotices), diskFull: wake.NewSignal()}
	s.slots[queueFetch] = semaphore.NewWeighted(int64(deps.Settings.Fetches))
	s.slots[queueClone] = semaphore.NewWeighted(int64(deps.Settings.Clones))
	s.slots[queueCopy] = semaphore.NewWeighted(maxCopies)
	var err error
	if s.metrics, err = newMetrics(deps.Meter); err != nil {
		return nil, fmt.Errorf("make metrics: %w", err)
	}
	return s, nil
}

// view returns what this replica knows of the others now.
func (s *shared) view() placement.View {
	return placement.View{Members: s.Peers.Members(), Self: s.Self, Followers: s.Settings.Followers}
}

// interval returns the mean time between polls of a definition.
func (s *shared) interval(def mirror.Definition) time.Duration {
	if def.PollInterval > 0 {
		return def.PollInterval
	}
	return s.Settings.PollInterval
}

// slot blocks until this replica may fetch, clone or copy once more. Clones have slots of their
// own, so that a few large ones do not hold up every poll.
func (s *shared) slot(ctx context.Context, q queue) (release func(), err error) {
	defer s.metrics.wait(q)()
	if err := s.slots[q].Acquire(ctx, 1); err != nil {
		return nil, context.Cause(ctx)
	}
	return func() { s.slots[q].Release(1) }, nil
}

// enter blocks until the upstream's host may have one more conversation. The error is the
// context's, or a *mirror.QuietError.
func (s *shared) enter(ctx context.Context, def mirror.Definition) (leave func(), err error) {
	defer s.metrics.wait(queueHost)()
	return s.Backend.Enter(ctx, def)
}

// inspect asks another replica what its mirror holds. known is the fingerprint of what this one
// holds.
func (s *shared) inspect(ctx context.Context, replica string, def mirror.Definition, known string) (mirror.Copy, error) {
	asking, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	theirs, err := s.Replicas.Inspect(asking, replica, def, known)
	if err != nil {
		return mirror.Copy{}, fmt.Errorf("inspect mirror: %w", err)
	}
	return theirs, nil
}

// logger returns a logger for a repository.
func (s *shared) logger(of *status) *slog.Logger {
	return s.Logger.With(slog.String("leat.repository", of.name))
}

const (
	// ownerTimeout bounds one question of the lease store, so that reads continue while the store
	// hangs.
	ownerTimeout = time.Second
	// outageMemory is how long a lease store that did not answer is left alone by all repositories, so
	// that reads continue at their usual speed.
	outageMemory = 2 * time.Second
)

// outage remembers, for all repositories, that the lease store does not answer.
type outage struct {
	mu    sync.Mutex
	err   error
	until time.Time
}

// check returns the recent failure of the store, or nil where the caller is to ask it. After a
// while one caller asks, and the others get the failure until that one has an answer.
func (o *outage) check() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil && time.Now().After(o.until) {
		o.until = time.Now().Add(ownerTimeout)
		return nil
	}
	return o.err
}

// record takes over how a question ended; nil ends the outage.
func (o *outage) record(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.err, o.until = err, time.Now().Add(outageMemory)
}
