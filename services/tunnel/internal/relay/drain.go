// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/leatdev/leat/internal/kit/wake"
	"github.com/leatdev/leat/services/tunnel/internal/session"
)

const (
	// noticesAtOnce is how many agents are told at once to connect elsewhere, and noticeTimeout how
	// long one may take to understand.
	noticesAtOnce = 64
	noticeTimeout = 2 * time.Second
)

// Drain ends this replica's work. From now on it takes no agent.
//
// Where there are other replicas, agents are first asked to connect to them, each after a delay of
// its own, so that they do not all come at once. An agent's old connection takes requests until the
// new one is there; then it gets GOAWAY, and its route is withdrawn. This lasts as long as move at
// the most, and people are served as before. Then left is called, and no new request is accepted:
// endless requests end, running ones may end until ctx does, and every connection is closed.
//
// It is called once, and returns when every connection has ended.
func (r *Router) Drain(ctx context.Context, move time.Duration, left func()) {
	r.table.Refuse()
	var leaving sync.WaitGroup
	if r.hasPeers(ctx) {
		moving, cancel := context.WithTimeout(ctx, move)
		r.evacuate(moving, ctx, &leaving)
		cancel()
	}
	left()
	_ = r.table.Drain(ctx) // cutting off after the timeout is not an error: it is the purpose of the timeout
	leaving.Wait()
}

// hasPeers reports whether agents can go elsewhere.
func (r *Router) hasPeers(ctx context.Context) bool {
	if r.store == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	replicas, err := r.store.Replicas(ctx)
	for _, replica := range replicas {
		if replica.ID != r.self.ID {
			return true
		}
	}
	return err != nil && r.Replicas() > 1 // what was known last
}

// drainState records which agents of a draining replica have connected elsewhere.
type drainState struct {
	mu    sync.Mutex
	moved map[string]chan struct{} // by cluster; closed when its agent is connected elsewhere
}

// evacuate asks every agent to go, and returns when all have gone or moving ends. Connections that
// were left continue to end.
func (r *Router) evacuate(moving, ending context.Context, leaving *sync.WaitGroup) {
	e := &drainState{moved: map[string]chan struct{}{}}
	r.draining.Store(e)
	defer r.draining.Store(nil)
	sessions := r.table.Connected()
	deadline, _ := moving.Deadline()
	spread := time.Until(deadline) / 2
	notices := make(chan struct{}, noticesAtOnce)
	var leading sync.WaitGroup
	for _, s := range sessions {
		moved := e.expect(s.Info().Cluster)
		leading.Go(func() {
			if r.lead(moving, s, moved, rand.N(max(spread, 1)), notices) {
				leaving.Go(func() { _ = r.table.Leave(ending, s) })
			}
		})
	}
	leading.Wait()
}

// lead asks one agent to go after a delay, and reports whether its connection can be left: when the
// agent has another one elsewhere. An agent that cannot be asked is left after the delay, and
// receives GOAWAY.
func (r *Router) lead(ctx context.Context, s *session.Session, moved <-chan struct{}, delay time.Duration, notices chan struct{}) bool {
	notices <- struct{}{}
	asking, cancel := context.WithTimeout(ctx, noticeTimeout)
	err := s.AskToLeave(asking, delay)
	cancel()
	<-notices
	if err != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, delay)
		defer cancel()
	}
	select {
	case <-moved:
		return true
	case <-s.Done():
		return false
	case <-ctx.Done():
		return err != nil // the table's own drain takes leave of agents that stay
	}
}

// expect returns a channel that is closed when the cluster's agent has connected elsewhere.
func (e *drainState) expect(cluster string) <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.moved[cluster] == nil {
		e.moved[cluster] = make(chan struct{})
	}
	return e.moved[cluster]
}

// heard records the announcement of another replica.
func (e *drainState) heard(route Route) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if moved := e.moved[route.Cluster]; moved != nil && !wake.IsClosed(moved) {
		close(moved)
	}
}
