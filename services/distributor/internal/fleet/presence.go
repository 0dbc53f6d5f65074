// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"sync"
	"time"

	"github.com/leatdev/leat/internal/kit/wake"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/fanout"
)

const (
	// pollGrace is how long an agent that polls counts as connected after it was heard from.
	pollGrace = 3 * time.Minute
	// arrivalPause is how long after an arrival it is stored.
	arrivalPause = time.Second
)

// PresenceStore stores when agents were last heard from.
type PresenceStore interface {
	// SavePresence and Now are catalog.Reports'.
	SavePresence(ctx context.Context, presence []catalog.Presence) error
	Now(ctx context.Context) (time.Time, error)
}

// Presence records when this replica heard from each cluster's agent, and whether the agent holds a
// stream. It notifies the cluster's watchers when the agent comes and goes. It is safe for
// concurrent use.
//
// Its times are those of the store's clock, by which replicas agree on who is connected.
//
// It has a lock of its own, because every call of an agent writes to it. It calls nothing while it
// holds the lock.
type Presence struct {
	store   PresenceStore
	objects *fanout.Hub[catalog.Key]
	clock   sharedClock

	// arrived is set when an agent has come that this replica did not count as connected.
	arrived wake.Signal

	mu    sync.Mutex
	byUID map[string]*agentPresence
}

// agentPresence is this replica's record of one agent.
type agentPresence struct {
	cluster string
	// streams counts open WatchPlan streams.
	streams int
	seen    time.Time
	// until is when the agent no longer counts as connected, unless a stream is open.
	until time.Time
	// isUnsaved is true if seen or until differ from the stored ones.
	isUnsaved bool
	// shown is the state of the last notification of watchers.
	shown bool
	// hasArrived is true if the agent has come since presence was last stored.
	hasArrived bool
}

func (p *agentPresence) isConnected(at time.Time) bool { return p.streams > 0 || at.Before(p.until) }

// show reports whether the agent came or went since watchers were last notified.
func (p *agentPresence) show(at time.Time) (hasChanged bool) {
	last := p.shown
	p.shown = p.isConnected(at)
	return p.shown != last
}

// take returns the presence of an agent for the store, and marks it as stored.
func (p *agentPresence) take(uid string) catalog.Presence {
	p.isUnsaved, p.hasArrived = false, false
	return catalog.Presence{ClusterUID: uid, SeenAt: p.seen, ConnectedUntil: p.until}
}

// Heard records that a cluster's agent polled or reported.
func (r *Presence) Heard(cluster *catalog.Cluster) {
	r.record(cluster, func(p *agentPresence, at time.Time) { p.until = at.Add(pollGrace) })
}

// Opened records that a cluster's agent opened a stream. The caller calls the returned function
// when it is closed.
func (r *Presence) Opened(cluster *catalog.Cluster) (closed func()) {
	r.record(cluster, func(p *agentPresence, at time.Time) {
		p.streams++
		p.until = at.Add(pollGrace)
	})
	return func() {
		r.record(cluster, func(p *agentPresence, at time.Time) {
			p.streams = max(p.streams-1, 0) // the cluster may have been forgotten since
			if p.streams == 0 {
				p.until = at
			}
		})
	}
}

func (r *Presence) record(cluster *catalog.Cluster, change func(*agentPresence, time.Time)) {
	if r.recordOnly(cluster, change) {
		r.objects.Publish(cluster.Key())
	}
}

func (r *Presence) recordOnly(cluster *catalog.Cluster, change func(*agentPresence, time.Time)) (hasChanged bool) {
	at := r.clock.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	p, ok := r.byUID[cluster.UID]
	if !ok {
		p = &agentPresence{cluster: cluster.Name}
		r.byUID[cluster.UID] = p
	}
	p.seen, p.isUnsaved = at, true
	change(p, at)
	hasChanged = p.show(at)
	if hasChanged && p.shown {
		p.hasArrived = true
		r.arrived.Set()
	}
	return hasChanged
}

// presenceOf joins this replica's record of a cluster's agent with the stored one.
func (r *Presence) presenceOf(cluster *catalog.Cluster) (isConnected bool, seen time.Time) {
	at := r.clock.now()
	isConnected, seen = at.Before(cluster.Agent.ConnectedUntil), cluster.Agent.LastSeenAt
	r.mu.Lock()
	defer r.mu.Unlock()
	p, ok := r.byUID[cluster.UID]
	switch {
	case !ok:
		return isConnected, seen
	case p.seen.After(seen):
		// This replica heard from the agent last: the stored time is older.
		return p.isConnected(at), p.seen
	}
	return isConnected || p.isConnected(at), seen
}

// isStreaming reports whether the cluster's agent holds a stream.
func (r *Presence) isStreaming(clusterUID string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	p, ok := r.byUID[clusterUID]
	return ok && p.streams > 0
}

// forgetAgents drops the records of the agents of deleted clusters.
func (r *Presence) forgetAgents(clusterUIDs []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, uid := range clusterUIDs {
		delete(r.byUID, uid)
	}
}

// Connected returns how many agents are connected to this replica by a stream.
func (r *Presence) Connected() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, p := range r.byUID {
		if p.streams > 0 {
			n++
		}
	}
	return n
}

// StorePresence stores what was heard since the last time, and notifies the watchers of agents that
// have gone silent.
func (r *Presence) StorePresence(ctx context.Context) error { return r.save(ctx, r.collect()) }

// storeArrivals stores the agents that have come since the last time. Other replicas count an agent
// as away until then: the replica that it leaves stores that it has gone.
func (r *Presence) storeArrivals(ctx context.Context) error { return r.save(ctx, r.collectArrivals()) }

// save stores a batch, or keeps it for the next time.
func (r *Presence) save(ctx context.Context, batch []catalog.Presence) error {
	if len(batch) == 0 {
		return nil
	}
	err := r.store.SavePresence(ctx, batch)
	if err != nil {
		r.keep(batch)
	}
	return err
}

// collect takes what the store lacks, and notifies the watchers of agents that have gone silent.
func (r *Presence) collect() (batch []catalog.Presence) {
	at := r.clock.now()
	var silent []catalog.Key
	defer func() { r.objects.Publish(silent...) }()
	r.mu.Lock()
	defer r.mu.Unlock()
	for uid, p := range r.byUID {
		if p.streams > 0 {
			p.seen, p.until, p.isUnsaved = at, at.Add(pollGrace), true
		}
		if p.show(at) {
			silent = append(silent, catalog.Key{Kind: catalog.KindCluster, Name: p.cluster})
		}
		if p.isUnsaved {
			batch = append(batch, p.take(uid))
		}
	}
	return batch
}

// collectArrivals returns the agents that have come and are not stored yet.
func (r *Presence) collectArrivals() (batch []catalog.Presence) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for uid, p := range r.byUID {
		if p.hasArrived {
			batch = append(batch, p.take(uid))
		}
	}
	return batch
}

// keep has a batch that could not be stored stored the next time.
func (r *Presence) keep(batch []catalog.Presence) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, entry := range batch {
		if p, ok := r.byUID[entry.ClusterUID]; ok {
			p.isUnsaved = true
		}
	}
}
