// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/leatdev/leat/internal/backoff"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
)

const (
	// pollGrace is how long an agent that polls counts as connected after it was heard from.
	pollGrace = 3 * time.Minute
	// presenceInterval is how often presence is stored, for other replicas and for after a restart.
	presenceInterval = time.Minute
)

// presence is what this replica heard of one agent.
type presence struct {
	cluster string
	// streams counts open WatchPlan streams.
	streams int
	seen    time.Time
	// until is when the agent no longer counts as connected, unless a stream is open.
	until time.Time
	// dirty is set when seen or until differ from what is stored.
	dirty bool
	// shown is what watchers were told last.
	shown bool
}

func (p *presence) connected(at time.Time) bool {
	return p.streams > 0 || at.Before(p.until)
}

// attendance is who was heard from, by the cluster's uid. It is safe for concurrent use.
type attendance struct {
	mu    sync.Mutex
	byUID map[string]*presence
}

func newAttendance() *attendance { return &attendance{byUID: map[string]*presence{}} }

// note changes what is known of a cluster's agent, and tells whether watchers are to hear of it.
func (a *attendance) note(cluster *catalog.Cluster, change func(*presence, time.Time)) (flipped bool) {
	at := now()
	a.mu.Lock()
	defer a.mu.Unlock()
	p, ok := a.byUID[cluster.UID]
	if !ok {
		p = &presence{cluster: cluster.Name}
		a.byUID[cluster.UID] = p
	}
	p.seen, p.dirty = at, true
	change(p, at)
	flipped = p.connected(at) != p.shown
	p.shown = p.connected(at)
	return flipped
}

// of returns what is known of a cluster's agent.
func (a *attendance) of(uid string) (presence, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p, ok := a.byUID[uid]
	if !ok {
		return presence{}, false
	}
	return *p, true
}

// streaming tells whether the cluster's agent holds a stream.
func (a *attendance) streaming(uid string) bool {
	p, _ := a.of(uid)
	return p.streams > 0
}

func (a *attendance) forget(uid string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.byUID, uid)
}

// Heard notes that a cluster's agent polled or reported.
func (v *View) Heard(cluster *catalog.Cluster) {
	v.notePresence(cluster, func(p *presence, at time.Time) { p.until = at.Add(pollGrace) })
}

// Opened notes that a cluster's agent opened a stream; the caller calls the returned function when it is closed.
func (v *View) Opened(cluster *catalog.Cluster) (closed func()) {
	v.notePresence(cluster, func(p *presence, at time.Time) {
		p.streams++
		p.until = at.Add(pollGrace)
	})
	return func() {
		v.notePresence(cluster, func(p *presence, at time.Time) {
			p.streams = max(p.streams-1, 0) // none when the store was restored from a backup in the meantime
			if p.streams == 0 {
				p.until = at
			}
		})
	}
}

func (v *View) notePresence(cluster *catalog.Cluster, change func(*presence, time.Time)) {
	if v.presence.note(cluster, change) {
		v.p.Objects.Publish(cluster.Key())
	}
}

// MonitorPresence stores who was heard from, tells watchers who fell silent, and forgets the plans of those who have been
// silent for long, until ctx is done.
func (v *View) MonitorPresence(ctx context.Context) error {
	for {
		if err := backoff.Wait(ctx, backoff.Jitter(presenceInterval, 0.25)); err != nil {
			return err
		}
		v.DropPlans(now().Add(-planKept))
		if err := v.StorePresence(ctx); err != nil && ctx.Err() == nil {
			v.p.Logger.WarnContext(ctx, "presence of agents not stored", slog.Any("error", err))
		}
	}
}

// StorePresence stores what was heard since the last time.
func (v *View) StorePresence(ctx context.Context) error {
	batch, silent := v.presence.collect()
	v.p.Objects.Publish(silent...)
	if len(batch) == 0 {
		return nil
	}
	err := v.p.Store.SavePresence(ctx, batch)
	if err != nil {
		v.presence.keep(batch)
	}
	return err
}

// collect returns what is to be stored, and who fell silent.
func (a *attendance) collect() (batch []catalog.Presence, silent []catalog.Key) {
	at := now()
	a.mu.Lock()
	defer a.mu.Unlock()
	for uid, p := range a.byUID {
		if p.streams > 0 {
			p.seen, p.until, p.dirty = at, at.Add(pollGrace), true
		}
		if p.shown != p.connected(at) {
			p.shown = p.connected(at)
			silent = append(silent, catalog.Key{Kind: catalog.KindCluster, Name: p.cluster})
		}
		if p.dirty {
			batch = append(batch, catalog.Presence{ClusterUID: uid, SeenAt: p.seen, ConnectedUntil: p.until})
			p.dirty = false
		}
	}
	return batch, silent
}

// keep makes what was not stored be stored the next time.
func (a *attendance) keep(batch []catalog.Presence) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, entry := range batch {
		if p, ok := a.byUID[entry.ClusterUID]; ok {
			p.dirty = true
		}
	}
}

// connected returns how many agents hold a stream.
func (a *attendance) connected() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for _, p := range a.byUID {
		if p.streams > 0 {
			n++
		}
	}
	return n
}

// Connected returns how many agents are connected to this replica by a stream.
func (v *View) Connected() int { return v.presence.connected() }

// heard joins what this replica knows of an agent's presence with what is stored.
func (v *View) heard(cluster *catalog.Cluster) (connected bool, seen time.Time) {
	at := now()
	connected = at.Before(cluster.Agent.ConnectedUntil)
	seen = cluster.Agent.LastSeenAt
	p, ok := v.presence.of(cluster.UID)
	if !ok {
		return connected, seen
	}
	if p.seen.After(seen) {
		// Heard from here last: the stored word is older.
		return p.connected(at), p.seen
	}
	return connected || p.connected(at), seen
}
