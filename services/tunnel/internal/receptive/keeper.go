// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package receptive

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/internal/kit/lease"
	"github.com/leatdev/leat/internal/kit/rendezvous"
	"github.com/leatdev/leat/internal/kit/wake"
)

// Params are the arguments of New.
type Params struct {
	// Self names this replica.
	Self      string
	Directory Directory
	// Changed is sent to when the directory may have changed. Nil: it is asked at intervals only.
	Changed <-chan struct{}
	Dialer  Dialer
	// Group and Leases are shared with the other replicas. Nil: this is the only one.
	Group  Group
	Leases lease.Store
	// Draining is closed when the replica begins to end.
	Draining <-chan struct{}
	Logger   *slog.Logger
}

// Keeper keeps this replica connected.
type Keeper struct {
	params Params
	leases lease.Store   // nil: this is the only replica
	ends   *rate.Limiter // of tenures
	dials  *rate.Limiter
	pause  backoff.Policy
	meters meters
	// apart is how many agents are not connected that this replica dials.
	apart atomic.Int64

	// Only Run uses these.
	clusters map[string]Cluster // by uid
	version  string
	members  []string // nil: not known yet
	tenures  map[string]*tenure
	silent   map[string]bool // what does not answer
	ending   bool
	running  sync.WaitGroup
}

// New returns a Keeper that does nothing before Run.
func New(p Params) *Keeper {
	k := &Keeper{
		params: p, ends: rate.NewLimiter(perSecond, 1), dials: rate.NewLimiter(perSecond, 1),
		pause: backoff.Policy{Initial: firstPause, Max: maxPause}, tenures: map[string]*tenure{}, silent: map[string]bool{},
	}
	if p.Group == nil {
		k.members = []string{p.Self}
	} else {
		k.leases = newPaced(p.Leases)
	}
	return k
}

// Run dials until ctx is done. From the end of Params.Draining on others are to dial in its place:
// it gives its leases up, and keeps the connections that it has.
func (k *Keeper) Run(ctx context.Context) error {
	defer k.running.Wait()
	beats, lists := time.NewTimer(0), time.NewTimer(0)
	defer beats.Stop()
	defer lists.Stop()
	draining := k.params.Draining
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-draining:
			draining = nil
			k.ending = true
			k.part(ctx)
		case <-beats.C:
			k.beat(ctx)
			beats.Reset(backoff.Jitter(beatEvery, 0.25))
		case <-lists.C:
			k.list(ctx)
			lists.Reset(backoff.Jitter(listEvery, 0.25))
		case <-k.params.Changed:
			k.list(ctx)
		}
		k.settle(ctx)
	}
}

func (k *Keeper) beat(ctx context.Context) {
	if k.params.Group == nil || k.ending {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	members, err := k.params.Group.Beat(ctx, k.params.Self)
	if k.report(ctx, "group of replicas", err); err == nil {
		k.members = members
	}
}

// part announces that other replicas must dial from now on.
func (k *Keeper) part(ctx context.Context) {
	if k.params.Group == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	k.report(ctx, "group of replicas", k.params.Group.Part(ctx, k.params.Self))
}

func (k *Keeper) list(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	clusters, version, err := k.params.Directory.List(ctx, k.version)
	if k.report(ctx, "list of clusters to dial", err); err != nil || version == k.version {
		return
	}
	k.version, k.clusters = version, make(map[string]Cluster, len(clusters))
	for _, c := range clusters {
		k.clusters[c.UID] = c
	}
}

// report logs when a dependency stops answering and when it answers again.
func (k *Keeper) report(ctx context.Context, what string, err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	switch was := k.silent[what]; {
	case err != nil && !was:
		k.params.Logger.WarnContext(ctx, what+" does not answer, using its last answer", slog.Any("error", err))
	case err == nil && was:
		k.params.Logger.InfoContext(ctx, what+" answers again")
	}
	k.silent[what] = err != nil
}

// settle begins and ends tenures, in the same order on all replicas, so that what one gives up
// another asks for soon after.
func (k *Keeper) settle(ctx context.Context) {
	for _, uid := range slices.Sorted(maps.Keys(k.tenures)) {
		t := k.tenures[uid]
		c, known := k.clusters[uid]
		switch {
		case wake.IsClosed(t.done):
			delete(k.tenures, uid)
		case !known:
			t.stop(errGone)
		case k.ending:
			t.stop(errDraining)
		case !k.isMine(uid):
			t.stop(errMoved)
		default:
			t.update(ctx, c)
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(k.clusters)) {
		if _, have := k.tenures[uid]; !have && !k.ending && k.isMine(uid) {
			t := newTenure(k, k.clusters[uid])
			k.tenures[uid] = t
			k.running.Go(func() { t.run(ctx) })
		}
	}
}

// isMine reports whether this replica should dial.
func (k *Keeper) isMine(uid string) bool {
	return rendezvous.Rank(uid, k.members, k.params.Self) == 0 && len(k.members) > 0
}
