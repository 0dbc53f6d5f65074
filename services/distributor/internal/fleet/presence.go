// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"log/slog"
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

// presence is what this replica heard of one agent. It is kept under the cluster's uid.
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
			p.streams--
			if p.streams == 0 {
				p.until = at
			}
		})
	}
}

func (v *View) notePresence(cluster *catalog.Cluster, note func(*presence, time.Time)) {
	at := now()
	v.mu.Lock()
	p, ok := v.presence[cluster.UID]
	if !ok {
		p = &presence{cluster: cluster.Name}
		v.presence[cluster.UID] = p
	}
	p.seen, p.dirty = at, true
	note(p, at)
	flipped := p.connected(at) != p.shown
	p.shown = p.connected(at)
	v.mu.Unlock()
	if flipped {
		v.p.Objects.Publish(cluster.Key())
	}
}

// MonitorPresence stores who was heard from, and tells watchers who fell silent, until ctx is done.
func (v *View) MonitorPresence(ctx context.Context) error {
	for {
		if err := backoff.Wait(ctx, backoff.Jitter(presenceInterval, 0.25)); err != nil {
			return err
		}
		if err := v.StorePresence(ctx); err != nil && ctx.Err() == nil {
			v.p.Logger.WarnContext(ctx, "presence of agents not stored", slog.Any("error", err))
		}
	}
}

// StorePresence stores what was heard since the last time.
func (v *View) StorePresence(ctx context.Context) error {
	batch, silent := v.collectPresence()
	v.p.Objects.Publish(silent...)
	if len(batch) == 0 {
		return nil
	}
	err := v.p.Store.SavePresence(ctx, batch)
	if err != nil {
		v.mu.Lock()
		defer v.mu.Unlock()
		for _, entry := range batch {
			if p, ok := v.presence[entry.ClusterUID]; ok {
				p.dirty = true
			}
		}
	}
	return err
}

func (v *View) collectPresence() (batch []catalog.Presence, silent []catalog.Key) {
	at := now()
	v.mu.Lock()
	defer v.mu.Unlock()
	for uid, p := range v.presence {
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

// Connected returns how many agents are connected to this replica by a stream.
func (v *View) Connected() int {
	v.mu.RLock()
	defer v.mu.RUnlock()
	n := 0
	for _, p := range v.presence {
		if p.streams > 0 {
			n++
		}
	}
	return n
}

// heard joins what this replica knows of an agent's presence with what is stored.
func (v *View) heard(cluster *catalog.Cluster) (connected bool, seen time.Time) {
	at := now()
	connected = at.Before(cluster.Agent.ConnectedUntil)
	seen = cluster.Agent.LastSeenAt
	p, ok := v.presence[cluster.UID]
	if !ok {
		return connected, seen
	}
	if p.seen.After(seen) {
		// Heard from here last: the stored word is older.
		return p.connected(at), p.seen
	}
	return connected || p.connected(at), seen
}
