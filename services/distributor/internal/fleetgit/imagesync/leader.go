// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package imagesync

import (
	"context"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/election"
	"github.com/leatdev/leat/services/distributor/internal/spine/fanout"
)

const (
	// tick is how often a leader reads people's requests.
	tick = 2 * time.Second
	// lookEvery is how often a policy is looked at without a reason. Events of refs come at once.
	lookEvery = time.Minute
	// atOnce is how many policies are looked at at the same time.
	atOnce = 8
	// staleAfter is how long after a look that failed an event of a repository brings another one.
	staleAfter = 10 * time.Second
	// gather is how long changes that come together are waited for.
	gather = 200 * time.Millisecond
)

// retryPolicy spaces the looks at a policy that fail.
var retryPolicy = backoff.Policy{Initial: 5 * time.Second, Max: 5 * time.Minute}

// Params are a Leader's collaborators, all required.
type Params struct {
	Store    Store
	Election election.Store
	Fleet    Fleet
	Upstream Upstream
	Bundles  Bundles
	Objects  *fanout.Hub[catalog.Key]
	Metrics  *Metrics
	Logger   *slog.Logger
	// Holder names this replica, and no other process ever.
	Holder string
}

// Leader takes part in the election of the leader, and does the leader's work.
type Leader struct{ p Params }

// NewLeader returns a Leader.
func NewLeader(p Params) *Leader { return &Leader{p: p} }

// Run works until ctx is done, and returns its cause. While there is no image policy, nothing is asked of the database.
func (l *Leader) Run(ctx context.Context) error {
	return election.Run(ctx, election.Params{
		Store: l.p.Election, Holder: l.p.Holder, Logger: l.p.Logger, Subject: "image policies", Work: "looks at the image policies",
		IsNeeded: func() bool { return len(l.p.Fleet.ImagePolicies()) > 0 }, Lead: l.lead,
	})
}

// lead does the leader's work until ctx is done, until the database does not answer, or until there is no image policy
// any more. It waits for the looks that it began.
func (l *Leader) lead(ctx context.Context, term int64) error {
	group, working := errgroup.WithContext(ctx)
	w := work{looker: &looker{p: l.p, term: term}, known: map[string]*memory{}, ended: make(chan outcome, atOnce), group: group}
	group.Go(func() error { return w.run(working) })
	return group.Wait()
}

// memory is what a leader remembers of a policy.
type memory struct {
	state State
	// version is the resource version of the policy, and order the request, of the latest look.
	version, order int64
	// at is when that ended, and retryAt when to look again if failures, which counts looks in a row, is not zero.
	at, retryAt time.Time
	failures    int
	settled     settled
	// isRunning is set while a look is under way, and isStale if something changed since it began.
	isRunning, isStale bool
}

// work is a leader's. Its loop owns all that it remembers; looks run beside it, and hand their outcomes over.
type work struct {
	*looker

	known map[string]*memory // by the policy's uid
	ended chan outcome
	group *errgroup.Group
	count int // of looks that are under way
}

// outcome is the end of a look.
type outcome struct {
	uid string
	found
}

func (w *work) run(ctx context.Context) error {
	watcher := w.p.Objects.WatchAll()
	defer watcher.Close()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-watcher.Ready():
		case <-timer.C:
		case o := <-w.ended:
			w.end(o)
		}
		w.endAll()
		policies := w.p.Fleet.ImagePolicies()
		if len(policies) == 0 && w.count == 0 {
			return nil
		}
		keys, isLagged := watcher.Take()
		if err := w.begin(ctx, policies, keys, isLagged); err != nil {
			return err
		}
		timer.Reset(tick)
		if err := backoff.Wait(ctx, gather); err != nil {
			return err
		}
	}
}

// endAll remembers the outcomes that have come.
func (w *work) endAll() {
	for {
		select {
		case o := <-w.ended:
			w.end(o)
		default:
			return
		}
	}
}

// end remembers the outcome of a look.
func (w *work) end(o outcome) {
	w.count--
	m := w.known[o.uid]
	if m == nil {
		return // the policy is gone
	}
	m.isRunning, m.at, m.state, m.settled = false, time.Now(), o.state, o.settled
	if m.failures++; !o.isFailure {
		m.failures = 0
	}
	m.retryAt = m.at.Add(max(o.retryAfter, retryPolicy.Delay(m.failures-1)))
}

// begin begins looks at the due policies, as many as may run.
func (w *work) begin(ctx context.Context, policies []*catalog.ImagePolicy, keys []catalog.Key, isLagged bool) error {
	orders, err := w.p.Store.Orders(ctx)
	if err != nil {
		return err
	}
	if err := w.learn(ctx, policies); err != nil {
		return err
	}
	repositories := map[string]bool{}
	for _, key := range keys {
		if key.Kind == catalog.KindRepository {
			repositories[key.Name] = true
		}
	}
	now := time.Now()
	for _, policy := range policies {
		m := w.known[policy.UID]
		isTouched := repositories[policy.Spec.Repository] || policy.Spec.Write != nil && repositories[policy.Spec.Write.Repository]
		m.isStale = m.isStale || isLagged || isTouched
		order := orders[policy.UID]
		if policy.Spec.Suspended || m.isRunning || w.count == atOnce || !m.isDue(policy.ResourceVersion, order, now) {
			continue
		}
		look := lookAt{policy: policy, last: m.state, order: order, isAsked: order != m.order}
		if m.version == policy.ResourceVersion && !look.isAsked {
			look.settled = m.settled
		}
		m.isRunning, m.isStale, m.version, m.order = true, false, policy.ResourceVersion, order
		w.count++
		w.group.Go(func() error {
			found, err := w.look(ctx, look)
			w.ended <- outcome{policy.UID, found} // never blocks: as many fit in as run
			return err
		})
	}
	return nil
}

// learn makes the memory one of these policies: it reads what earlier terms found, and forgets policies that are gone.
func (w *work) learn(ctx context.Context, policies []*catalog.ImagePolicy) error {
	known := make(map[string]*memory, len(policies))
	var unknown []string
	for _, policy := range policies {
		if known[policy.UID] = w.known[policy.UID]; known[policy.UID] == nil {
			unknown = append(unknown, policy.UID)
		}
	}
	states, err := w.p.Store.States(ctx, unknown)
	if err != nil {
		return err
	}
	for _, uid := range unknown {
		known[uid] = &memory{state: states[uid], order: states[uid].Asked}
	}
	w.known = known
	return nil
}

// isDue reports whether a policy of that version is due. A look that failed is repeated after its pause, unless people ask or edit, or
// a repository changes.
func (m *memory) isDue(version, order int64, now time.Time) bool {
	switch {
	case m.version != version || m.order != order:
		return true
	case m.failures > 0:
		return !now.Before(m.retryAt) || m.isStale && now.Sub(m.at) >= staleAfter
	}
	return m.isStale || now.Sub(m.at) >= lookEvery
}
